"""Draw the pictures of the guides and of docs/control.md.

The picture of a guide is drawn from the numbers that the guide shows, so that picture and page cannot disagree.
`make docs` draws it again, and `make test` compares (docs.py). The picture of docs/control.md is drawn from a run,
whose decisions are in a Parquet file. To read it, Python needs the module duckdb:

    pip install duckdb
    python3 tools/pictures.py --program target/release/fairhop
"""

from __future__ import annotations

import argparse
import csv
import importlib
import itertools
import math
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sweep_pictures
from shown import output, rows_below
from svg import AMBER, BLUE, FAINT, GREEN, GREY, INK, ORANGE, PINK, SKY, Axes, Svg

ROOT = Path(__file__).resolve().parents[1]
GUIDES = ROOT / "docs" / "guides"
EXAMPLE = ROOT / "docs" / "control-example.svg"

#: How far frames are decoded without a `[radio]`.
RECEIVE_M = 250

# ---- the guides -----------------------------------------------------------------------------------------------------


def first_steps(page: str) -> str:
    """The network of `k-mix`, and where the time of each node goes."""
    kinds = {"own": BLUE, "received": SKY, "overheard": AMBER, "collided": ORANGE, "energy": PINK, "idle": GREY}
    table = rows_below(output(page, "fairhop run k-mix"), "Airtime")
    columns = [table[0].index(kind) for kind in kinds]
    nodes = table[1:]
    svg = Svg("The network of k-mix, and the airtime of its nodes", 880, 520)
    svg.text(30, 32, "The network: five calls and three downloads over four radio hops", size=16, bold=True)
    places = [230 + 140 * number for number in range(len(nodes))]
    high = 120.0
    svg.box(30, high - 24, 106, 48, ["Internet", "host"])
    svg.line((136, high), (places[0], high), INK, 2)
    svg.note(174, high - 8, "wire")
    for a, b in itertools.pairwise(places):
        svg.line((a, high), (b, high), FAINT, 1.5, dash="5 4")
        svg.note((a + b) / 2, high - 8, "200 m")
    for number, place in enumerate(places):
        svg.node(place, high, str(number))
    svg.note(places[0], high - 26, "gateway")
    svg.arrow((places[0], high + 38), (places[-1], high + 38), BLUE, both=True)
    svg.note((places[0] + places[-1]) / 2, high + 33, "5 calls, both ways", colour=BLUE)
    svg.arrow((83, high + 68), (places[-1], high + 68), ORANGE)
    svg.note((places[0] + places[-1]) / 2, high + 63, "3 downloads", colour=ORANGE)
    ranges = ((250, "node 0 is decoded up to 250 m away", 100), (550, "and disturbs others up to 550 m away", 118))
    for metres, name, down in ranges:
        end = places[0] + metres * (places[1] - places[0]) / 200
        svg.line((places[0], high + down), (end, high + down), FAINT, 1.5)
        svg.line((end, high + down - 5), (end, high + down + 5), FAINT, 1.5)
        svg.note(end + 8, high + down + 4, name, anchor="start", colour=FAINT)

    svg.text(30, 290, "Airtime: where the time of each node goes", size=16, bold=True)
    at = 100.0
    for kind, colour in kinds.items():
        svg.rect(at, 306, 14, 14, colour)
        svg.text(at + 20, 318, kind, size=12)
        at += 120
    bars = Axes(svg, 100, 334, 720, 140, (0, 100), (0, 1))
    for number, node in enumerate(nodes):
        top, begin = bars.top + 28 * number, 0.0
        svg.text(92, top + 15, node[0], size=12, anchor="end")
        for column, colour in zip(columns, kinds.values(), strict=True):
            part = float(node[column])
            svg.rect(bars.x(begin), top, bars.x(begin + part) - bars.x(begin), 21, colour)
            if part >= 5:
                on = "#FFFFFF" if colour in (BLUE, ORANGE) else INK
                svg.text(bars.x(begin + part / 2), top + 15, f"{part:.0f}", size=11, anchor="middle", colour=on)
            begin += part
    bars.grid((0, 20, 40, 60, 80, 100), (), "% of the time that is counted", "")
    return str(svg)


