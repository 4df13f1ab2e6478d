"""The benchmark of scalings: its ledger finds what went wrong, and its figures are those of what was written down."""

import xml.etree.ElementTree
from array import array
from typing import Any

import pytest

from benchmarks.scaling.measured import (
    Observed,
    Scaled,
    binned,
    longest_waits,
    measured_of,
    phases_of,
    quantile,
    totals,
    windows,
)
from benchmarks.scaling.picture import draw, draw_story
from benchmarks.scaling.receiving import Ledger, Received, _Attributes, _Notification, _Publication
from benchmarks.scaling.steps import STORY, Step, steps_of
from benchmarks.scaling.story import story_of
from benchmarks.scaling.subscribing import Subscribed
from benchmarks.scaling.tables import story_table, table
from benchmarks.scaling.watching import Note, Share, Thread, shares


def notification(publisher: int, number: int) -> _Notification:
    return _Notification(_Publication(_Attributes(0.0, publisher, number)), ["s-1"])


def test_the_ledger_finds_what_came_twice_and_out_of_order() -> None:
    ledger = Ledger()
    ledger.take([notification(0, 0), notification(0, 2), notification(1, 0)], 1.0)
    ledger.take([notification(0, 1), notification(0, 1)], 2.0)
    received = ledger.received
    assert (received.twice, received.out_of_order) == (1, 1)
    assert received.counts == {0: 3, 1: 1}
    assert list(received.arrived_s) == [1.0, 1.0, 1.0, 2.0]


def test_what_comes_twice_is_one_delivery() -> None:
    ledger = Ledger()
    some = [notification(0, number) for number in range(3)]
    ledger.take([each for each in some for _ in range(2)], 1.0)
    ledger.take(some, 3.0)  # a retry is no end of a silence
    received = ledger.received
    assert (received.counts, received.twice) == ({0: 3}, 6)
    assert list(received.arrived_s) == [1.0] * 3
    assert list(received.sent_s) == [0.0] * 3


PHASE_S = {
    "asked": 0.5,
    "gathering": 1.0,
    "copying": 0.5,
    "moving": 1.0,
    "changing": 0.25,
    "flushing": 0.125,
    "ending": 0.125,
}


def scaled(name: str = "matcher 1 → 3", asked_s: float = 100.0, state: str = "done", **fields: Any) -> Scaled:
    given: dict[str, Any] = {
        "reason": "",
        "phase_s": PHASE_S,
        "total_s": 3.5,
        "moved": 7,
        "longest_pause_s": 0.0,
        "steps_s": {},
    }
    return Scaled(name, asked_s, state, **(given | fields))


def observed(*more: Scaled) -> Observed:
    """Asked at 100 s and over at 103.5 s; a delivery each 0.1 s, but none from 102.9 s to 103.4 s."""
    arrived = [90 + 0.1 * n for n in range(200) if not 102.95 < 90 + 0.1 * n < 103.35]
    received = Received(array("d", arrived), array("d", [at_s - 0.01 for at_s in arrived]), {0: len(arrived)})
    new = Subscribed([(99.0, 0.02), (102.5, 0.75), (104.0, 0.01)], 0, 3, 0)
    return Observed(10, 95.0, 108.0, received, new, [scaled(), *more], len(arrived), 0.0, 1.0, 13)


def test_a_gap_belongs_to_the_time_in_which_it_was_felt() -> None:
    phases = phases_of(scaled())
    assert (phases["copying"], phases["moving"]) == ((101.5, 102.0), (102.0, 103.0))
    before, starting, copying, during, after = windows(observed(), phases)
    assert [window.name for window in (before, starting, copying, during, after)] == [
        "before",
        "starting",
        "copying",
        "moving to ending",
        "after",
    ]
    assert (starting.begin_s, starting.end_s) == (0.0, 1.5)
    assert (copying.begin_s, copying.end_s) == (1.5, 2.0)
    assert (during.begin_s, during.end_s) == (2.0, 3.5)
    assert copying.longest_gap_ms == pytest.approx(100, abs=1)
    assert before.longest_gap_ms == pytest.approx(100, abs=1)
    assert during.longest_gap_ms == pytest.approx(500, abs=1)
    assert during.latency_p50_ms == pytest.approx(10, abs=0.1)
    assert (before.acknowledged_max_ms, during.acknowledged_max_ms, after.acknowledged_max_ms) == (20, 750, 10)


def test_quantiles_and_bins() -> None:
    assert quantile([], 0.5) == 0.0
    assert quantile([1.0, 2.0, 3.0], 0.99) == 3.0
    assert binned([0.0, 0.01, 0.06, 0.2], 0.0, 0.2)[:2] == [2, 1]
    assert longest_waits([(0.0, 1.0), (0.01, 2.0), (0.3, 1.0)], 0.0, 0.2, 0.0) == [(0.0, 2.0)]


