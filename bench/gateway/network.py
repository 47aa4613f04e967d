"""Network namespaces, and the gateway's daemon in one of them (as root)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

#: How long the daemon has to start, and to stop after SIGTERM, in seconds.
START_S, STOP_S = 20, 10
# As the service has it (crates/gateway/package/fairhop-gateway.service).
ENVIRONMENT = {"MIMALLOC_ALLOW_THP": "0", "MIMALLOC_PURGE_DELAY": "0"}


def run(*command: str) -> None:
    """Runs a command.

    Raises:
        CalledProcessError: It failed.
    """
    subprocess.run(command, check=True)


def inside(namespace: str, *command: str) -> list[str]:
    """The command line that runs a command in a namespace."""
    return ["ip", "netns", "exec", namespace, *command]


def started(
    stack: contextlib.ExitStack, namespace: str, *command: str, output: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """A command that runs in a namespace, until the end of a block at the latest."""
    process = subprocess.Popen(inside(namespace, *command), stdout=output, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def add(namespaces: Sequence[str]) -> None:
    """Makes namespaces whose loopback is up."""
    for name in namespaces:
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")


def forward(namespace: str, *settings: str) -> None:
    """Lets a namespace forward IPv4, with more settings of sysctl."""
    run(*inside(namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1", *settings))


def firewall(namespace: str, rules: str) -> None:
    """Adds rules of nftables to a namespace."""
    subprocess.run(inside(namespace, "nft", "--file", "-"), check=True, input=rules, text=True)


def remove(namespaces: Sequence[str]) -> None:
    """Removes the namespaces that exist."""
    for name in namespaces:
        subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def wireguard_key(file: Path) -> str:
    """Writes a new private key of WireGuard into a file, and returns its public key."""
    private = subprocess.run(["wg", "genkey"], check=True, capture_output=True).stdout
    file.write_bytes(private)
    shown = subprocess.run(["wg", "pubkey"], input=private, check=True, capture_output=True).stdout
    return shown.decode().strip()


def wireguard_peer(namespace: str, device: str, private: Path, peer: str, networks: str, place: str) -> None:
    """Lets a device of WireGuard reach a peer by its public key, at an address and a port, and listen on that port."""
    port = place.rpartition(":")[2]
    run(
        *inside(namespace, "wg", "set", device, "listen-port", port, "private-key", str(private)),
        *("peer", peer, "allowed-ips", networks, "endpoint", place),
    )


def need_root() -> None:
    """Ends the program with a message if it cannot make namespaces."""
    if os.geteuid() != 0:
        sys.exit("error: network namespaces need root\n  help: run it with sudo")


def status(program: Path, namespace: str) -> dict[str, Any]:
    """What `fairhop gateway status --json` says in a namespace."""
    command = inside(namespace, str(program), "gateway", "status", "--json")
    answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return answer


class Daemon:
    """`fairhop gateway run` in a namespace, from when it is ready until the end of a `with` block.

    Raises:
        RuntimeError: It does not become ready; the message is its log.
    """

    def __init__(self, program: Path, namespace: str, folder: Path, config: str, options: Sequence[str] = ()) -> None:
        self.program, self.namespace, self.log = program, namespace, folder / "log"
        file = folder / "gateway.toml"
        file.write_text(config)
        command = inside(namespace, str(program), "gateway", "run", str(file), *options)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log, env=os.environ | ENVIRONMENT)
        deadline = time.monotonic() + START_S
        while "event=ready" not in self.log.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                self.process.wait()
                raise RuntimeError(self.log.read_text())
            time.sleep(0.05)

    def status(self) -> dict[str, Any]:
        """What `fairhop gateway status --json` says."""
        return status(self.program, self.namespace)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(STOP_S)
