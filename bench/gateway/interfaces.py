"""The gateway on the kinds of interfaces that meshes have, in namespaces (as root).

    server - gateway - [relay] - client

The mesh side is a Wi-Fi interface of the kernel's own 802.11 (mac80211_hwsim: simulated radios without loss), or what
is built on one, as batman-adv, or a bridge, or a tunnel; or the wired side does NAT. Control has a fixed rate into the
mesh and a fixed window (RATE_KBPS, WINDOW). The client makes a call of `fairhop call` beside a download over 20 ms. A
row tells what the doctor objects to about the interfaces, how packets are paced, the part of the configured rate that
the download has, the most segments that it had under way, what the call lost or got late, in how many directions the
gateway knows the call, and whether the interfaces have their queues and no filters afterwards.

Needs a kernel with mac80211_hwsim and batman-adv, such as that of a guest, and the packages iw, hostapd, nftables
and wireguard-tools:

    fairhop emulate k-mix --attach 0 --set 'traffic=[]' --set warmup_s=0 --virtual --kernel 6.12 --host-files --
        python3 bench/gateway/interfaces.py --program target/release/fairhop [--kinds NAME ...]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from network import (
    Daemon,
    add,
    firewall,
    forward,
    inside,
    need_root,
    remove,
    run,
    started,
    wireguard_key,
    wireguard_peer,
)

SERVER, GATEWAY, RELAY, CLIENT = NAMES = ("fhi-server", "fhi-gateway", "fhi-relay", "fhi-client")
SERVER_ADDRESS = "10.9.1.1"
#: Addresses of gateway and client below a tunnel.
OUTER = {GATEWAY: "10.9.4.1", CLIENT: "10.9.4.2"}
RATE_KBPS, WINDOW, SECONDS = 1000, 6, 9
#: Payload per byte of IP in full segments with timestamps.
PAYLOAD = 1448 / 1500
CONFIG = """\
mode = "live"
[[gateway]]
mesh = "{mesh}"
wired = "w0"
[control]
kind = "combined"
rate_kbps = {rate}
window_packets = {window}
[journal]
folder = "{folder}"
[api]
token_file = "{folder}/token"
"""
ACCESS_POINT = "interface=m0\nssid=fairhop\nhw_mode=g\nchannel=1\nieee80211n=1\nwmm_enabled=1\n"


@dataclass(frozen=True)
class Kind:
    """A kind of interface: what makes it, and its name for the config of the gateway."""

    name: str
    make: Callable[[contextlib.ExitStack, Path], None]
    mesh: str = "m0"
    #: The client is in the network of the server: the gateway is a bridge.
    is_bridged: bool = False


def address(namespace: str, device: str, host: str) -> None:
    run("ip", "-n", namespace, "address", "add", f"{host}/24", "dev", device)
    run("ip", "-n", namespace, "link", "set", device, "up")


def veth(left: str, left_device: str, right: str, right_device: str) -> None:
    run("ip", "link", "add", left_device, "netns", left, "type", "veth", "peer", "name", right_device, "netns", right)
    for namespace, device in ((left, left_device), (right, right_device)):
        run("ip", "-n", namespace, "link", "set", device, "up")


def radios(kind: str, groups: tuple[str, str, str] = ("1", "3", "2")) -> None:
    """Devices m0 of a type in gateway, relay and client. Those hear each other whose groups share a bit: neighbours."""
    phys = sorted(Path("/sys/class/ieee80211").glob("phy*"), key=lambda phy: int(phy.name[3:]))
    for phy, namespace, group in zip(phys, (GATEWAY, RELAY, CLIENT), groups, strict=True):
        Path("/sys/kernel/debug/ieee80211", phy.name, "hwsim/group").write_text(group)
        run("iw", "phy", phy.name, "set", "netns", "name", namespace)
        command = inside(namespace, "iw", "dev")
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for device in re.findall(r"Interface (\S+)", listed):
            run(*command, device, "del")
        run(*inside(namespace, "iw", "phy", phy.name, "interface", "add", "m0", "type", kind))


def mesh_point(*, forwards: bool = True) -> None:
    """802.11s over two hops; its own forwarding is switched off for a routing protocol above it."""
    radios("mp")
    for namespace in (GATEWAY, RELAY, CLIENT):
        run("ip", "-n", namespace, "link", "set", "m0", "up")
        run(*inside(namespace, "iw", "dev", "m0", "mesh", "join", "fairhop", "freq", "2412", "HT20"))
        if not forwards:
            run(*inside(namespace, "iw", "dev", "m0", "set", "mesh_param", "mesh_fwding", "0"))


def ends(device: str, client_device: str | None = None) -> None:
    address(GATEWAY, device, "10.9.2.1")
    address(CLIENT, client_device or device, "10.9.2.2")


def make_veth(_stack: contextlib.ExitStack, _folder: Path) -> None:
    veth(GATEWAY, "m0", CLIENT, "m0")
    ends("m0")


def make_mesh(_stack: contextlib.ExitStack, _folder: Path) -> None:
    mesh_point()
    ends("m0")


def make_ibss(_stack: contextlib.ExitStack, _folder: Path) -> None:
    """An ad hoc network whose relay routes."""
    radios("ibss")
    for namespace in (GATEWAY, RELAY, CLIENT):
        run("ip", "-n", namespace, "link", "set", "m0", "up")
        # With the same BSSID, they need not find each other.
        cell = ("fairhop", "2412", "HT20", "fixed-freq", "02:fa:00:00:00:01")
        run(*inside(namespace, "iw", "dev", "m0", "ibss", "join", *cell))
    address(GATEWAY, "m0", "10.9.3.1")
    for host in ("10.9.3.2", "10.9.2.1"):
        address(RELAY, "m0", host)
    forward(RELAY, "net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.m0.send_redirects=0")
    address(CLIENT, "m0", "10.9.2.2")
    for namespace, net, by in ((GATEWAY, "10.9.2.0/24", "10.9.3.2"), (RELAY, "10.9.1.0/24", "10.9.3.1")):
        run("ip", "-n", namespace, "route", "add", net, "via", by)


def make_access_point(stack: contextlib.ExitStack, folder: Path) -> None:
    # Nobody hears the relay.
    radios("managed", ("1", "2", "1"))
    config = folder / "hostapd.conf"
    config.write_text(ACCESS_POINT)
    started(stack, GATEWAY, "hostapd", str(config), output=subprocess.DEVNULL)
    time.sleep(2)
    run("ip", "-n", CLIENT, "link", "set", "m0", "up")
    run(*inside(CLIENT, "iw", "dev", "m0", "connect", "fairhop"))
    ends("m0")


def make_batman(_stack: contextlib.ExitStack, _folder: Path) -> None:
    """batman-adv over two hops of 802.11s without its own forwarding."""
    mesh_point(forwards=False)
    for namespace in (GATEWAY, RELAY, CLIENT):
        run("ip", "-n", namespace, "link", "add", "bat0", "type", "batadv")
        run("ip", "-n", namespace, "link", "set", "m0", "mtu", "1560", "master", "bat0")
        run("ip", "-n", namespace, "link", "set", "bat0", "up")
    ends("bat0")


def make_bridge(_stack: contextlib.ExitStack, _folder: Path) -> None:
    """A bridge whose port is the mesh, and which routes."""
    mesh_point()
    # A mesh interface may be a port of a bridge; nothing else is in this one.
    run("ip", "-n", GATEWAY, "link", "add", "br0", "type", "bridge")
    run("ip", "-n", GATEWAY, "link", "set", "m0", "master", "br0")
    ends("br0", "m0")


def make_bridged(_stack: contextlib.ExitStack, _folder: Path) -> None:
    """A bridge of the wired network and the mesh; the gateway is on the port of the mesh."""
    mesh_point()
    run("ip", "-n", GATEWAY, "link", "add", "br0", "type", "bridge")
    for port in ("w0", "m0"):
        run("ip", "-n", GATEWAY, "link", "set", port, "master", "br0")
    run("ip", "-n", GATEWAY, "link", "set", "br0", "up")
    address(CLIENT, "m0", "10.9.1.3")


def make_vlan(_stack: contextlib.ExitStack, _folder: Path) -> None:
    veth(GATEWAY, "m0", CLIENT, "m0")
    for namespace in (GATEWAY, CLIENT):
        run("ip", "-n", namespace, "link", "add", "link", "m0", "name", "m0.7", "type", "vlan", "id", "7")
    ends("m0.7")


def make_bond(_stack: contextlib.ExitStack, _folder: Path) -> None:
    for namespace in (GATEWAY, CLIENT):
        run("ip", "-n", namespace, "link", "add", "bond0", "type", "bond", "mode", "active-backup", "miimon", "100")
    veth(GATEWAY, "m0", CLIENT, "m0")
    for namespace in (GATEWAY, CLIENT):
        run("ip", "-n", namespace, "link", "set", "m0", "down")
        run("ip", "-n", namespace, "link", "set", "m0", "master", "bond0")
    ends("bond0")


def make_vxlan(_stack: contextlib.ExitStack, _folder: Path) -> None:
    veth(GATEWAY, "m0", CLIENT, "m0")
    for namespace, far in ((GATEWAY, CLIENT), (CLIENT, GATEWAY)):
        address(namespace, "m0", OUTER[namespace])
        vxlan = (
            "type",
            "vxlan",
            "id",
            "7",
            "remote",
            OUTER[far],
            "local",
            OUTER[namespace],
            "dstport",
            "4789",
            "dev",
            "m0",
        )
        run("ip", "-n", namespace, "link", "add", "vx0", *vxlan)
    ends("vx0")


def make_wireguard(_stack: contextlib.ExitStack, folder: Path) -> None:
    """A mesh behind a tunnel, whose device has no Ethernet."""
    veth(GATEWAY, "m0", CLIENT, "m0")
    keys = {namespace: folder / namespace for namespace in OUTER}
    public = {namespace: wireguard_key(key) for namespace, key in keys.items()}
    for namespace, far in ((GATEWAY, CLIENT), (CLIENT, GATEWAY)):
        address(namespace, "m0", OUTER[namespace])
        run("ip", "-n", namespace, "link", "add", "wg0", "type", "wireguard")
        wireguard_peer(namespace, "wg0", keys[namespace], public[far], "0.0.0.0/0", f"{OUTER[far]}:51820")
    ends("wg0")


def nat(*rules: str) -> None:
    """Hosts of the mesh share the gateway's address, as behind most Internet links."""
    run("ip", "-n", SERVER, "route", "del", "default")
    lines = (
        "table ip fhi {",
        *rules,
        "chain out {",
        "type nat hook postrouting priority 100",
        "oifname w0 masquerade",
        "}",
        "}",
    )
    firewall(GATEWAY, "\n".join(lines))