def hidden_terminals(page: str) -> str:
    """Who hears whom, and what arrives by size of packet."""
    lines = output(page, "python3 sweep.py")
    rows = [[float(cell.split("±")[0]) for cell in re.split(r"\s{2,}", line.strip())] for line in lines[1:]]
    names = {"hidden": ORANGE, "hidden, with RTS/CTS": BLUE, "within earshot": GREEN}
    svg = Svg("Hidden terminals: who hears whom, and what arrives", 900, 430)
    svg.text(30, 32, "Who hears whom", size=16, bold=True)
    spots, high, metre = (135.0, 235.0, 335.0), 200.0, 0.5
    for spot, colour in ((spots[0], BLUE), (spots[2], ORANGE)):
        svg.circle(spot, high, 250 * metre, colour, stroke=colour, opacity=0.12)
    for a, b in ((spots[0] + 17, spots[1] - 17), (spots[2] - 17, spots[1] + 17)):
        svg.arrow((a, high), (b, high), INK)
    for spot, name, colour in zip(spots, "012", (BLUE, INK, ORANGE), strict=True):
        svg.node(spot, high, name, colour)
    for middle in (185.0, 285.0):
        svg.note(middle, high - 10, "200 m")
    svg.text(spots[1], high + 40, "hears both", size=12, anchor="middle")
    svg.note(spots[1], 352, "Circle: 250 m around a sender, in which it is heard.")
    svg.note(spots[1], 370, "Stations 0 and 2 are outside each other's circle:")
    svg.note(spots[1], 388, "each finds the air idle while the other one sends.")

    svg.text(520, 32, "What arrives", size=16, bold=True)
    chart = Axes(svg, 540, 84, 190, 270, (0, 1400), (0, 10))
    chart.grid((0, 500, 1000, 1400), range(0, 11, 2), "bytes of payload in a packet", "goodput of both, Mb/s")
    for number, (name, colour) in enumerate(names.items(), start=1):
        points = chart.at([(row[0], row[number]) for row in rows])
        svg.polyline(points, colour, 2.5, name)
        for x, y in points:
            svg.circle(x, y, 3.5, colour)
        svg.note(points[-1][0] + 10, points[-1][1] + 4, name, anchor="start", colour=colour)
    return str(svg)


