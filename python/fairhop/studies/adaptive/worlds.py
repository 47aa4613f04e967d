"""Random networks, drawn from a split and a number: on them a controller is developed, chosen and judged.

World k of a split is always the same network. Every axis has a random stream of its own, so a new axis changes only
the worlds that draw it. The splits are disjoint streams: `train` to develop, `validation` to choose between variants,
`test` for the report only.

Each world has labels, one for each class to which it belongs; results are shown for each.

Sources of the receivers' timers: Linux delays ACKs by at least 40 ms (TCP_DELACK_MIN) and acknowledges at once after a
start or a loss; Windows by 50 ms (its TCP global setting, formerly 200 ms); macOS by 100 ms.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fairhop.studies.adaptive import spots
from fairhop.studies.adaptive.spots import SENSITIVITY, Log, Places, Spot

SPLITS = ("train", "validation", "test")
#: Simulated seconds, and those of them in which a controller may learn.
DURATION_S, LEARNING_S = 40, 10
#: Networks of more nodes than this, in which frames are weighed by their power, cost much time and run shorter.
MANY_NODES, SHORTER_S = 15, 30

Table = dict[str, Any]
T = TypeVar("T")


def choose(draw: random.Random, weights: dict[T, float]) -> T:
    """A key, drawn by its weight."""
    return draw.choices(list(weights), list(weights.values()))[0]


def log_uniform(draw: random.Random, low: float, high: float) -> float:
    return math.exp(draw.uniform(math.log(low), math.log(high)))


@dataclass(frozen=True)
class World:
    """A network and its traffic, without a control."""

    split: str
    number: int
    scenario: Table
    labels: tuple[str, ...]
    #: Hops to the farthest end of a data flow, and one-way delay of the Internet.
    hops: int
    delay_ms: int

    def name(self) -> str:
        return f"{self.split}-{self.number}"

    def text(self) -> str:
        """The scenario file."""
        return toml(self.scenario)

    def key(self) -> str:
        """A hash of the scenario file."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:16]

    def entries(self, *kinds: str) -> list[Table]:
        return [entry for entry in self.scenario["traffic"] if entry["kind"] in kinds]

    @property
    def has_calls(self) -> bool:
        return bool(self.entries("call"))


# ---- TOML -----------------------------------------------------------------------------------------------------------


def value(of: object) -> str:
    """A TOML value in one line."""
    if isinstance(of, bool):
        return str(of).lower()
    if isinstance(of, dict):
        return "{ " + ", ".join(f"{key} = {value(item)}" for key, item in of.items()) + " }"
    if isinstance(of, list | tuple):
        return "[" + ", ".join(value(item) for item in of) + "]"
    return json.dumps(of)


def toml(scenario: Table) -> str:
    """A scenario file: plain keys, then tables, then lists of tables."""
    plain = [f"{key} = {value(item)}" for key, item in scenario.items() if not isinstance(item, dict | list)]
    lines = [*plain]
    for key, item in scenario.items():
        if isinstance(item, dict):
            lines += ["", f"[{key}]", *(f"{name} = {value(of)}" for name, of in item.items())]
    for key, item in scenario.items():
        if isinstance(item, list):
            for entry in item:
                lines += ["", f"[[{key}]]", *(f"{name} = {value(of)}" for name, of in entry.items())]
    return "\n".join(lines) + "\n"


# ---- drawing --------------------------------------------------------------------------------------------------------

RATES_AG = (6, 9, 12, 18, 24, 36, 48, 54)
RATES_B = (2, 5.5, 11)
VARIANTS = {
    "cubic": 0.3,
    "bbr": 0.18,
    "reno": 0.12,
    "newreno": 0.08,
    "vegas": 0.08,
    "westwood-plus": 0.07,
    "veno": 0.06,
    "compound": 0.06,
    "westwood": 0.05,
}
CODECS = {"g729a": 0.35, "g711": 0.22, "g723.1": 0.15, "opus": 0.15, "mixed": 0.13}
#: Payload of a call's packet in bytes and packets per second in one direction.
VOICE = {"g729a": (20, 50), "g711": (160, 50), "g723.1": (24, 33), "opus": (60, 50)}


