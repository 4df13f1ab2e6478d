"""What is counted between two samples, and how much of it is kept: histograms, hot anchors, what waits."""

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid import metrics
from braid.config import ConfigError, Settings, load
from braid.telemetry import hot_anchors
from braid.telemetry.backlog import Backlog, Line
from braid.telemetry.file_sink import FileSink
from braid.telemetry.frequent import FrequentNames
from braid.telemetry.histogram import UPPER_US, Histogram
from braid.telemetry.hot_anchors import HotAnchors
from braid.telemetry.measures import Measures
from braid.telemetry.sample import Bucket, Hit, Latency
from braid.telemetry.sinks import sink_of
from braid.telemetry.totals import total_of


def dropped(reason: str) -> int:
    return total_of(metrics.TELEMETRY_DROPPED, reason=reason)


# Histograms


def test_bounds_lie_a_tenth_apart() -> None:
    assert UPPER_US[:8] == [10, 11, 12, 13, 15, 16, 18, 19]
    assert UPPER_US[-1] == 100_000_000
    assert all(above <= 1.1 * below + 1 for below, above in pairwise(UPPER_US))
    assert sorted(set(UPPER_US)) == UPPER_US


def test_each_bucket_has_what_is_above_the_bound_before_and_at_most_its_own() -> None:
    histogram = Histogram()
    for microseconds, count in ((0, 1), (10, 2), (10.5, 4), (11, 8), (1e12, 16)):
        histogram.add(microseconds / 1e6, count)
    assert histogram.take() == [Bucket(10, 3), Bucket(11, 12), Bucket(100_000_000, 16)]
    assert histogram.take() == []


def test_measures_are_taken_once() -> None:
    measures = Measures()
    measures.count("publications", 0)
    assert measures.take().counts == {"publications": 0}
    measures.count("publications", 3)
    measures.count("publications", 4)
    measures.lasted("matched", 0.000_010, 7)
    measures.lasted("matched", -5.0, 1)  # the clock was set back
    assert measures.take() == ({"publications": 7}, [Latency("matched", [Bucket(10, 8)])], [], 0)
    assert measures.take() == ({"publications": 0}, [], [], 0)


# Anchors


@given(st.lists(st.tuples(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), st.integers(1, 50)), max_size=300))
def test_a_name_is_counted_too_low_by_at_most_what_is_told(added: list[tuple[str, int]]) -> None:
    names, true = FrequentNames(4), Counter[str]()
    for name, count in added:
        names.add(name, count)
        true[name] += count
        assert len(names) < 8
    counted = dict(names.most(8))
    for name, count in true.items():
        assert counted.get(name, 0) <= count <= counted.get(name, 0) + names.missed
    assert names.missed <= sum(true.values()) / 5  # as few as the algorithm promises: four are kept


def test_the_most_frequent_names_come_first() -> None:
    names = FrequentNames(10)
    for name, count in (("b", 2), ("c", 1), ("a", 2)):
        names.add(name, count)
    assert names.most(2) == [("a", 2), ("b", 2)]
    names.clear()
    assert (names.most(2), names.missed) == ([], 0)


def anchors_seen(runs: int, publications: int, seed: int) -> list[Hit]:
    """Every tenth publication matches two subscriptions under `hot`, the others one under `warm` of a hundred each."""
    anchors = HotAnchors(lambda id: id.partition("/")[0], Random(seed))
    for run in range(runs):
        ids = [["hot/1", "hot/2"] if n % 10 == 0 else [f"warm-{n % 3}/{n}"] for n in range(publications)]
        anchors.on_matched(ids, run * hot_anchors.LOOK_EVERY_S / 4)  # so that most runs are not looked at
    return anchors.take()[0]


def test_hits_are_estimated_from_few_and_stand_for_all() -> None:
    totals: Counter[str] = Counter()
    for seed in range(20):
        for hit in anchors_seen(runs=200, publications=100, seed=seed):
            totals[hit.anchor] += hit.count
    expected = {"hot": 20 * 200 * 20, "warm-0": 20 * 200 * 30, "warm-1": 20 * 200 * 30, "warm-2": 20 * 200 * 30}
    assert totals.keys() == expected.keys()
    for anchor, count in expected.items():
        assert totals[anchor] == pytest.approx(count, rel=0.15)


def test_what_a_look_costs_is_bounded_by_the_clock() -> None:
    asked = []

    def anchor_of(id: str) -> str | None:
        asked.append(id)
        return None if id == "gone" else "x" * 1000

    anchors = HotAnchors(anchor_of, Random(1))
    for run in range(10_000):
        anchors.on_matched([["s-1"] * 500] * 200, run / 10_000)  # a second of very much
    assert len(asked) <= (1 / hot_anchors.LOOK_EVERY_S + 1) * hot_anchors.PICKS
    hits, missed = anchors.take()
    assert missed == 0
    (hit,) = hits
    assert len(hit.anchor) == 200
    assert hit.count == pytest.approx(10_000 * 200 * 500, rel=0.05)
    anchors.on_matched([["gone"], []], 5.0)
    anchors.on_matched([], 6.0)
    assert anchors.take() == ([], 0)


def test_those_that_are_not_shown_are_told_of() -> None:
    anchors = HotAnchors(lambda id: id, Random(1))
    for number in range(hot_anchors.SHOWN + 5):
        for _ in range(number + 1):
            anchors.on_matched([[f"a{number:02}"]], float(100 * number + _))
    hits, missed = anchors.take()
    assert [hit.count for hit in hits] == list(range(hot_anchors.SHOWN + 5, 5, -1))
    assert missed == 5


# What waits


def test_the_oldest_are_dropped_and_counted_when_too_many_wait() -> None:
    before, backlog = dropped("behind"), Backlog(3)
    for number in range(1, 6):
        backlog.put(Line(number, b"x"))
    taken = backlog.take(2)
    assert [line.number for line in taken] == [3, 4]
    backlog.put(Line(6, b"x"))
    backlog.put(Line(7, b"x"))
    backlog.put_back(taken)  # they could not be written
    assert [line.number for line in backlog.take()] == [5, 6, 7]
    assert dropped("behind") - before == 4


def test_nobody_takes_samples_unless_a_sink_is_set() -> None:
    assert sink_of(Settings(), "matcher-1", 1) is None
    assert isinstance(sink_of(load(overrides={"telemetry": {"sink": "files"}}).settings, "matcher-1", 1), FileSink)
    with pytest.raises(ConfigError, match=r"telemetry\.sink is kafka, so kafka\.bootstrap has to name its brokers"):
        load(overrides={"telemetry": {"sink": "kafka"}})
