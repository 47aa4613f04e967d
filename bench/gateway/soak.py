"""Hours of a gateway: calls, transfers and an operator's mistakes, at random, in network namespaces (as root).

    server - gateway - bottleneck (4 Mb/s, 200 packets each way) - client        hosts 10.9.3.2 and up

- Calls come and go: both ends call, with every codec, with and without RTCP.
- Transfers begin as a Poisson process, down and up, most of them short; some clients close their half at once, some
  abort with RST, some ask a port on which nobody listens. One large download and one large upload are always there.
- The operator, at random: reload, reload with a mistake, `mode dry-run` and back, the interface to the mesh down and
  up, another address, half the rate for a minute.
- Prometheus, `status`, `calls` and `flows` are read every ten seconds.

Every ten seconds it keeps what the daemon uses and says in OUT/samples.jsonl. The table has one line for each part of
the time. At the end the daemon is stopped, and what it left behind is listed.

    python3 bench/gateway/soak.py --program target/release/fairhop --minutes 60 --out out/soak
        [--transfers 3] [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import bottleneck
from network import Daemon, inside, need_root, remove, run

PORT = 5001
#: Nobody listens here.
CLOSED_PORT = 5002
HOSTS = 20
RATE = 4_000_000
#: Time between two samples in seconds.
INTERVAL = 10.0
#: Transfers at the same time, at most.
MAX_TRANSFERS = 60
#: A sixth of transfers close their half at once, and a sixth abort. One in 31 asks the closed port.
MODES = ["plain"] * 20 + ["half"] * 5 + ["abort"] * 5 + ["refused"]
#: Parts of the time in the table.
PARTS = 6


def ends_with_rst(sock: socket.socket) -> None:
    """Lets `close` send RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Counts:
    """Bytes and events since the last line that was printed."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.received = self.done = self.failed = 0

    async def print_often(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            print(json.dumps({"time": time.time(), **vars(self)}), flush=True)
            self.clear()


async def receive(reader: asyncio.StreamReader, counts: Counts, at_most: int = 1 << 62) -> int:
    total = 0
    while total < at_most and (data := await reader.read(1 << 16)):
        total += len(data)
        counts.received += len(data)
    return total


async def send(writer: asyncio.StreamWriter, size: int) -> None:
    chunk = bytes(16384)
    while size > 0:
        writer.write(chunk[:size])
        size -= len(chunk)
        await writer.drain()


async def serve(address: str) -> None:
    """The server: a request is a line with a direction and a size."""
    counts = Counts()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
            direction, size = (await reader.readline()).split()
            if direction == b"down":
                await send(writer, int(size))
            else:
                await receive(reader, counts)
        with contextlib.suppress(OSError):
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(answer, address, PORT, backlog=256)
    async with server:
        await counts.print_often()


async def ask(seed: int, per_second: float) -> None:
    """The clients: transfers at random, and one large transfer in each direction."""
    draw, counts = random.Random(seed), Counts()
    active: set[asyncio.Task[None]] = set()

    async def transfer(direction: str, size: int, mode: str, host: int) -> None:
        try:
            reader, writer = await asyncio.open_connection(
                bottleneck.SERVER, CLOSED_PORT if mode == "refused" else PORT, local_addr=(f"10.9.3.{host}", 0)
            )
        except OSError:
            counts.failed += mode != "refused"
            return
        try:
            writer.write(f"{direction} {size}\n".encode())
            if mode == "half" and direction == "down":
                writer.write_eof()
            wanted = size // 2 if mode == "abort" else size
            if direction == "down":
                await receive(reader, counts, wanted)
            else:
                await send(writer, wanted)
            if mode == "abort":
                ends_with_rst(writer.get_extra_info("socket"))
            elif direction == "up":
                writer.write_eof()
                await reader.read()
            counts.done += 1
        except OSError:
            counts.failed += 1
        finally:
            with contextlib.suppress(OSError):
                writer.close()
                await writer.wait_closed()

    async def always(direction: str, host: int) -> None:
        while True:
            await transfer(direction, draw.randrange(2_000_000, 30_000_000), "plain", host)
            await asyncio.sleep(1.0)

    async def arrivals() -> None:
        while True:
            await asyncio.sleep(draw.expovariate(per_second))
            size, mode = int(min(draw.lognormvariate(9.5, 1.5), 2e6)) + 1, draw.choice(MODES)
            direction, host = draw.choices(["down", "up"], [3, 1])[0], draw.randrange(2, 2 + HOSTS)
            if len(active) < MAX_TRANSFERS:
                task = asyncio.create_task(transfer(direction, size, mode, host))
                active.add(task)
                task.add_done_callback(active.discard)

    await asyncio.gather(counts.print_often(), arrivals(), always("down", 2), always("up", 3))


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.journal*"))


async def output(namespace: str, *command: str) -> bytes:
    """What a command prints in a namespace; it ends with the task that waits for it."""
    process = await asyncio.create_subprocess_exec(
        *inside(namespace, *command), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        return (await process.communicate())[0]
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()
        raise


class Soak:
    """One run."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.program: Path = args.program.resolve()
        self.out: Path = args.out
        self.seconds = 60.0 * args.minutes
        self.transfers: float = args.transfers
        self.draw = random.Random(args.seed)
        self.seed: int = args.seed
        self.samples: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.received: list[tuple[float, int]] = []
        self.transfer_counts = {"done": 0, "failed": 0}
        self.began = time.time()

    @property
    def age(self) -> float:
        return time.time() - self.began

    def config(self) -> str:
        return bottleneck.CONFIG.format(folder=self.out / "daemon", mode="live", pacing="auto", settings="")

    async def gateway(self, *words: str) -> bytes:
        return await output("fhb-gateway", str(self.program), "gateway", *words)

    async def call_often(self, caller: str, address: str, seed: int) -> None:
        draw = random.Random(seed)
        while True:
            await asyncio.sleep(draw.expovariate(1 / 15))
            began, duration = self.age, min(10 + draw.expovariate(1 / 60), 300)
            words = ["--codec", draw.choice(["g729a", "g711", "g723.1", "opus"]), "--duration", f"{duration:.0f}"]
            words += ["--rtcp-interval", draw.choice(["0", "1", "5"]), "--count", str(draw.randint(1, 3)), "--json"]
            for line in (await output(caller, str(self.program), "call", "make", address, *words)).splitlines():
                call = json.loads(line)
                bad = [began + second for second in call["bad_seconds"]]
                self.calls.append({"began": began, "caller": caller, "seconds": call["whole_seconds"], "bad": bad})

    async def operate(self, daemon: Daemon) -> None:
        def reload_with(text: str) -> None:
            (self.out / "daemon" / "gateway.toml").write_text(self.config() + text)
            daemon.process.send_signal(signal.SIGHUP)

        async def weights() -> None:
            weight = self.draw.choice([0.5, 1.0, 2.0])
            reload_with(f'[[host]]\nnetwork = "10.9.3.4/30"\nweight = {weight}\n')

        async def mistake() -> None:
            reload_with("window = 3\n")

        async def dry_run() -> None:
            token = str(self.out / "daemon" / "token")
            await self.gateway("mode", "dry-run", "--token-file", token)
            await asyncio.sleep(5)
            await self.gateway("mode", "live", "--token-file", token)

        async def down_and_up() -> None:
            run("ip", "-n", "fhb-gateway", "link", "set", "mesh", "down")
            await asyncio.sleep(2)
            run("ip", "-n", "fhb-gateway", "link", "set", "mesh", "up")
            run("ip", "-n", "fhb-gateway", "route", "replace", "10.9.3.0/24", "via", "10.9.2.2")

        async def another_address() -> None:
            run("ip", "-n", "fhb-gateway", "addr", "add", "10.9.7.1/24", "dev", "mesh")
            await asyncio.sleep(5)
            run("ip", "-n", "fhb-gateway", "addr", "del", "10.9.7.1/24", "dev", "mesh")

        async def half_rate() -> None:
            self.set_rate(RATE // 2)
            await asyncio.sleep(60)
            self.set_rate(RATE)

        kinds: list[Callable[[], Awaitable[None]]] = [
            weights,
            mistake,
            dry_run,
            down_and_up,
            another_address,
            half_rate,
        ]
        while True:
            await asyncio.sleep(self.draw.uniform(60, 180))
            kind = self.draw.choice(kinds)
            self.events.append({"at": self.age, "event": kind.__name__})
            await kind()

    @staticmethod
    def set_rate(rate: int) -> None:
        for device in ("near", "far"):
            run(
                *("tc", "-n", "fhb-middle", "qdisc", "replace", "dev", device, "root", "tbf"),
                *("rate", str(rate), "burst", "1540", "limit", str(bottleneck.PACKETS * 1514)),
            )

    async def sample(self, daemon: Daemon) -> None:
        pid = daemon.process.pid
        with (self.out / "samples.jsonl").open("w") as file:
            while True:
                await asyncio.sleep(INTERVAL)
                process = dict(
                    line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
                )
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                status = json.loads(await self.gateway("status", "--json"))
                for words in (["calls"], ["flows"]):
                    await self.gateway(*words)
                metrics = await output("fhb-gateway", "curl", "-s", "http://127.0.0.1:9470/metrics")
                gateway = status["gateways"][0]
                self.samples.append(
                    {
                        "at": self.age,
                        "rss_kb": int(process["VmRSS"].split()[0]),
                        "threads": int(process["Threads"]),
                        "descriptors": sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
                        "cpu_s": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
                        "journal": folder_bytes(self.out / "daemon"),
                        "metrics": len(metrics),
                        "uptime_s": status["uptime_s"],
                        "reloads": status["reloads"],
                        "reloads_refused": status["reloads_refused"],
                        **{
                            key: gateway[key]
                            for key in ("fault", "decision", "known_flows", "evicted_flows", "distrusted", "counters")
                        },
                        "calls": len(gateway["calls"]),
                        "flows": len(gateway["flows"]),
                    }
                )
                file.write(json.dumps(self.samples[-1]) + "\n")
                file.flush()

    async def count(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout
        async for line in process.stdout:
            entry = json.loads(line)
            self.received.append((entry["time"] - self.began, entry["received"]))
            for key in self.transfer_counts:
                self.transfer_counts[key] += entry[key]

    async def live(self, daemon: Daemon) -> None:
        me = [sys.executable, str(Path(__file__).resolve())]
        roles = [
            ("fhb-server", [*me, "--end", "server"]),
            ("fhb-client", [*me, "--end", "client", "--seed", str(self.seed), "--transfers", str(self.transfers)]),
        ]
        phones = [("fhb-client", bottleneck.CLIENT), ("fhb-server", bottleneck.SERVER)]
        processes, tasks = [], []
        for namespace, command in roles:
            process = await asyncio.create_subprocess_exec(*inside(namespace, *command), stdout=subprocess.PIPE)
            processes.append(process)
            tasks.append(self.count(process))
        for namespace, address in phones:
            command = inside(namespace, str(self.program), "call", "answer", "--bind", address, "--json")
            processes.append(await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL))
        await asyncio.sleep(0.5)
        for number in range(2):
            tasks.append(self.call_often("fhb-server", bottleneck.CLIENT, 100 * self.seed + number))
            tasks.append(self.call_often("fhb-client", bottleneck.SERVER, 100 * self.seed + 50 + number))
        tasks += [self.operate(daemon), self.sample(daemon)]
        running = [asyncio.create_task(task) for task in tasks]
        try:
            await asyncio.wait(running, timeout=self.seconds, return_when=asyncio.FIRST_EXCEPTION)
            for task in running:
                if task.done() and not task.cancelled() and task.exception():
                    raise task.exception()  # type: ignore[misc]
        finally:
            for task in running:
                task.cancel()
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
            await asyncio.gather(*running, *(process.wait() for process in processes), return_exceptions=True)

    def table(self) -> str:
        lines = [
            "| minutes | good call-seconds | data | memory | descriptors | CPU | known flows | journal | budget |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        length, cpu = self.age / PARTS, 0.0
        for part in range(PARTS):
            first, last = part * length, (part + 1) * length
            here = [sample for sample in self.samples if first <= sample["at"] < last]
            if not here:
                continue
            calls = [call for call in self.calls if first <= call["began"] < last]
            seconds = sum(call["seconds"] for call in calls)
            good = 1 - sum(len(call["bad"]) for call in calls) / max(seconds, 1)
            kbps = 8e-3 * sum(size for at, size in self.received if first <= at < last) / length
            budgets = sorted(sample["decision"]["budget_kbps"] or 0 for sample in here)
            lines.append(
                f"| {first / 60:.0f} to {last / 60:.0f} | {100 * good:.1f} % of {seconds} | {kbps:.0f} kb/s "
                f"| {max(sample['rss_kb'] for sample in here) / 1024:.1f} MB "
                f"| {max(sample['descriptors'] for sample in here)} "
                f"| {100 * (here[-1]['cpu_s'] - cpu) / length:.2f} % "
                f"| {max(sample['known_flows'] for sample in here)} "
                f"| {here[-1]['journal'] / 1e3:.0f} kB | {budgets[len(budgets) // 2]:.0f} kb/s |"
            )
            cpu = here[-1]["cpu_s"]
        return "\n".join(lines)

    def run(self) -> None:
        need_root()
        if self.out.exists():
            sys.exit(f"error: {self.out} exists\n  help: give a folder that is not there with --out")
        remove(bottleneck.NAMES)
        (self.out / "daemon").mkdir(parents=True)
        try:
            bottleneck.set_up("mesh")
            self.set_rate(RATE)
            for host in range(3, 2 + HOSTS):
                run("ip", "-n", "fhb-client", "addr", "add", f"10.9.3.{host}/24", "dev", "mesh")
            with Daemon(self.program, "fhb-gateway", self.out / "daemon", self.config()) as daemon:
                with contextlib.suppress(KeyboardInterrupt):
                    asyncio.run(self.live(daemon))
                if daemon.process.poll() is not None:
                    print(f"the daemon ended with {daemon.process.returncode}")
            if not self.samples:
                sys.exit(f"error: no sample within {self.age:.0f} s\n  help: the first comes after {INTERVAL:.0f} s")
            print(self.table())
            print(f"transfers: {self.transfer_counts}; events: {len(self.events)}")
            last = self.samples[-1]
            print(f"counters: {json.dumps(last['counters'])}")
            print(f"reloads: {last['reloads']}, refused: {last['reloads_refused']}, evicted: {last['evicted_flows']}")
            for device in ("mesh", "wired"):
                left = subprocess.run(
                    ["tc", "-n", "fhb-gateway", "qdisc", "show", "dev", device], capture_output=True, check=True
                )
                print(f"left on {device}: {left.stdout.decode().strip()}")
        finally:
            (self.out / "events.json").write_text(json.dumps({"events": self.events, "calls": self.calls}))
            remove(bottleneck.NAMES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("target/release/fairhop"))
    parser.add_argument("--out", type=Path, default=Path("out/soak"))
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--transfers", type=float, default=3.0, help="that begin each second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--end", choices=["server", "client"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        if args.end == "server":
            asyncio.run(serve(bottleneck.SERVER))
        elif args.end == "client":
            asyncio.run(ask(args.seed, args.transfers))
        else:
            Soak(args).run()


if __name__ == "__main__":
    main()