def texts_of(picture: str) -> list[str | None]:
    return [each.text for each in xml.etree.ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def test_the_picture_and_the_table_can_be_read() -> None:
    measured = measured_of(observed())
    texts = texts_of(draw(measured))
    assert "matcher 1 → 3 with 10 subscriptions" in texts
    assert "changing 0.250 s" in texts
    lines = table(measured).splitlines()
    assert lines[1].startswith("  done in 3.500 s, of which copying 0.500, moving 1.000, changing 0.250, ")
    assert lines[2] == "  of 196 publications received 196, lost 0, twice 0, out of order 0"
    assert lines[3].endswith("3 there at the end; with those loaded 13, matchers have 13")
    assert "  held at the cut   nothing, no publication came in that time; " in "\n".join(lines)


# Several steps


def test_steps_are_read_as_they_are_written() -> None:
    assert steps_of("matcher=3 routing=anchored  replace=matcher-1 replace=exitpoint") == [
        Step("matcher", "3"),
        Step("routing", "anchored"),
        Step("replace", "matcher-1"),
        Step("replace", "exitpoint"),
    ]
    assert len(steps_of(STORY)) == 8


@pytest.mark.parametrize(
    "text",
    [
        "",
        "matcher",
        "matcher=",
        "matcher=x",
        "matcher=-1",
        "matcher=0",
        "connpoint=2",
        "replace=",
        "replace=nobody",
        "routing=none",
    ],
)
def test_what_is_no_step_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected LAYER=NUMBER"):
        steps_of(text)


def test_a_step_asks_what_the_cluster_has_then() -> None:
    places = [("matcher-1", None), ("matcher-2", 4), ("matcher-3", 4), ("exitpoint-1", 4)]
    slices = [{"name": name, "layer": name[:-2], "epoch": epoch} for name, epoch in places]
    cluster = {"routing": "broadcast", "slices": slices}
    steps = steps_of("matcher=1 replace=matcher replace=matcher-3 routing=anchored")
    assert [(step.title(cluster), step.asks(cluster)) for step in steps] == [
        ("matcher 2 → 1", ({"matcher": 1}, [], None)),
        ("replace matcher-2", ({}, ["matcher-2"], None)),
        ("replace matcher-3", ({}, ["matcher-3"], None)),
        ("routing broadcast → anchored", ({}, [], "anchored")),
    ]


REFUSED = scaled("matcher 3 → 99", 106.0, "refused", reason="too many", phase_s={"asked": 0.0}, total_s=0.0, moved=0)


def test_each_step_of_a_story_has_the_calm_around_it() -> None:
    story = story_of(observed(REFUSED))
    first, second = story.steps
    assert (first.asked_s, second.asked_s) == (5.0, 11.0)
    assert (first.before.begin_s, first.before.end_s) == (-5.0, 0.0)
    assert (first.during.begin_s, first.during.end_s) == (0.0, 3.5)
    assert (first.after.end_s, second.before.begin_s) == (6.0, -2.5)
    assert (second.during.end_s, second.after.end_s) == (0.0, 2.0)
    assert first.during.longest_gap_ms == pytest.approx(500, abs=1)
    assert first.starting.longest_gap_ms == pytest.approx(100, abs=1)
    assert (first.copying.begin_s, first.copying.end_s) == (1.5, 2.0)
    assert (second.copying.begin_s, second.copying.end_s) == (0.0, 0.0)
    assert first.copying.longest_gap_ms == pytest.approx(100, abs=1)
    assert (first.during.acknowledged_max_ms, first.after.acknowledged_max_ms) == (750, 10)
    assert story.wrong() == ["matcher 3 → 99 refused"]


def test_the_table_and_the_picture_of_a_story_can_be_read() -> None:
    story = story_of(observed(REFUSED))
    lines = story_table(story).splitlines()
    assert lines[0] == "2 steps of one cluster, 10 subscriptions loaded in 1.0 s"
    assert lines[3].split()[:13] == [
        "matcher",
        "1",
        "→",
        "3",
        "done",
        "3.50",
        "1.500",
        "0.500",
        "1.000",
        "0.250",
        "0.125",
        "0.125",
        "7",
    ]
    assert lines[4].split()[4:12] == ["refused", "0.00", "0.000", "-", "-", "-", "-", "-"]
    assert lines[5] == "  matcher 3 → 99: too many"
    texts = texts_of(draw_story(story))
    assert "2 steps with 10 subscriptions and 3 new ones" in texts
    assert "matcher 1 → 3" in texts
    assert "matcher 3 → 99, refused" in texts


def test_the_ledger_of_a_run_says_what_is_wrong() -> None:
    good = observed()
    assert measured_of(good).wrong() == []
    assert totals(good)["new_acknowledged"] == 3
    bad = good._replace(sent=good.sent + 2, kept=12, scaled=[scaled(state="aborted")])
    bad.received.twice, bad.received.out_of_order = 1, 3
    assert measured_of(bad).wrong() == [
        "2 lost",
        "1 twice",
        "3 out of order",
        "12 subscriptions instead of 13",
        "matcher 1 → 3 aborted",
    ]


@pytest.mark.parametrize(("kept", "is_right"), [(12, True), (13, True), (11, False), (14, False)])
def test_a_subscription_that_was_refused_may_be_there_or_not(kept: int, is_right: bool) -> None:
    run = observed()
    new = Subscribed(run.new.waits, 1, 2, 0)
    assert (measured_of(run._replace(new=new, kept=kept)).wrong() == []) is is_right


def test_who_had_the_processors_is_told_for_the_gap_alone() -> None:
    """A note at the border counts with the part that is within."""
    loop = [Note(10.0, 0, 0), Note(10.1, 50_000_000, 20_000_000), Note(10.2, 50_000_000, 120_000_000)]
    others = [Note(10.0, 0, 0), Note(10.2, 10_000_000, 0)]
    idle = [Note(10.0, 7, 7), Note(10.2, 7, 7)]
    ran = [
        (Thread("receiver", True), [Note(10.0, 0, 0), Note(10.2, 4_000_000, 0)]),
        (Thread("matcher-1", True), loop),
        (Thread("matcher-1", False), others),
        (Thread("matcher-2", True), idle),
    ]
    assert shares(ran, 10.05, 10.2) == [
        Share("matcher-1", 25.0, 110.0, 7.5, 0.0),
        Share("receiver", 3.0, 0.0, 0.0, 0.0),
    ]
