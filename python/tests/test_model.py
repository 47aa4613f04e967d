"""The models on NumPy arrays agree with the program."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from fairhop import airtime, outage, share, voice
from hypothesis import given, settings
from hypothesis import strategies as st


def program(*arguments: str) -> dict[str, object]:
    """The JSON that the program of the wheel prints."""
    path = Path(sys.executable).with_name("fairhop")
    printed: dict[str, object] = json.loads(
        subprocess.run([path, *arguments, "--json"], check=True, capture_output=True, text=True).stdout
    )
    return printed


def test_scores_broadcast_and_have_the_shape_of_their_arguments() -> None:
    loss, delay = np.linspace(0, 0.2, 5)[:, None], np.array([20.0, 104.0, 400.0])
    scores = voice.mos(loss, delay)
    assert scores.shape == (5, 3)
    assert (np.diff(scores, axis=0) <= 0).all() and (np.diff(scores, axis=1) <= 0).all()
    assert voice.mos(0.02, 104) == pytest.approx(3.60, abs=0.005)
    assert voice.mos_of_r(voice.r_factor(0.02, 104)) == voice.mos(0.02, 104)
    assert voice.mos(loss[::-1], delay)[0, 0] == scores[-1, 0], "arrays need not be contiguous"


def test_unknown_codecs_are_errors_that_list_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no codec gsm; the codecs are g729a, g711, g723\.1, opus"):
        voice.mos(0, 0, codec="gsm")


def test_shares_are_max_min_fair() -> None:
    regions = [[0, 1, 2], [2, 3]]
    assert share.max_min(regions, 4).shares == pytest.approx([1 / 3, 1 / 3, 1 / 3, 2 / 3])
    weighted = share.max_min(regions, 4, weight=[1, 1, 2, 1], call_load=[np.nan, 0.2, np.nan, np.nan])
    assert weighted.shares == pytest.approx([0.8 / 3, 0.2, 1.6 / 3, 1 - 1.6 / 3])
    assert weighted.bottlenecks == [0, None, 0, 1]
    with pytest.raises(ValueError, match="weight of association 0"):
        share.max_min(regions, 4, weight=0)
    assert share.jain([1, 1, 0, 0]) == 0.5
    assert share.jain([]) is None


def test_outage_is_that_of_the_program() -> None:
    printed = program("outage", "--error", "0.01,0.1", "--slot-ms", "5", "--rtt-ms", "100", "--delay-ms", "100")
    rows = printed["rows"]
    assert isinstance(rows, list)
    ours = outage.max_window([0.01, 0.1], 40)
    assert ours.tolist() == [row["window"] for row in rows]
    assert (outage.delay_outage([0.01, 0.1], 40, ours) <= 0.01).all()
    assert (outage.delay_outage([0.01, 0.1], 40, ours + 1) > 0.01).all()


def test_bounds_are_those_of_the_program() -> None:
    printed = program("airtime", "--hops", "4")
    bounds, exchange = printed["path"], printed["exchange"]
    assert isinstance(bounds, dict) and isinstance(exchange, dict)
    path = airtime.Path(hops=4)
    assert path.udp_mbps(1472) == pytest.approx(bounds["udp_mbps"])
    assert path.tcp_mbps(1460) == pytest.approx(bounds["tcp_mbps"])
    assert path.calls("g711") == bounds["calls"]["g711"]
    assert path.packet_us(1500) == pytest.approx(exchange["total_us"])
    assert path.packet_parts_us(1500)["data"] == exchange["data_us"]
    assert path.udp_mbps([100, 1000]).shape == (2,)
    with pytest.raises(ValueError, match=r"802.11a has no rate of 11 Mb/s; its rates are 6, 9"):
        airtime.Path(rate_mbps=11).udp_mbps()


#: Numbers as users pass them by mistake, too.
NUMBERS = st.floats() | st.floats(-1, 2) | st.integers(-(2**70), 2**70)
WHOLE = st.integers(-3, 300) | st.integers(-(2**70), 2**70)
#: What wrong arguments may raise. A panic of the native part is neither.
REFUSED = (ValueError, OverflowError, TypeError, IndexError)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_argument_gives_numbers_or_is_refused(data: st.DataObject) -> None:
    number, whole = partial(data.draw, NUMBERS), partial(data.draw, WHOLE)
    numbers = st.lists(NUMBERS, max_size=4)
    regions = st.lists(st.lists(WHOLE, max_size=4), max_size=4)
    path = airtime.Path(
        rate_mbps=data.draw(st.sampled_from([6, 12, 54]) | NUMBERS),
        hops=whole(),
        rts_threshold=data.draw(st.none() | WHOLE),
    )
    calls: list[Callable[[], object]] = [
        lambda: voice.mos(data.draw(numbers), number(), playout_ms=number()),
        lambda: voice.r_factor(number(), number(), codec=data.draw(st.sampled_from(["opus", "g711", "", "x"]))),
        lambda: voice.mos_of_r(number()),
        lambda: share.max_min(data.draw(regions), whole() % 6, weight=number(), limit=number(), call_load=number()),
        lambda: share.jain(data.draw(numbers)),
        lambda: share.unfairness(data.draw(numbers), data.draw(numbers)),
        lambda: outage.delay_outage(number(), whole() % 300, whole() % 300, memory=number()),
        lambda: outage.max_window(number(), whole() % 300, bound=number(), memory=number()),
        lambda: path.packet_us(whole()),
        lambda: path.udp_mbps(whole()),
        lambda: path.tcp_mbps(whole(), options=whole(), segments_per_ack=number()),
        lambda: path.calls(),
    ]
    with suppress(*REFUSED):
        data.draw(st.sampled_from(calls))()