def window(page: str) -> str:
    """Where packets wait, and how large the window may be."""
    with_memory = "fairhop outage --arq optimal --states 3 --memory 0.35"
    channels = {
        "fairhop outage": ("losses independent, sent again at once", BLUE),
        with_memory: ("losses in a row, a slot left out after each", ORANGE),
    }
    svg = Svg("The window that keeps 99 % of the packets in time", 860, 520)
    svg.text(30, 32, "Where packets wait", size=16, bold=True)
    high = 112.0
    svg.box(30, high - 26, 120, 52, ["camera", "sends 200 kb/s"])
    svg.box(290, high - 26, 190, 52, ["base station", "repeats lost frames"])
    svg.box(690, high - 26, 140, 52, ["receiver", "window rwnd"])
    svg.arrow((150, high), (290, high), INK)
    svg.arrow((480, high), (690, high), INK)
    for number in range(6):
        svg.rect(268 - 13 * number, high - 40, 11, 11, SKY if number else BLUE)
    svg.note(242, high - 48, "packets wait here")
    for number in range(10):
        lost = number in (3, 7)
        svg.rect(492 + 19 * number, high - 26, 16, 16, "#FFFFFF" if lost else SKY, stroke=ORANGE if lost else SKY)
        if lost:
            svg.line((494 + 19 * number, high - 24), (506 + 19 * number, high - 12), ORANGE, 2)
            svg.line((494 + 19 * number, high - 12), (506 + 19 * number, high - 24), ORANGE, 2)
    svg.note(585, high - 34, "slots of 5 ms, some lost")
    svg.line((760, high + 40), (90, high + 40), FAINT, 1, dash="4 4")
    svg.line((760, high + 26), (760, high + 40), FAINT, 1, dash="4 4")
    svg.arrow((100, high + 40), (90, high + 40), FAINT, 1)
    svg.note(425, high + 56, "acknowledgments: the window is the number of packets that may be on the way")

    svg.text(30, 212, "How large the window may be: at most 1 % of packets over 50 ms late", size=16, bold=True)
    chart = Axes(svg, 70, 262, 480, 204, (0.5, 10), (10, 26))
    chart.grid(range(1, 11), range(10, 27, 2), "frames lost, %", "largest window, packets")
    round_trip = 17
    svg.line((chart.x(0.5), chart.y(round_trip)), (chart.x(10), chart.y(round_trip)), GREEN, 1.5, dash="6 4")
    svg.note(566, chart.y(round_trip) - 12, "R = 17: from this window on,", anchor="start", colour=GREEN)
    svg.note(566, chart.y(round_trip) + 4, "the link is never idle", anchor="start", colour=GREEN)
    for command, (name, colour) in channels.items():
        points = chart.at([(float(row[0]), float(row[1])) for row in rows_below(output(page, command), "loss %")[1:]])
        svg.polyline(points, colour, 2.5, name)
        for x, y in points:
            svg.circle(x, y, 3.5, colour)
        svg.note(566, points[-1][1] + 8, name, anchor="start", colour=colour)
    return str(svg)


def village(page: str) -> str:
    """The map of the guide's village, and how its calls fare with long and short queues."""
    source = page.partition("```toml\n# village.toml\n")[2].partition("```")[0]
    names = dict(re.findall(r"# (\d+): (.+)", source))
    places = [(node["x_m"], node["y_m"]) for node in tomllib.loads(source)["topology"]["nodes"]]
    svg = Svg("The village, and its calls with long and short queues", 900, 400)
    svg.text(30, 32, "The village", size=16, bold=True)
    at = [(170 + 0.75 * x, 300 - 0.75 * y) for x, y in places]
    for (a, place), (b, other) in itertools.combinations(zip(at, places, strict=True), 2):
        metres = math.dist(place, other)
        if metres <= RECEIVE_M:
            svg.line(a, b, FAINT, 1.5, dash="5 4")
            along = math.atan2(b[1] - a[1], b[0] - a[0])
            # Above the line, or to the left of a steep one.
            middle = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
            aside = 10 + 16 * abs(math.sin(along))
            svg.note(middle[0] + aside * math.sin(along), middle[1] - aside * math.cos(along), f"{metres:.0f} m")
    svg.box(30, at[0][1] - 22, 76, 44, ["Internet"])
    svg.line((106, at[0][1]), at[0], INK, 2)
    for number, (x, y) in enumerate(at):
        svg.node(x, y, str(number))
        name = names[str(number)] + (" (gateway)" if number == 0 else "")
        svg.note(x, y - 24 if y == min(high for _, high in at) else y + 34, name, colour=INK)
    svg.note(30, 380, f"Dashed: nodes that decode each other (up to {RECEIVE_M} m).", anchor="start")

    svg.text(590, 32, "Calls while a download runs", size=16, bold=True)
    chart = Axes(svg, 620, 96, 240, 220, (0, 3), (1, 4.5))
    chart.grid((), (1, 2, 3, 4), "", "MOS")
    short = "fairhop run village.toml --set 'mac.queue={ packets = 15 }' | sed -n '/^Calls/,/^bulk/p'"
    queues = {
        "fairhop run village.toml | head -n 12": ("50 packets", ORANGE, -22),
        short: ("15 packets", BLUE, 2),
    }
    for number, (command, (name, colour, shift)) in enumerate(queues.items()):
        for slot, call in enumerate(rows_below(output(page, command), "Calls")[1:]):
            centre, top = chart.x(slot + 0.5), chart.y(float(call[1]))
            svg.rect(centre + shift, top, 20, chart.y(1) - top, colour)
            if number == 0:
                svg.note(centre, chart.y(1) + 18, call[0])
        svg.rect(620 + 130 * number, 352, 12, 12, colour)
        svg.note(638 + 130 * number, 362, name, anchor="start")
    svg.note(612, 362, "queues:", anchor="end")
    svg.line((chart.left, chart.y(3.6)), (chart.left + chart.width, chart.y(3.6)), GREEN, 1.5, dash="6 4")
    svg.note(chart.left + chart.width, 90, "acceptable: 3.6 and more", anchor="end", colour=GREEN)
    return str(svg)


