"""Transforms over small tables whose results can be checked by hand."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark.analysis.cost import NO_LAYERS, cores_of_cells, cost_of_kinds, cost_of_layers, speedup_of_cores
from spark.analysis.latency import latency_percentiles
from spark.analysis.throughput import dominance, speedup, steady, throughput, throughput_of_cells
from spark.analysis.timeline import longest_silences, rates_by_phase

SLICES = "configuration string, accesspoints int, matchers int, exitpoints int"
CELL = f"{SLICES}, subscriptions long, rate double, scaling string, repetition int"
SECONDS = f"{CELL}, second int, published long, delivered long, lasted_s double"


def cell(configuration: str, subscriptions: int = 1000, repetition: int = 1) -> tuple[Any, ...]:
    return (configuration, *map(int, configuration.split("-")), subscriptions, 0.0, "", repetition)


def seconds(spark: SparkSession, delivered: dict[tuple[Any, ...], list[int]]) -> DataFrame:
    rows = [(*of, n, count, count, 1.0) for of, counts in delivered.items() for n, count in enumerate(counts, start=1)]
    return spark.createDataFrame(rows, SECONDS)


def test_throughput_is_the_median_of_repetitions(spark: SparkSession) -> None:
    delivered = {cell("1-1-1", repetition=n): [100 * n, 100 * n + 10] for n in (1, 2, 5)}
    (row,) = throughput(throughput_of_cells(seconds(spark, delivered))).collect()
    assert (row.repetitions, row.delivered_s, row.delivered_s_min, row.delivered_s_max) == (3, 205, 105, 505)


def test_a_long_second_weighs_as_much_as_it_lasted(spark: SparkSession) -> None:
    of = cell("1-1-1")
    table = spark.createDataFrame([(*of, 3, 3000, 3000, 3.0), (*of, 4, 100, 100, 0.25)], SECONDS)
    cells = throughput_of_cells(table)
    (row,) = cells.collect()
    assert (row.seconds, row.published_s, row.delivered_s) == (3.25, 3100 / 3.25, 3100 / 3.25)
    used = [(3, "matcher-1", "matcher", 1.5, 3.0), (4, "matcher-1", "matcher", 0.125, 0.25)]
    used += [(3, "machine", "machine", 3.0, 3.0), (4, "machine", "machine", 0.25, 0.25)]
    usage = spark.createDataFrame([(*of, *one[:4], 0, one[4]) for one in used], USAGE)
    (busy,) = cores_of_cells(usage, cells).collect()
    assert (busy.cores, busy.machine_cores, busy.stolen_cores) == (0.5, 1.0, 0.0)


def test_speedup_efficiency_and_karp_flatt(spark: SparkSession) -> None:
    delivered = {cell("1-1-1"): [100], cell("1-2-1"): [160], cell("1-2-2"): [150], cell("1-3-1", 50): [70]}
    rows = speedup(throughput(throughput_of_cells(seconds(spark, delivered)))).collect()
    found = {row.configuration: row for row in rows}
    assert found.keys() == {"1-1-1", "1-2-1", "1-2-2"}  # the last one has no baseline under its load
    assert (found["1-1-1"].processors, found["1-1-1"].speedup, found["1-1-1"].karp_flatt) == (1, 1.0, None)
    two = found["1-2-1"]
    assert (two.processors, two.speedup, two.efficiency) == (2, 1.6, 0.8)
    assert two.karp_flatt == pytest.approx((1 / 1.6 - 1 / 2) / (1 - 1 / 2))
    assert found["1-2-2"].processors == 3


def test_dominance_of_two_exit_points(spark: SparkSession) -> None:
    delivered = {cell("1-2-1"): [100], cell("1-2-2"): [125], cell("1-3-1"): [100]}
    (row,) = dominance(throughput(throughput_of_cells(seconds(spark, delivered)))).collect()
    assert (row.matchers, row.dominance) == (2, 1.25)


def test_a_cell_in_which_nothing_came_has_no_ratio(spark: SparkSession) -> None:
    delivered = {cell("1-1-1"): [0], cell("1-2-1"): [10], cell("1-2-2"): [5]}
    kinds = throughput(throughput_of_cells(seconds(spark, delivered)))
    assert {row.speedup for row in speedup(kinds).collect()} == {None}


def test_percentiles_are_bounds_that_enough_lie_below(spark: SparkSession) -> None:
    rows = [(*cell("1-1-1"), "steady", float(upper), count) for upper, count in ((1, 50), (2, 40), (8, 9), (90, 1))]
    table = spark.createDataFrame(rows, f"{CELL}, part string, upper_ms double, count long")
    found = {row.percentile: row.latency_ms for row in latency_percentiles(table).collect()}
    assert found == {0.5: 1.0, 0.9: 2.0, 0.99: 8.0, 0.999: 90.0}


USAGE = f"{CELL}, second int, slice string, layer string, cpu_s double, rss_bytes long, lasted_s double"


def test_what_was_measured_while_scaling_is_no_throughput(spark: SparkSession) -> None:
    scaled = (*cell("1-1-1")[:6], "matcher=3", 1)
    table = seconds(spark, {cell("1-1-1"): [100], scaled: [7]})
    assert [row.delivered for row in steady(table).collect()] == [100]


def test_cost_counts_all_slices_of_a_layer(spark: SparkSession) -> None:
    cells = throughput_of_cells(seconds(spark, {cell("1-2-1"): [1000, 1000]}))
    rows = [
        (*cell("1-2-1"), second, f"matcher-{n}", "matcher", 0.25 * n, 100 * n, 1.0) for second in (1, 2) for n in (1, 2)
    ]
    rows += [(*cell("1-2-1"), second, name, name, 0.5, 0, 1.0) for second in (1, 2) for name in NO_LAYERS]
    usage = spark.createDataFrame(rows, USAGE)
    costs = cost_of_layers(usage, cells)
    (row,) = costs.collect()
    assert (row.layer, row.slices, row.cpu_s, row.rss_bytes, row.cpu_us_per_publication) == (
        *("matcher", 2, 1.5, 300),
        750.0,
    )
    assert row.capacity_s == 2000.0  # the busier one needs half a millisecond for each
    (kind,) = cost_of_kinds(costs).collect()
    assert (kind.cpu_us_per_publication, kind.capacity_s) == (750.0, 2000.0)


def test_speedup_for_each_core_that_was_used(spark: SparkSession) -> None:
    delivered = {cell("1-1-1"): [1000], cell("1-2-1"): [1500], cell("1-2-1", 50): [10]}
    used = {cell("1-1-1"): 0.5, cell("1-2-1"): 1.0, cell("1-2-1", 50): 0.1}
    rows = [(*of, 1, "matcher-1", "matcher", cpu_s, 0, 1.0) for of, cpu_s in used.items()]
    rows += [(*of, 1, "load-1", "load", 0.2, 0, 1.0) for of in used]
    rows += [(*of, 1, "machine", "machine", 1.9, 0, 1.0) for of in used]
    rows += [(*of, 1, "stolen", "stolen", 0.1, 0, 1.0) for of in used]
    cores = cores_of_cells(spark.createDataFrame(rows, USAGE), throughput_of_cells(seconds(spark, delivered)))
    found = {(row.configuration, row.subscriptions): row for row in speedup_of_cores(cores).collect()}
    two = found["1-2-1", 1000]
    assert (two.cores, two.load_cores, two.machine_cores, two.stolen_cores) == (1.0, 0.2, 1.9, 0.1)
    assert two.delivered_s_per_core == 1500.0
    assert (two.speedup, two.times_cores, two.speedup_per_core) == (1.5, 2.0, 0.75)
    assert found["1-1-1", 1000].speedup_per_core == 1.0
    assert found["1-2-1", 50].speedup is None  # no baseline under that load


def test_deliveries_are_told_by_phase(spark: SparkSession) -> None:
    of = (*cell("1-1-1"), "matcher 1 → 3")
    bins = spark.createDataFrame(
        [(*of, place / 2, 0.5, count) for place, count in zip(range(-1, 5), (10, 8, 0, 0, 9, 10), strict=True)],
        f"{CELL}, step string, at_s double, width_s double, delivered long",
    )
    phases = spark.createDataFrame(
        [(*of, "copying", 0.0, 1.0, 7), (*of, "moving", 1.0, 1.5, 7)],
        f"{CELL}, step string, phase string, begin_s double, end_s double, moved long",
    )
    rates = {row.part: (row.seconds, row.delivered_s) for row in rates_by_phase(bins, phases).collect()}
    assert rates == {"before": (0.5, 20.0), "copying": (1.0, 8.0), "moving": (0.5, 0.0), "after": (1.0, 19.0)}
    (row,) = longest_silences(bins).collect()
    assert row.silent_s == 1.0
