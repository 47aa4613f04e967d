"""Which real telephones and browsers the gateway knows: a call of each, in namespaces without other traffic (as root).

Each program calls another one of its kind across the gateway. The table says what the gateway shows after some seconds:
the codec whose impairments it assumes, the ways of the call that it measures, and the opinion score.

    python3 bench/gateway/telephones.py --program target/release/fairhop

Needs the packages baresip-core, linphone-cli, gstreamer1.0-tools, gstreamer1.0-plugins-base and -good, ffmpeg,
chromium, coturn, mumble, mumble-server, pulseaudio, openssl, wireguard-go and wireguard-tools. Programs that are
missing are left out, with a line that says so.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import shutil
import sqlite3
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from browser import Network, bottleneck, measure
from network import inside, need_root, status
from tunnel import INNER, tunnel

#: How long a call goes on: the intervals of unknown protocols are known after 1 to 8 s.
CALL_S = 12
#: How long Mumble takes to begin one.
MUMBLE_S = 5
#: Seconds of a browser's call, the first 15 of which `measure` leaves out.
BROWSER_S = 20
TONE = "sine=frequency=440:sample_rate={}"
BARESIP = """\
sip_listen {address}:5060
module_path {modules}
module g711.so
module g722.so
module gsm.so
module opus.so
module aubridge.so
module aufile.so
module_app account.so
module_app menu.so
audio_source aufile,{sound}
audio_player aubridge,nil
audio_alert aubridge,nil
"""
LINPHONE = """\
[sip]
sip_port=5070
sip_tcp_port=-1
sip_tls_port=-1
[rtp]
audio_rtp_port=7078
"""

MUMBLE_PORT = 64_738
MUMBLE_SERVER = """\
host={address}
port={port}
database={folder}/murmur.sqlite
uname=root
bonjour=False
"""
#: Continuous sound at 40 kb/s; none of the windows that the program opens when it runs for the first time.
MUMBLE = """\
[General]
lastupdate=2
[audio]
input=PulseAudio
output=PulseAudio
transmit=0
quality=40000
[pulseaudio]
input=tone.monitor
output=tone
[ui]
usage=false
disablepubliclist=true
"""
#: What it has decided about a server's certificate.
MUMBLE_CERTIFICATES = "CREATE TABLE cert (id INTEGER PRIMARY KEY, hostname TEXT, port INTEGER, digest TEXT)"

#: Begins a call in a network, with files in a folder, until the end of the block.
Call = Callable[[Network, Path], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def running(*commands: list[str]) -> Iterator[None]:
    """Commands that run until the end of the block. They read lines from a pipe that stays empty."""
    with contextlib.ExitStack() as stack:
        for command in commands:
            null = subprocess.DEVNULL
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=null, stderr=null)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            time.sleep(1)
        yield


def sound(folder: Path, rate: int, channels: int = 1) -> Path:
    file = folder / "tone.wav"
    tone = ("-f", "lavfi", "-i", f"{TONE.format(rate)}:duration=60")
    subprocess.run(["ffmpeg", "-v", "error", *tone, "-ac", str(channels), str(file)], check=True)
    return file


def baresip(codec: str) -> Call:
    """A call of two baresip with this codec, such as PCMU/8000/1."""

    @contextlib.contextmanager
    def call(network: Network, folder: Path) -> Iterator[None]:
        file = sound(folder, *(int(number) for number in codec.split("/")[1:]))
        commands = []
        ends = ((network.server, network.server_address), (network.client, network.client_address))
        for namespace, address in ends:
            home = folder / namespace
            home.mkdir()
            words = {"address": address, "sound": file, "modules": "/usr/lib/baresip/modules"}
            (home / "config").write_text(BARESIP.format_map(words))
            account = f"<sip:bench@{address}:5060>;regint=0;answermode=auto;audio_codecs={codec}\n"
            (home / "accounts").write_text(account)
            (home / "contacts").touch()
            commands.append(inside(namespace, "baresip", "-f", str(home)))
        commands[1] += ["-e", f"/dial sip:bench@{network.server_address}:5060"]
        with running(*commands):
            yield

    return call


@contextlib.contextmanager
def linphone(network: Network, folder: Path) -> Iterator[None]:
    file = sound(folder, 16_000)
    with contextlib.ExitStack() as stack:
        ends = []
        for namespace in (network.server, network.client):
            home = folder / namespace
            (home / ".local/share/linphone").mkdir(parents=True)
            (home / "rc").write_text(LINPHONE)
            command = inside(namespace, "env", f"HOME={home}", "linphonec", "-a", "-c", str(home / "rc"))
            log = stack.enter_context((home / "log").open("wb"))
            end = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True)
            stack.callback(end.wait)
            stack.callback(end.terminate)
            ends.append(end)

        def say(end: subprocess.Popen[str], line: str) -> None:
            assert end.stdin is not None
            end.stdin.write(f"{line}\n")
            end.stdin.flush()

        time.sleep(3)
        for end in ends:
            say(end, "soundcard use files")
        say(ends[1], f"call sip:bench@{network.server_address}:5070")
        time.sleep(3)
        for end in ends:
            say(end, f"play {file}")
        yield


def streams(sender: Callable[[str], list[str]]) -> Call:
    """A stream each way; `sender` is the command of one to an address."""

    @contextlib.contextmanager
    def call(network: Network, _folder: Path) -> Iterator[None]:
        with running(
            inside(network.server, *sender(network.client_address)),
            inside(network.client, *sender(network.server_address)),
        ):
            yield

    return call


def gstreamer(*encoder: str) -> Call:
    """Streams of a sound that pauses, with elements from the encoder to the payloader."""
    source = ("gst-launch-1.0", "-q", "audiotestsrc", "is-live=true", "wave=ticks")
    return streams(lambda to: [*source, "!", *encoder, "!", "udpsink", f"host={to}", "port=7000", "bind-port=7000"])


def ffmpeg(*encoder: str) -> Call:
    """Streams with an encoder."""
    source = ("ffmpeg", "-v", "error", "-re", "-f", "lavfi", "-i", TONE.format(48_000))
    return streams(lambda to: [*source, *encoder, "-f", "rtp", f"rtp://{to}:7000?localport=7000"])


def through_tunnel(call: Call) -> Call:
    """The same call in a WireGuard tunnel."""

    @contextlib.contextmanager
    def inner(network: Network, folder: Path) -> Iterator[None]:
        addresses = {f"{end}_address": address for end, address in INNER.items()}
        with tunnel(network, folder), call(replace(network, **addresses), folder):
            yield

    return inner


@contextlib.contextmanager
def mumble(network: Network, folder: Path) -> Iterator[None]:
    """Two Mumble in a room of a server; what the client's end sends comes back to the other one's."""
    pulse = {"XDG_RUNTIME_DIR": str(folder), "PULSE_SERVER": f"unix:{folder}/native"}
    key, certificate, both = folder / "key", folder / "certificate", folder / "both"
    make = f"openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=bench -keyout {key} -out {certificate}"
    join = f"openssl pkcs12 -export -inkey {key} -in {certificate} -out {both} -passout pass:"
    for command in (make, join):
        subprocess.run(command.split(), check=True, capture_output=True)
    settings = {"address": network.server_address, "port": MUMBLE_PORT, "folder": folder}
    (folder / "murmur.ini").write_text(MUMBLE_SERVER.format_map(settings) + f"sslCert={certificate}\nsslKey={key}\n")
    digest = hashlib.sha1(ssl.PEM_cert_to_DER_cert(certificate.read_text())).hexdigest()
    sound_server = (
        *("pulseaudio", "--exit-idle-time=-1", "-n", f"--load=module-native-protocol-unix socket={folder}/native"),
        *("--load=module-null-sink sink_name=tone", "--load=module-sine sink=tone frequency=440"),
    )
    commands = [
        ["env", *(f"{name}={value}" for name, value in pulse.items()), f"HOME={folder}", *sound_server],
        inside(network.server, "murmurd", "-fg", "-ini", str(folder / "murmur.ini")),
    ]
    for namespace in (network.server, network.client):
        home = folder / namespace
        data, config = home / ".local/share/Mumble/Mumble", home / ".config/Mumble"
        for part in (data, config, home / "Documents"):
            part.mkdir(parents=True)
        (config / "Mumble.conf").write_text(MUMBLE)
        shutil.copy(both, home / "Documents/MumbleAutomaticCertificateBackup.p12")
        with contextlib.closing(sqlite3.connect(data / "mumble.sqlite")) as known, known:
            known.execute(MUMBLE_CERTIFICATES)
            row = (network.server_address, MUMBLE_PORT, digest)
            known.execute("INSERT INTO cert (hostname, port, digest) VALUES (?, ?, ?)", row)
        environment = {**pulse, "HOME": str(home), "QT_QPA_PLATFORM": "offscreen"}
        words = ("env", *(f"{name}={value}" for name, value in environment.items()), "mumble")
        commands.append(inside(namespace, *words, f"mumble://{namespace}@{network.server_address}:{MUMBLE_PORT}/"))
    with running(*commands):
        time.sleep(MUMBLE_S)
        yield


@dataclass(frozen=True)
class Telephone:
    """The programs that it needs, its name in the table, and how to make a call; none for a browser."""

    programs: tuple[str, ...]
    name: str
    call: Call | None = None
    relay: bool = False


TELEPHONES = (
    *(
        Telephone(("baresip", "ffmpeg"), f"baresip, {name}", baresip(codec))
        for name, codec in (
            *(("G.711 µ-law", "PCMU/8000/1"), ("G.711 A-law", "PCMA/8000/1"), ("G.722", "G722/16000/1")),
            *(("GSM", "GSM/8000/1"), ("Opus", "opus/48000/2")),
        )
    ),
    Telephone(("linphonec", "ffmpeg"), "Linphone, Opus", linphone),
    Telephone(
        ("gst-launch-1.0",),
        "GStreamer, Opus with silence suppression",
        gstreamer("opusenc", "dtx=true", "frame-size=20", "!", "rtpopuspay"),
    ),
    Telephone(
        ("gst-launch-1.0",),
        "GStreamer, Speex",
        gstreamer("audio/x-raw,rate=16000", "!", "speexenc", "!", "rtpspeexpay"),
    ),
    Telephone(("ffmpeg",), "FFmpeg, Opus in packets of 60 ms", ffmpeg("-c:a", "libopus", "-frame_duration", "60")),
    Telephone(
        ("ffmpeg", "wireguard-go", "wg"),
        "FFmpeg, Opus in packets of 60 ms, in a WireGuard tunnel",
        through_tunnel(ffmpeg("-c:a", "libopus", "-b:a", "32k", "-frame_duration", "60")),
    ),
    Telephone(
        ("gst-launch-1.0", "wireguard-go", "wg"),
        "GStreamer, Speex, in a WireGuard tunnel",
        through_tunnel(gstreamer("audio/x-raw,rate=16000", "!", "speexenc", "!", "rtpspeexpay")),
    ),
    Telephone(
        ("gst-launch-1.0", "wireguard-go", "wg"),
        "GStreamer, Opus with silence suppression, in a WireGuard tunnel",
        through_tunnel(gstreamer("opusenc", "dtx=true", "frame-size=20", "!", "rtpopuspay")),
    ),
    Telephone(("mumble", "murmurd", "pulseaudio", "openssl"), "Mumble", mumble),
    Telephone(("chromium",), "Chromium, sound and video on one port"),
    Telephone(("chromium", "turnserver"), "the same through a TURN server (coturn)", relay=True),
)


def row(calls: list[dict[str, Any]]) -> tuple[str, str, str]:
    if not calls:
        return "", "not known", ""
    call = calls[0]
    ways = [name for name, way in (("into the mesh", call["down"]), ("out of it", call["up"])) if way]
    return call["codec"], " and ".join(ways), f"{call['mos']:.2f}" if call["mos"] else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("target/release/fairhop"))
    parser.add_argument("--only", default="", help="rows whose name contains this")
    args = parser.parse_args()
    program = args.program.resolve()
    need_root()
    print("| telephones | judged as | ways | MOS |\n|---|---|---|---|")
    for telephone in (telephone for telephone in TELEPHONES if args.only in telephone.name):
        missing = [program for program in telephone.programs if shutil.which(program) is None]
        if missing:
            print(f"| {telephone.name} | not installed: {', '.join(missing)} | | |", flush=True)
            continue
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
            network = stack.enter_context(bottleneck(program, with_gateway=True))
            if telephone.call:
                stack.enter_context(telephone.call(network, folder))
                time.sleep(CALL_S)
            else:
                measure(network, 0, "down", BROWSER_S, telephone.relay)
            calls = [call for gateway in status(program, network.gateway)["gateways"] for call in gateway["calls"]]
        print(f"| {telephone.name} | {' | '.join(row(calls))} |", flush=True)


if __name__ == "__main__":
    main()
