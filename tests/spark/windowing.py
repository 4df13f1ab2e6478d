"""From lines to tables, on a few samples whose results can be checked by hand."""

import re

from pyspark.sql import DataFrame, SparkSession

from braid.telemetry.sample import Sample, encode_sample
from spark.streaming import tables
from spark.streaming.samples import samples_of
from spark.streaming.screen import Finished, lines
from spark.streaming.windows import windows_of
from tests.spark.telemetry_cases import hits, latency, sample

__all__ = [
    "test_hottest_anchors_are_summed_over_slices_and_seconds",
    "test_latencies_of_all_slices_are_merged",
    "test_lines_that_are_no_samples_are_left_out",
    "test_slices_become_layers_with_their_imbalance",
]


def windows(spark: SparkSession, *samples: Sample) -> DataFrame:
    encoded = [(encode_sample(one).decode(),) for one in samples]
    return windows_of(samples_of(spark.createDataFrame(encoded, "value string")), "10 seconds")


def test_slices_become_layers_with_their_imbalance(spark: SparkSession) -> None:
    busy = {"messages": 20, "publications": 300}
    found = windows(
        spark,
        sample("matcher-1", 1, queues={"writes": 5}),
        sample("matcher-1", 2, queues={"writes": 9, "link_bytes": 1}),
        sample("matcher-1", 1, time_ms=sample("matcher-1", 6).time_ms, incarnation=8),  # it was started again
        sample("matcher-2", 4, counts=busy, cpu_s=0.75, epoch=2),
        sample("matcher-2", 6, counts=busy, rss_bytes=5000),
        sample("matcher-2", 11, counts=busy),  # of the next window
        sample("matcher-3", 3, counts={"messages": 0, "publications": 0}, takes_part=False),
        sample("exitpoint-1", 3, counts={"messages": 7, "batches": 7, "notifications": 50}),
    )
    by_slice = tables.slices(found).cache()
    first = {
        row.slice: row for row in by_slice.where("minute(window_begin) = 0 and second(window_begin) = 0").collect()
    }
    one, two = first["matcher-1"], first["matcher-2"]
    assert (one.samples, one.missing, one.processes, one.publications, one.work) == (3, 0, 2, 300, 300)
    assert one.queues_max == {"link_bytes": 1, "writes": 9}
    assert (two.samples, two.missing, two.processes, two.publications, two.epoch) == (2, 1, 1, 600, 2)
    assert (two.cpu_s, two.cores, two.rss_bytes_max) == (1.0, 0.1, 5000)
    assert (first["exitpoint-1"].publications, first["exitpoint-1"].work) == (None, 50)
    rows = tables.layers(by_slice).collect()
    assert len(rows) == 3  # matchers in two windows, exit points in one
    matchers = next(row for row in rows if row.layer == "matcher" and row.samples == 6)
    assert (matchers.slices, matchers.publications, matchers.publications_s, matchers.missing) == (2, 900, 90.0, 1)
    assert matchers.imbalance == 600 / 450  # the one that does not take part does not count
    shown = lines(Finished([matchers], [], []))
    assert shown == [
        "08:00:10  matcher      2 slices  90 publications/s  0.20 cores  imbalance 1.33  1 samples missing"
    ]


def test_latencies_of_all_slices_are_merged(spark: SparkSession) -> None:
    found = windows(
        spark,
        sample("matcher-1", 1, latencies=[latency("matched", _1000=90), latency("answered", _50000=1)]),
        sample("matcher-2", 1, latencies=[latency("matched", _1000=4, _2000=5)]),
        sample("matcher-2", 2, latencies=[latency("matched", _90000=1)]),
    )
    rows = {row.part: row for row in tables.latencies(found).collect()}
    matched = rows["matched"]
    assert (matched.measured, matched.p50_ms, matched.p90_ms, matched.p99_ms, matched.p999_ms) == (100, 1, 1, 2, 90)
    assert (rows["answered"].measured, rows["answered"].p50_ms) == (1, 50)


def test_hottest_anchors_are_summed_over_slices_and_seconds(spark: SparkSession) -> None:
    found = windows(
        spark,
        sample("matcher-1", 1, anchors=hits(a=10, b=8), anchors_missed=1),
        sample("matcher-1", 2, anchors=hits(b=8, c=2)),
        sample("matcher-2", 1, anchors=hits(c=3), anchors_missed=4),
        sample("accesspoint-1", 1, anchors=hits(z=1)),
    )
    rows = tables.anchors(found, most=2).collect()
    matchers = sorted((row.rank, row.anchor, row.hits, row.missed) for row in rows if row.layer == "matcher")
    assert matchers == [(1, "b", 16, 5), (2, "a", 10, 5)]
    assert [(row.anchor, row.hits) for row in rows if row.layer == "accesspoint"] == [("z", 1)]


def a_sample() -> str:
    counted = sample("matcher-1", 1, latencies=[latency("matched", _1000=90)], anchors=hits(a=7))
    return encode_sample(counted).decode()


def a_sample_and_others() -> list[str]:
    """Lines of which only the first is one."""
    good = a_sample()
    given = [good, good[:50], "", "[]", good.replace('"v":1', '"v":2'), good.replace('"matcher-1"', "null")]
    given += [
        re.sub(pattern, text, good)
        for pattern, text in (
            ('"layer":"matcher"', '"layer":"kitchen"'),
            ('"cpu_s":[^,]*,', ""),
            ('"cpu_s":[^,]*,', '"cpu_s":NaN,'),
            ('"cpu_s":[^,]*,', '"cpu_s":-1,'),
            ('"time_ms":[^,]*,', f'"time_ms":{2**62},'),  # no timestamp
            ('"time_ms":[^,]*,', '"time_ms":1800000000,'),  # seconds
            ('"seconds":[^,]*,', '"seconds":NaN,'),
            ('"seconds":[^,]*,', '"seconds":-1,'),
            ('"seconds":[^,]*,', '"seconds":1e300,'),
            *(
                (f'"{name}":{count}', f'"{name}":{wrong}')
                for name, count in (("publications", 100), ("count", 90), ("count", 7), ("anchors_missed", 0))
                for wrong in (2**62, -1)  # two of the first cannot be added
            ),
            ('"number":1', f'"number":{2**62}'),
            ('"number":1', f'"number":-{2**62}'),
        )
    ]
    assert len(set(given)) == len(given)
    return given


def test_lines_that_are_no_samples_are_left_out(spark: SparkSession) -> None:
    good, given = a_sample(), a_sample_and_others()
    rows = samples_of(spark.createDataFrame([(line,) for line in given], "value string")).collect()
    assert [(row.slice, row.number, row.counts) for row in rows] == [
        ("matcher-1", 1, {"messages": 10, "publications": 100})
    ]
    without = [re.sub(f'"{name}":[^,]*,', "", good) for name in ("anchors_missed", "rss_bytes")]
    assert samples_of(spark.createDataFrame([(line,) for line in without], "value string")).count() == 2