def make_nat(stack: contextlib.ExitStack, folder: Path) -> None:
    make_mesh(stack, folder)
    nat()


def make_flowtable(stack: contextlib.ExitStack, folder: Path) -> None:
    """Connections bypass the rules of the firewall after their first packets."""
    make_mesh(stack, folder)
    nat(
        *("flowtable fast {", "hook ingress priority 0", "devices = { w0, m0 }", "}"),
        *("chain forward {", "type filter hook forward priority 0", "ip protocol { tcp, udp } flow add @fast", "}"),
    )


KINDS = (
    Kind("veth", make_veth),
    Kind("802.11s", make_mesh),
    Kind("ad hoc", make_ibss),
    Kind("access point", make_access_point),
    Kind("batman-adv", make_batman, "bat0"),
    Kind("bridge that routes", make_bridge, "br0"),
    Kind("port of a bridge", make_bridged, "m0", is_bridged=True),
    Kind("VLAN", make_vlan, "m0.7"),
    Kind("below a VLAN", make_vlan),
    Kind("bond", make_bond, "bond0"),
    Kind("VXLAN", make_vxlan, "vx0"),
    Kind("WireGuard", make_wireguard, "wg0"),
    Kind("802.11s, NAT", make_nat),
    Kind("802.11s, NAT, flowtable", make_flowtable),
)