class Drawing:
    """One world while it is drawn."""

    def __init__(self, split: str, number: int) -> None:
        self.split, self.number = split, number
        self.labels: list[str] = []
        self.scenario: Table = {
            "name": f"{split} world {number}",
            "duration_s": DURATION_S,
            "warmup_s": LEARNING_S,
        }
        self.duration_s = DURATION_S
        self.traffic: list[Table] = []
        self.changes: list[Table] = []

    def stream(self, axis: str) -> random.Random:
        """The random numbers of an axis."""
        return random.Random(f"{self.split}/{self.number}/{axis}")

    def label(self, *words: str) -> None:
        self.labels += [word for word in words if word not in self.labels]

    # ---- radio and nodes ----

    def shape(self) -> None:
        """Radio, topology and routes; draws again until all nodes that are needed are connected."""
        draw = self.stream("radio")
        standard = choose(draw, {"802.11a": 0.4, "802.11g": 0.4, "802.11b": 0.2})
        self.rates: Sequence[float] = RATES_B if standard == "802.11b" else RATES_AG
        if standard == "802.11b":
            rate: float = choose(draw, {2: 0.25, 5.5: 0.3, 11: 0.45})
        else:
            rate = choose(draw, {6: 0.15, 9: 0.05, 12: 0.28, 18: 0.1, 24: 0.17, 36: 0.1, 48: 0.05, 54: 0.1})
        self.rate = rate
        capture = choose(draw, {"none": 0.3, "first": 0.35, "stronger": 0.35})
        model = choose(draw, {"range": 0.55, "sinr": 0.33, "threshold": 0.12})
        kind = choose(draw, {"string": 0.45, "mesh": 0.32, "grid": 0.12, "ring": 0.11})
        self.kind = kind
        radio: Table = {"standard": standard, "rate_mbps": rate, "capture": capture}
        self.label(f"standard {standard}", f"rate {'low' if rate < 12 else 'high' if rate > 24 else 'middle'}")
        self.label(f"capture {capture}", f"radio {model}", f"shape {kind}")
        if standard == "802.11b" and rate > 2 and draw.random() < 0.4:
            radio["preamble"] = "short"
        if model == "range":
            self.log = None
            receive, sense = 250, choose(draw, {550: 0.7, 400: 0.2, 300: 0.1})
            spacing = choose(draw, {200.0: 0.6, 150.0: 0.15, 240.0: 0.25})
            self.receive = float(receive)
            radio["propagation"] = {"model": "range", "receive_m": receive, "carrier_sense_m": sense}
        else:
            power = draw.choice((16, 20))
            self.log = Log(round(draw.uniform(2.4, 3.6), 2), 40.0, round(draw.choice((0, 2, 4, 6)), 1), float(power))
            self.needed = float(SENSITIVITY[rate])
            spacing = self.log.distance(self.needed + draw.uniform(4.0, 10.0))
            self.receive = self.log.distance(self.needed + 1.0)
            radio["tx_power_dbm"] = power
            radio["reception"] = model
        self.spacing = spacing
        self.places = self.connected(spacing, kind)
        self.reached = self.places.hops()
        self.depth = max(self.reached.values())
        if self.log is not None:
            if self.places.loss_db is not None and self.log.shadowing_db > 0:
                self.label("radio shadowing")
                radio["propagation"] = {"model": "matrix", "loss_db": [list(row) for row in self.places.loss_db]}
            else:
                radio["propagation"] = {
                    "model": "log-distance",
                    "exponent": self.log.exponent,
                    "reference_loss_db": self.log.reference_loss_db,
                }
        self.scenario["radio"] = radio
        nodes = [{"x_m": x, "y_m": y} for x, y in self.places.spots]
        self.scenario["topology"] = {"kind": "explicit", "gateway": 0, "nodes": nodes}
        if self.log is not None and draw.random() < 0.5:
            self.scenario["routing"] = {"metric": "etx"}
        if self.log is not None and len(nodes) > MANY_NODES:
            self.scenario["duration_s"] = self.duration_s = SHORTER_S
        self.link_rates(radio)

    def connected(self, spacing: float, kind: str) -> Places:
        """Nodes of which all are connected."""
        draw = self.stream("nodes")
        size = {
            "string": choose(draw, {1: 0.15, 2: 0.17, 3: 0.18, 4: 0.17, 5: 0.12, 6: 0.1, 7: 0.06, 8: 0.05}),
            "mesh": draw.randint(12, 40 if self.log is None else 24),
            "grid": draw.randint(3, 6),
            "ring": draw.randint(6, 16),
        }[kind]
        rows = draw.randint(2, 4)
        while True:
            placed: list[Spot] = {
                "string": lambda: spots.string(size, spacing),
                "mesh": lambda: spots.mesh(size, spacing, draw),
                "grid": lambda: spots.grid(size, rows, spacing),
                "ring": lambda: spots.ring(size, spacing),
            }[kind]()
            if self.log is None:
                places = spots.in_range(placed, self.receive)
            else:
                # A decibel of reserve: a route by hops has no use for a link at the edge.
                places = spots.in_shadow(placed, self.log, self.needed + 1.0, draw)
            if len(places.hops()) == len(placed):
                return places

    def link_rates(self, radio: Table) -> None:
        """Sometimes links have rates of their own: faster ones where there is power to spare."""
        draw = self.stream("link-rates")
        if draw.random() > 0.22:
            return
        rates: list[Table] = []
        for (one, other), margin in sorted(self.places.margin.items()):
            if one > other or margin < 0:
                continue
            if self.log is None:
                usable = [rate for rate in self.rates if self.rate / 2.1 <= rate <= 2.1 * self.rate]
                rate = draw.choice(usable)
            else:
                spare = [rate for rate in self.rates if SENSITIVITY[rate] <= SENSITIVITY[self.rate] + margin - 2.0]
                rate = max([*spare, self.rate])
            if rate != self.rate:
                rates.append({"from": one, "to": other, "rate_mbps": rate, "both_ways": True})
        if rates:
            radio["rates"] = rates
            self.label("link rates")

    def medium(self) -> None:
        """Queues and access of the nodes."""
        draw = self.stream("mac")
        packets = 50 if draw.random() < 0.45 else round(log_uniform(draw, 10, 1000))
        queue: Table = {"discipline": "drop-tail", "packets": packets}
        if draw.random() < 0.08:
            queue["discipline"] = "fq-codel"
            self.label("fq-codel nodes")
        mac: Table = {"queue": queue}
        if draw.random() < 0.05:
            mac["edca"] = True
            self.label("edca nodes")
        if draw.random() < 0.05:
            mac["rts_threshold_bytes"] = 500
            self.label("rts")
        self.scenario["mac"] = mac
        self.label(f"queue {'short' if packets < 30 else 'long' if packets > 150 else 'middle'}")

    def internet(self) -> None:
        """The wires behind the gateway."""
        draw = self.stream("internet")
        kind = choose(draw, {"fast": 0.76, "slow": 0.14, "lossy": 0.1})
        self.delay = round(log_uniform(draw, 5, 200))
        rate = 100.0 if kind != "slow" else round(log_uniform(draw, 0.3, 5), 2)
        packets = round(log_uniform(draw, 10, 1000)) if kind == "slow" else 1000
        self.outside = "internet"
        wire = {"rate_mbps": rate, "delay_ms": self.delay, "queue": {"discipline": "drop-tail", "packets": packets}}
        if kind == "lossy":
            # The key [internet] has no loss, so that the server is a host of its own.
            self.outside = "server"
            loss = {"probability": round(log_uniform(draw, 0.0005, 0.02), 5)}
            link = {"between": ["gateway", "server"], **wire, "loss": loss}
            self.scenario["wired"] = {"hosts": [{"name": "server"}], "links": [link]}
        else:
            self.scenario["internet"] = wire
        far = "far" if self.delay > 80 else "near" if self.delay < 20 else "middle"
        self.label(f"internet {kind}", f"delay {far}")

    # ---- traffic ----

    def ends(self, draw: random.Random, number: int) -> list[int]:
        """Nodes at which flows end; in a string mostly its end."""
        nodes = [node for node in self.reached if node != 0]
        if self.kind == "string" and draw.random() < 0.75:
            return [max(nodes)]
        return draw.sample(nodes, min(number, len(nodes)))

    def airtime(self, payload: int) -> float:
        """Airtime in seconds of a frame with this UDP payload and its ACK, roughly: backoff, preambles, bits."""
        bits = 8 * (payload + 64) / (self.rate * 1e6)
        return bits + (900e-6 if self.rates is RATES_B else 190e-6)

    def calls(self) -> None:
        draw = self.stream("calls")
        number = choose(draw, {0: 0.07, 1: 0.18, 2: 0.13, 3: 0.17, 5: 0.17, 7: 0.13, 9: 0.08, 12: 0.07})
        codec = choose(draw, CODECS)
        several = choose(draw, {1: 0.6, 2: 0.15, 3: 0.15, 6: 0.1})
        to = self.ends(draw, several)
        inside = choose(draw, {"gateway": 0.6, self.outside: 0.36, "node": 0.04})
        rtcp = choose(draw, {0: 0.5, 1: 0.25, 5: 0.25})
        arrivals = draw.random() < 0.13
        most = 0.55 if draw.random() < 0.85 else 0.9
        load = 0.0
        groups: dict[tuple[int, str], int] = {}
        for call in range(number):
            of = draw.choice(list(VOICE)) if codec == "mixed" else codec
            node = to[call % len(to)]
            payload, rate = VOICE[of]
            load += 2 * rate * self.airtime(payload) * min(self.reached[node], 4)
            if load > most:
                break
            groups[node, of] = groups.get((node, of), 0) + 1
        entries: list[Table] = []
        for (node, of), count in groups.items():
            near: str | int = inside
            if inside == "node":
                near = draw.choice([other for other in self.reached if other != node])
            entry: Table = {"kind": "call", "from": near, "to": node, "count": count, "codec": of}
            if rtcp:
                entry["rtcp_interval_s"] = rtcp
            entries.append(entry)
        total = sum(groups.values())
        if arrivals and total:
            entries = self.coming_calls(draw, entries)
            self.label("calls come and go")
        self.speech(entries)
        self.traffic += [{"name": f"call-{number}", **entry} for number, entry in enumerate(entries)]
        size = "0" if not total else "1" if total == 1 else "2-4" if total < 5 else "5-12"
        self.label(f"calls {size}")
        if total:
            self.label(f"codec {codec}", f"rtcp {rtcp} s")
            self.label("calls to several nodes" if len({entry["to"] for entry in entries}) > 1 else "calls to one node")
            self.label(
                {"gateway": "calls end at the gateway", "node": "calls inside the mesh"}.get(
                    inside, "calls from outside"
                )
            )

    def speech(self, entries: Sequence[Table]) -> None:
        """Sometimes silence is suppressed, and clocks of callers differ."""
        if not entries:
            return
        if self.stream("silence").random() < 0.13:
            self.label("silence suppression")
            for entry in entries:
                entry["silence_suppression"] = True
        draw = self.stream("drift")
        if draw.random() < 0.13:
            self.label("clock drift")
            for entry in entries:
                entry["drift_ppm"] = round(draw.uniform(-200, 200), 1)

    def coming_calls(self, draw: random.Random, entries: Sequence[Table]) -> list[Table]:
        """Calls that arrive as a Poisson process, as many at a time as the entries have, with exponential durations."""
        mean_s = draw.uniform(8, 25)
        found: list[Table] = []
        for entry in entries:
            # The calls of the start, as a process in balance has them.
            starts = [0.0] * entry["count"]
            at = draw.expovariate(entry["count"] / mean_s)
            while at < self.duration_s - 2:
                starts.append(at)
                at += draw.expovariate(entry["count"] / mean_s)
            for start in starts:
                stop = start + max(2.0, draw.expovariate(1 / mean_s))
                times: Table = {"start_s": round(start, 2)}
                if stop < self.duration_s:
                    times["stop_s"] = round(stop, 2)
                found.append({**entry, "count": 1, **times})
        return found

    def receiver(self, draw: random.Random) -> tuple[str, Table]:
        """A TCP implementation: its name and keys."""
        kind = choose(
            draw, {"linux": 0.3, "standard": 0.22, "windows": 0.15, "macos": 0.1, "timer": 0.17, "every": 0.06}
        )
        keys: dict[str, Table] = {
            "linux": {"profile": "linux"},
            "standard": {},
            "windows": {"delayed_ack_ms": 50, "rto_min_ms": 300},
            "macos": {"delayed_ack_ms": 100, "timestamps": True},
            "timer": {
                "delayed_ack_ms": max(1, round(draw.uniform(0, 200))),
                "profile": draw.choice(("linux", "standard")),
            },
            "every": {"delayed_ack_segments": 1},
        }
        return f"receiver {kind}", keys[kind]

    def data(self) -> None:
        """TCP and QUIC."""
        draw = self.stream("data")
        flows = choose(draw, {1: 0.2, 2: 0.14, 3: 0.18, 6: 0.16, 10: 0.13, 20: 0.08, 30: 0.08, 100: 0.03})
        direction = choose(draw, {"down": 0.62, "up": 0.16, "both": 0.22})
        if flows == 1 and direction == "both":
            flows = 2
        to = self.ends(draw, choose(draw, {1: 0.55, 2: 0.2, 4: 0.25}))
        receiver, keys = self.receiver(draw)
        variants = [choose(draw, VARIANTS) for _ in range(draw.choice((2, 3)) if draw.random() < 0.3 else 1)]
        mss = choose(draw, {1460: 0.8, 1220: 0.12, 536: 0.08})
        quic = draw.random() < 0.12
        self.label(f"data {direction}", f"flows {'1' if flows == 1 else '2-6' if flows < 10 else '10-100'}")
        self.label(receiver, "mix of variants" if len(set(variants)) > 1 else f"tcp {variants[0]}")
        if len(to) > 1:
            self.label("data to several nodes")
        if mss < 1460:
            self.label("small segments")
        if quic:
            self.label("quic")
        groups: dict[tuple[int, str, bool, bool], int] = {}
        for flow in range(flows):
            upload = direction == "up" or (direction == "both" and flow % 2 == 1)
            group = (to[flow % len(to)], variants[flow % len(variants)], upload, quic and flow % 2 == 0)
            groups[group] = groups.get(group, 0) + 1
        self.data_ends = to
        staggered = draw.random() < 0.3
        for number, ((node, variant, upload, is_quic), count) in enumerate(groups.items()):
            ends = {"from": node, "to": self.outside} if upload else {"from": self.outside, "to": node}
            entry: Table = {"kind": "quic" if is_quic else "bulk", "name": f"data-{number}", **ends, "count": count}
            if is_quic:
                entry["controller"] = variant if variant in {"cubic", "bbr", "reno", "newreno"} else "cubic"
            else:
                entry |= {"tcp": variant, **keys}
                if mss < 1460:
                    entry["mss_bytes"] = mss
            if staggered:
                entry["start_s"] = round(draw.uniform(0, 5), 2)
            self.traffic.append(entry)
        self.tcp: Table = {"tcp": variants[0], **({"profile": "linux"} if keys.get("profile") == "linux" else {})}
        self.short_flows(keys)

    def short_flows(self, keys: Table) -> None:
        """Sometimes short transfers come as a Poisson process."""
        draw = self.stream("short")
        if draw.random() > 0.13:
            return
        self.label("short flows")
        at, each_s = 0.0, draw.uniform(0.8, 4)
        while (at := at + draw.expovariate(1 / each_s)) < self.duration_s - 1:
            size = round(log_uniform(draw, 10_000, 1_000_000))
            ends = {"from": self.outside, "to": draw.choice(self.data_ends)}
            times = {"start_s": round(at, 2), "size_bytes": size}
            entry = {"kind": "bulk", "name": f"short-{len(self.traffic)}", **ends, "tcp": self.tcp["tcp"], **keys}
            self.traffic.append(entry | times)

    def others(self) -> None:
        """Web, video and constant-rate traffic."""
        draw = self.stream("web")
        if draw.random() < 0.16:
            self.label("web")
            for number, node in enumerate(self.ends(draw, 3)):
                entry = {"kind": "web", "name": f"web-{number}", "from": self.outside, "to": node}
                think = {"law": "pareto", "min_s": 0.5, "max_s": 30, "shape": 1.5}
                size = {"law": "pareto", "min_bytes": 5000, "max_bytes": 2000000, "shape": 1.1}
                self.traffic.append({**entry, "count": draw.randint(1, 5), **self.tcp, "size": size, "think": think})
        draw = self.stream("video")
        if draw.random() < 0.16:
            self.label("video")
            # Up to a sixth of what a saturated path of this length carries.
            carries = 1e3 / (self.airtime(1472) * min(self.depth, 4)) * 1472 * 8 / 1e6
            kbps = max(64, min(round(log_uniform(draw, 128, 2000)), round(carries / 6)))
            ends = {"from": self.outside, "to": self.ends(draw, 1)[0]}
            frames = {
                "rate_kbps": kbps,
                "group_frames": 12,
                "i_to_p": 3,
                "variation": 0.3,
                "deadline_ms": self.delay + 150,
            }
            self.traffic.append({"kind": "video", "name": "video", **ends, **frames})
        draw = self.stream("cbr")
        if draw.random() < 0.1:
            self.label("cross traffic")
            one, other = draw.sample(sorted(self.reached), 2)
            carries = 1e3 / (self.airtime(500) * 4) * 500 * 8 / 1e6
            rate = round(carries * draw.uniform(0.05, 0.2), 1)
            load = {"rate_kbps": rate, "payload_bytes": 500}
            times = {"start_s": draw.choice((0, 15))}
            self.traffic.append({"kind": "cbr", "name": "cross", "from": one, "to": other, **load, **times})

    # ---- changes ----

    def change(self) -> None:
        """Sometimes the network changes while the run goes on."""
        draw = self.stream("change")
        kind = choose(draw, {"none": 0.8, "rate": 0.08, "moving": 0.06, "failing": 0.06})
        path = self.places.path(max(self.data_ends, key=lambda node: self.reached[node]))
        begin = round(draw.uniform(14, 18), 1)
        end = round(draw.uniform(22, self.duration_s - 6), 1)
        if kind == "rate":
            slower = [rate for rate in self.rates if self.rate / 3 <= rate < self.rate]
            if slower:
                self.label("changing rate")
                hop, rate = draw.randrange(len(path) - 1), float(draw.choice(slower))
                one, other = path[hop], path[hop + 1]
                for at, to in ((begin, rate), (end, self.rate)):
                    for ends in ({"from": one, "to": other}, {"from": other, "to": one}):
                        self.changes.append({"at_s": at, "kind": "rate", **ends, "rate_mbps": to})
        elif kind != "none" and "matrix" not in str(self.scenario["radio"]["propagation"]["model"]):
            (self.failing if kind == "failing" else self.moving)(draw, path, begin, end)

    def failing(self, draw: random.Random, path: Sequence[int], begin: float, end: float) -> None:
        """A node on the path fails, and comes back later, where the others stay connected without it."""
        spare = [node for node in path[1:-1] if len(self.places.hops(without=node)) == len(self.places.spots) - 1]
        used = {entry[key] for entry in self.traffic for key in ("from", "to")}
        spare = [node for node in spare if node not in used]
        if not spare:
            return
        node = draw.choice(spare)
        self.label("failing node")
        x, y = self.places.spots[node]
        far = 1e5
        self.changes += [
            {"at_s": begin, "kind": "move", "node": node, "x_m": x + far, "y_m": y + far},
            {"at_s": end, "kind": "move", "node": node, "x_m": x, "y_m": y},
        ]

    def moving(self, draw: random.Random, path: Sequence[int], begin: float, end: float) -> None:
        """The end of a flow walks or drives on a straight line, in steps of a second, as long as it stays connected."""
        node = path[-1]
        x, y = self.places.spots[node]
        speed, angle = log_uniform(draw, 1.5, 15), draw.uniform(0, 2 * math.pi)
        steps: list[Table] = []
        for second in range(round(end - begin) + 4):
            go = speed * (second + 1)
            at = (round(x + go * math.cos(angle), 1), round(y + go * math.sin(angle), 1))
            others = [*self.places.spots]
            others[node] = at
            if len(spots.in_range(others, 0.97 * self.receive).hops()) < len(others):
                break
            steps.append({"at_s": round(begin + second, 1), "kind": "move", "node": node, "x_m": at[0], "y_m": at[1]})
        if len(steps) > 3:
            self.label("moving node")
            self.changes += steps

    def world(self) -> World:
        self.shape()
        self.medium()
        self.internet()
        self.calls()
        self.data()
        self.others()
        self.change()
        if not self.changes:
            self.label("no change")
        far = max(self.reached[node] for node in self.data_ends)
        self.label(f"hops {far if far < 4 else '4-5' if far < 6 else '6+'}")
        self.scenario["traffic"] = self.traffic
        if self.changes:
            self.scenario["change"] = self.changes
        return World(self.split, self.number, self.scenario, tuple(sorted(self.labels)), far, self.delay)


def drawn(split: str, number: int) -> World:
    """World `number` of a split."""
    return Drawing(split, number).world()