#: Networks under routing on the two pages that compare it, with their colours.
ROUTED = {"at once": GREEN, "feedback": BLUE, "HELLO": ORANGE}


def walk(page: str) -> str:
    """The walk, the hops, and the quality of the call, with what is silent under HELLO alone."""
    rows = [re.split(r"\s{2,}", line.strip()) for line in output(page, "python3 walk.py")[1:]]
    seconds = [float(row[0]) - 1 for row in rows]
    end = 144.0
    svg = Svg("A call while walking through a mesh", 900, 612)
    svg.text(70, 32, "The walk: 10 m/s out and back, one call with node 0", size=16, bold=True)
    metre, high = 1.1, 78.0
    for number, place in enumerate((0, 220, 440)):
        svg.node(100 + metre * place, high, str(number))
    for a, b in ((0, 220), (220, 440)):
        svg.line((100 + metre * a + 17, high), (100 + metre * b - 17, high), FAINT, 1.5, dash="5 4")
        svg.note(100 + metre * (a + b) / 2, high - 8, "220 m")
    svg.arrow((100, high + 36), (100 + metre * 620, high + 36), INK, both=True)
    svg.note(100 + metre * 310, high + 31, "walker, 620 m and back")

    def steps(column: int) -> list[list[tuple[float, float]]]:
        """The values of a column over time as lines, with a gap where it has none."""
        lines: list[list[tuple[float, float]]] = [[]]
        for begin, until, row in zip(seconds, [*seconds[1:], end], rows, strict=True):
            if row[column] == "-":
                lines.append([])
            else:
                lines[-1] += [(begin, float(row[column])), (until, float(row[column]))]
        return [line for line in lines if line]

    hops = Axes(svg, 70, 190, 790, 110, (0, end), (0, 3.5))
    quality = Axes(svg, 70, 370, 790, 160, (0, end), (1, 4.5))
    for begin, until, row in zip(seconds, [*seconds[1:], end], rows, strict=True):
        if row[5] == "-":
            for chart in (hops, quality):
                width = chart.x(until) - chart.x(begin)
                svg.rect(chart.x(begin), chart.top, width, chart.height, "#F7D2BC")
    hops.grid((), (1, 2, 3), "", "hops")
    quality.grid(range(0, 145, 20), (1, 2, 3, 4), "seconds", "call, MOS second by second (worse direction)")
    for column in (4, 5):
        for line in steps(column):
            svg.polyline(hops.at(line), BLUE if column == 4 else ORANGE, 2.5 if column == 4 else 1.5)
    for (name, colour), column in reversed(list(zip(ROUTED.items(), (1, 2, 3), strict=True))):
        for line in steps(column):
            svg.polyline(quality.at(line), colour, 2.5 if name == "HELLO" else 2.0, name)
    marks = {30: "direct link lost", 52: "link to node 1 lost", 104: "hears node 0 again"}
    for at, words in marks.items():
        svg.line((hops.x(at), 182), (hops.x(at), 530), FAINT, 1, dash="2 3")
        svg.note(hops.x(at), 176, words)
    names = {"at once": "routes known at once", "feedback": "AODV with link feedback", "HELLO": "AODV, HELLO alone"}
    for number, (name, colour) in enumerate(ROUTED.items()):
        svg.line((350 + 175 * number, 329), (370 + 175 * number, 329), colour, 2.5)
        svg.note(376 + 175 * number, 333, names[name], anchor="start", colour=INK)
    svg.rect(70, 586, 12, 12, "#F7D2BC")
    svg.note(88, 596, "silent under HELLO alone: the neighbour is gone, and not missed yet", anchor="start")
    return str(svg)