@contextlib.contextmanager
def network(kind: Kind, folder: Path) -> Iterator[None]:
    """The namespaces with a kind of interface, removed afterwards."""
    remove(NAMES)
    with contextlib.ExitStack() as stack:
        stack.callback(remove, NAMES)
        # Radios of removed namespaces come back to the first one, under other names.
        subprocess.run(["modprobe", "-r", "mac80211_hwsim"], check=False, stderr=subprocess.DEVNULL)
        run("modprobe", "mac80211_hwsim", "radios=3")
        add(NAMES)
        forward(GATEWAY)
        veth(SERVER, "s0", GATEWAY, "w0")
        address(SERVER, "s0", "10.9.1.1")
        if not kind.is_bridged:
            address(GATEWAY, "w0", "10.9.1.2")
            run("ip", "-n", SERVER, "route", "add", "default", "via", "10.9.1.2")
        run("tc", "-n", SERVER, "qdisc", "add", "dev", "s0", "root", "netem", "delay", "20ms", "limit", "1000")
        kind.make(stack, folder)
        if not kind.is_bridged:
            run("ip", "-n", CLIENT, "route", "add", "default", "via", "10.9.2.1")
        deadline = time.monotonic() + 60
        while subprocess.run(inside(CLIENT, "ping", "-qc1", "-W1", "10.9.1.1"), capture_output=True).returncode != 0:
            if time.monotonic() > deadline:
                raise RuntimeError("the client does not reach the server")
        time.sleep(1)  # The kernel says a second later that a new interface is up.
        yield


