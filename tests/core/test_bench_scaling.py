"""The benchmark of scalings: its ledger finds what went wrong, and its figures are those of what was written down."""

import xml.etree.ElementTree
from array import array

import pytest

from benchmarks.scaling.measured import Measured, Observed, binned, longest_waits, phases_of, quantile, windows
from benchmarks.scaling.picture import draw
from benchmarks.scaling.receiving import Ledger, Received, _Attributes, _Notification, _Publication


def notification(publisher: int, number: int) -> _Notification:
    return _Notification(_Publication(_Attributes(0.0, publisher, number)), ["s-1"])


def test_the_ledger_finds_what_came_twice_and_out_of_order() -> None:
    ledger = Ledger()
    ledger.take([notification(0, 0), notification(0, 2), notification(1, 0)], 1.0)
    ledger.take([notification(0, 1), notification(0, 1)], 2.0)
    received = ledger.received
    assert (received.twice, received.out_of_order) == (1, 1)
    assert received.counts == {0: 3, 1: 1}
    assert list(received.arrived_s) == [1.0, 1.0, 1.0, 2.0, 2.0]


SHOWN = {
    "phase_s": {"asked": 0.5, "gathering": 1.5, "moving": 1.0, "changing": 0.25, "flushing": 0.125, "ending": 0.125}
}


def observed() -> Observed:
    """Asked at 100 s and over at 103.5 s; a delivery each 0.1 s, but none from 102.9 s to 103.4 s."""
    arrived = [90 + 0.1 * n for n in range(200) if not 102.95 < 90 + 0.1 * n < 103.35]
    received = Received(array("d", arrived), array("d", [at_s - 0.01 for at_s in arrived]))
    waits = [(99.0, 0.02), (102.5, 0.75), (104.0, 0.01)]
    return Observed(95.0, 108.0, received, waits, {}, len(arrived), 0.0, 1.0)


def test_a_gap_belongs_to_the_time_in_which_it_was_felt() -> None:
    phases = phases_of(SHOWN, 100.0)
    assert phases["moving"] == (102.0, 103.0)
    before, starting, during, after = windows(observed(), phases)
    assert [window.name for window in (before, starting, during, after)] == [
        "before",
        "starting",
        "moving to ending",
        "after",
    ]
    assert (during.begin_s, during.end_s) == (2.0, 3.5)
    assert before.longest_gap_ms == pytest.approx(100, abs=1)
    assert during.longest_gap_ms == pytest.approx(500, abs=1)
    assert during.latency_p50_ms == pytest.approx(10, abs=0.1)
    assert (before.acknowledged_max_ms, during.acknowledged_max_ms, after.acknowledged_max_ms) == (20, 750, 10)


def test_quantiles_and_bins() -> None:
    assert quantile([], 0.5) == 0.0
    assert quantile([1.0, 2.0, 3.0], 0.99) == 3.0
    assert binned([0.0, 0.01, 0.06, 0.2], 0.0, 0.2)[:2] == [2, 1]
    assert longest_waits([(0.0, 1.0), (0.01, 2.0), (0.3, 1.0)], 0.0, 0.2, 0.0) == [(0.0, 2.0)]


def test_the_picture_can_be_read() -> None:
    seen = observed()
    measured = Measured(
        subscriptions=10,
        step="matcher 1 → 3",
        moved=7,
        state="done",
        reason="",
        total_s=3.5,
        phase_s=SHOWN["phase_s"],
        longest_pause_s=0.0,
        windows=windows(seen, phases_of(SHOWN, 100.0)),
        longest_step_ms={},
        generator_delay_ms=0.0,
        sent=10,
        lost=0,
        twice=0,
        out_of_order=0,
        load_s=1.0,
        bins=binned(seen.received.arrived_s, seen.begin_s, seen.end_s),
        bins_begin_s=-5.0,
        waits_s=longest_waits(seen.waits, seen.begin_s, seen.end_s, 100.0),
    )
    picture = xml.etree.ElementTree.fromstring(draw(measured))
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "matcher 1 → 3 with 10 subscriptions" in texts
    assert "changing 0.250 s" in texts