def routing(page: str) -> str:
    """Delivery, silence and messages by kind of routing, moving and at rest."""
    rows = [re.split(r"\s{2,}", line.strip()) for line in output(page, "python3 compare.py")[1:]]
    colours = {"known at once": GREEN, "HELLO": ORANGE, "feedback": BLUE, "both": PINK}
    panels: tuple[tuple[str, int, tuple[float, ...]], ...] = (
        ("delivered, %", 2, (0, 25, 50, 75, 100)),
        ("messages per packet", 3, (0, 0.5, 1, 1.5, 2)),
        ("silent, % of the time", 5, (0, 10, 20, 30, 40)),
    )
    svg = Svg("Fifty nodes under four kinds of routing", 900, 350)
    svg.text(30, 32, "Fifty nodes, twenty flows: four kinds of routing, moving and at rest", size=16, bold=True)
    for number, (name, colour) in enumerate(colours.items()):
        svg.rect(60 + 190 * number, 48, 14, 14, colour)
        words = name if name == "known at once" else f"AODV, {name}" + (" alone" if name != "both" else " of them")
        svg.text(80 + 190 * number, 60, words, size=12)
    for panel, (name, column, ticks) in enumerate(panels):
        chart = Axes(svg, 60 + 285 * panel, 112, 230, 180, (0, 10), (0, 1.15 * ticks[-1]))
        chart.grid((), ticks, "", name)
        for slot, row in enumerate(rows):
            left = chart.x(slot + 0.4 + (1 if slot >= len(colours) else 0))
            if row[column] != "-":
                value = float(row[column].split("±")[0])
                top = chart.y(value)
                svg.rect(left, top, chart.x(0.85) - chart.x(0), chart.y(0) - top, colours[row[1]])
                svg.note(left + 9, top - 4, f"{value:.0f}" if value >= 10 else f"{value:.1f}")
        svg.note(chart.x(2.4), chart.y(0) + 18, "moving")
        svg.note(chart.x(7.4), chart.y(0) + 18, "at rest")
    return str(svg)


def of_guides(pages: Mapping[str, str]) -> dict[Path, str]:
    """The pictures of the guides, from the texts of their pages by name."""
    drawings = {
        "first-steps": first_steps,
        "write-a-scenario": village,
        "teach-hidden-terminals": hidden_terminals,
        "choose-a-window": window,
        "walk-through-a-mesh": walk,
        "compare-routing": routing,
        "tutorial": sweep_pictures.tutorial,
        "plan-a-mesh": sweep_pictures.mesh,
        "compare-tcp": sweep_pictures.variants,
    }
    return {GUIDES / f"{name}.svg": draw(pages[f"{name}.md"]) for name, draw in drawings.items()}


# ---- the example of docs/control.md ---------------------------------------------------------------------------------

#: Seconds of the run at which something happens that docs/control.md explains.
MOMENTS = (0.2, 4.0, 7.1, 11.4, 15.0, 19.5, 24.0, 29.9, 50.5)
STATES = {"learning": "#FBE9C6", "steady": "#E3F1E9", "protecting": "#F7D2BC", "starved": "#EBCFE0", "off": "#FFFFFF"}
#: Hops that share the air in `k-control`, by which a budget is divided.
SHARED_HOPS = 4