def queues() -> str:
    """Queues and filters of the gateway's interfaces."""
    shown = subprocess.run(["tc", "-n", GATEWAY, "qdisc", "show"], check=True, capture_output=True, text=True).stdout
    # A handle is the kernel's choice.
    return re.sub(r"^qdisc (\S+) \S+", r"\1", shown, flags=re.M)


def measure(program: Path, kind: Kind, folder: Path) -> list[str]:
    """The row of a kind."""
    before = queues()
    config = CONFIG.format(mesh=kind.mesh, rate=RATE_KBPS, window=WINDOW, folder=folder)
    examined = folder / "examined.toml"
    examined.write_text(config)
    doctor = inside(GATEWAY, str(program), "gateway", "doctor", str(examined), "--json")
    checks = json.loads(subprocess.run(doctor, capture_output=True, check=False).stdout)
    # Of what it says, that about the interfaces: a kernel may do with less.
    objections = [
        f"{check['what']}: {check['found']}"
        for check in checks
        if check["verdict"] != "good" and check["what"] != "kernel"
    ]
    with Daemon(program, GATEWAY, folder, config) as daemon, contextlib.ExitStack() as stack:
        started(stack, SERVER, "iperf3", "--server", output=subprocess.DEVNULL)
        answer = started(stack, SERVER, str(program), "call", "answer", "--bind", SERVER_ADDRESS, "--json")
        time.sleep(0.5)
        phone = (str(program), "call", "make", SERVER_ADDRESS, "--duration", str(SECONDS), "--json")
        call = started(stack, CLIENT, *phone)
        options = ("--reverse", "--omit", "2", "--time", str(SECONDS - 3), "--json")
        download = started(stack, CLIENT, "iperf3", "--client", SERVER_ADDRESS, *options)
        under_way, end = 0, time.monotonic() + SECONDS - 1
        while time.monotonic() < end:
            time.sleep(0.25)
            shown = subprocess.run(inside(SERVER, "ss", "-tinH"), check=True, capture_output=True, text=True).stdout
            under_way = max([under_way, *map(int, re.findall(r"unacked:(\d+)", shown))])
        gateway = daemon.status()["gateways"][0]
        received = json.loads(download.communicate()[0])["end"]["sum_received"]["bits_per_second"]
        call.wait()
        answer.terminate()
        heard = [json.loads(end.communicate()[0].splitlines()[-1]) for end in (call, answer)]
    missing = max((end["lost"] + end["late"]) / end["expected"] for end in heard)
    known = sum(1 for of in gateway["calls"] for way in ("down", "up") if of[way])
    after = queues()
    return [
        "; ".join(objections) or "nothing",
        f"{gateway['datapath']['attachment']}, {gateway['datapath']['pacing']}",
        f"{received / 1000 / (RATE_KBPS * PAYLOAD):.2f}",
        str(under_way),
        f"{100 * missing:.1f} %",
        str(known),
        "as before" if after == before else f"{before!r} is {after!r}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("target/release/fairhop"))
    names = [kind.name for kind in KINDS]
    parser.add_argument("--kinds", nargs="+", default=names, choices=names, metavar="NAME")
    args = parser.parse_args()
    need_root()
    if not Path("/sys/kernel/debug/sched").exists():
        run("mount", "-t", "debugfs", "none", "/sys/kernel/debug")
    columns = ("interface", "doctor", "datapath", "rate", "under way", "lost or late", "directions", "queues")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for kind in (kind for kind in KINDS if kind.name in args.kinds):
        try:
            with tempfile.TemporaryDirectory() as folder, network(kind, Path(folder)):
                row = measure(args.program.resolve(), kind, Path(folder))
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            row = [str(error)]
        print(f"| {kind.name} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