def control_example(program: Path) -> str:
    """How the adaptive controller finds its budget in `k-control`, second by second."""
    duckdb: Any = importlib.import_module("duckdb")
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "run"
        subprocess.run(
            [program, "run", "k-control", "--trace", "mos", "--out", out], check=True, capture_output=True, timeout=300
        )
        decisions = duckdb.sql(f"select t_s, budget_mbps, state from '{out}/control.parquet' order by t_s").fetchall()
        series = f"select t_s, sum(goodput_mbps) from '{out}/flow_series.parquet' where kind = 'bulk'"
        goodput = duckdb.sql(f"{series} group by t_s order by t_s").fetchall()
        calls: dict[str, list[tuple[float, float]]] = {}
        with (out / "mos.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if ways := [float(row[way]) for way in ("forward_mos", "backward_mos") if row[way]]:
                    calls.setdefault(row["flow"], []).append((float(row["t_s"]), min(ways)))
    svg = Svg("How the adaptive controller finds its budget", 900, 560)
    svg.text(70, 32, "Five calls and three downloads over four hops, under adaptive control", size=16, bold=True)
    at = 70.0
    for state in ("learning", "steady", "protecting"):
        svg.rect(at, 46, 14, 14, STATES[state], stroke=FAINT)
        svg.text(at + 20, 58, state, size=12)
        at += 110
    budget = Axes(svg, 70, 100, 790, 200, (0, 60), (0, 0.8))
    begun, state_before = decisions[0][0], decisions[0][2]
    for t_s, _, state in [*decisions[1:], (60.0, None, None)]:
        if state != state_before:
            svg.rect(budget.x(begun), 100, budget.x(t_s) - budget.x(begun), 200, STATES[state_before])
            begun, state_before = t_s, state
    budget.grid(range(0, 61, 10), (0, 0.2, 0.4, 0.6, 0.8), "", "downloads, Mb/s")
    svg.note(860, 88, "budget, divided by the four hops that share the air", anchor="end", colour=BLUE)
    svg.note(530, 88, "goodput", anchor="end", colour=ORANGE)
    svg.polyline(budget.at([(t_s, min(mbps / SHARED_HOPS, 0.8)) for t_s, mbps, _ in decisions]), BLUE, 2.5, "budget")
    svg.polyline(budget.at([(t_s, mbps) for t_s, mbps in goodput]), ORANGE, 2.0, "goodput of the downloads")
    for number, moment in enumerate(MOMENTS, start=1):
        svg.line((budget.x(moment), 118), (budget.x(moment), 300), FAINT, 1, dash="2 3")
        svg.circle(budget.x(moment), 118, 10, INK)
        svg.text(budget.x(moment), 122, str(number), size=11, anchor="middle", colour="#FFFFFF", bold=True)
    quality = Axes(svg, 70, 370, 790, 130, (0, 60), (1, 4.5))
    quality.grid(range(0, 61, 10), (1, 2, 3, 4), "seconds", "calls, MOS second by second (worse direction)")
    svg.line((70, quality.y(3.6)), (860, quality.y(3.6)), GREEN, 1.5, dash="6 4")
    svg.note(quality.x(34), quality.y(3.6) + 16, "3.6: clear above this line", anchor="start", colour=GREEN)
    for name, seconds in calls.items():
        svg.polyline(quality.at(seconds), BLUE, 1.2, name)
    return str(svg)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--program", type=Path, required=True, help="the fairhop to run")
    args = parser.parse_args()
    for path, svg in of_guides({page.name: page.read_text(encoding="utf-8") for page in GUIDES.glob("*.md")}).items():
        path.write_text(svg, encoding="utf-8")
    try:
        EXAMPLE.write_text(control_example(args.program.resolve()), encoding="utf-8")
    except ModuleNotFoundError:
        print(f"» duckdb is missing: {EXAMPLE.name} is not drawn again; fix: pip install duckdb", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
