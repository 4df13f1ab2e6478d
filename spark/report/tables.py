"""Everything a report shows, computed by Spark and brought to the driver: a few hundred rows."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark.analysis.cost import cores_of_cells, cost_of_kinds, cost_of_layers, holders_of_cores, speedup_of_cores
from spark.analysis.latency import latency_percentiles
from spark.analysis.scaling_law import ScalingLaw, fit
from spark.analysis.throughput import BASELINE, KIND, dominance, speedup, steady, throughput, throughput_of_cells
from spark.analysis.timeline import longest_silences, rates_by_phase
from spark.experiments.finished import failures_of, files_of, ledgers_of, machine_of, missing_cells

Row = dict[str, Any]

_CONFIGURATION = ("matchers", "exitpoints", "accesspoints")
_CELL = ("subscriptions", "rate", *_CONFIGURATION, "scaling")


class Tables(NamedTuple):
    plan: str
    run: str
    machine: Row
    ledgers: list[Row]
    missing: list[str]  # cells that the plan wants and that are not finished
    failures: list[Row]  # `cell` and `reason`, also of cells that were measured later
    throughput: list[Row]
    speedup: list[Row]
    dominance: list[Row]
    latency: list[Row]  # of all repetitions together
    cost: list[Row]
    cores: list[Row]
    holders: list[Row]  # who kept the cores busy in each cell, also in those that scaled
    bins: list[Row]
    phases: list[Row]
    rates: list[Row]
    silences: list[Row]
    laws: dict[int, ScalingLaw]  # of speedups as measured, by subscriptions
    matcher_laws: dict[int, ScalingLaw]  # of what matchers could do with a core for each, by subscriptions


def read_tables(spark: SparkSession, run: Path) -> Tables:
    """Raises `ExperimentError`.

    In one partition nothing has to be shuffled, so that each table takes one short task.
    """
    seconds, latencies, usage, bins, phases = (
        _read(spark, run, table).coalesce(1).cache() for table in ("seconds", "latencies", "usage", "bins", "phases")
    )
    cells = throughput_of_cells(steady(seconds)).cache()
    kinds = throughput(cells).cache()
    gained = _rows(speedup(kinds), *_CELL)
    costs = _rows(cost_of_kinds(cost_of_layers(usage, cells)), *_CELL, "layer")
    return Tables(
        plan=run.parent.name,
        run=run.name,
        machine=machine_of(run),
        ledgers=ledgers_of(run),
        missing=missing_cells(run),
        failures=failures_of(run),
        throughput=_rows(kinds, *_CELL),
        speedup=gained,
        dominance=_rows(dominance(kinds), "subscriptions", "accesspoints", "matchers"),
        latency=_rows(latency_percentiles(latencies, part=[*KIND, "part"]), *_CELL, "part", "percentile"),
        cost=costs,
        cores=_rows(speedup_of_cores(cores_of_cells(usage, cells)), *_CELL),
        holders=_rows(holders_of_cores(usage), *_CELL, "repetition"),
        bins=_rows(bins, *_CELL, "repetition", "step", "at_s"),
        phases=_rows(phases, *_CELL, "repetition", "step", "begin_s"),
        rates=_rows(rates_by_phase(bins, phases), *_CELL, "repetition", "step", "begin_s"),
        silences=_rows(longest_silences(bins), *_CELL, "repetition", "step"),
        laws=laws_of((row["subscriptions"], row["processors"], row["speedup"]) for row in flooded(gained)),
        matcher_laws=laws_of(_matcher_speedups(flooded(costs))),
    )


def _read(spark: SparkSession, run: Path, table: str) -> DataFrame:
    """Of runs that did not note how long a second lasted, each lasted one: what they counted, they counted for one."""
    found = spark.read.option("mergeSchema", "true").parquet(*files_of(run, table))
    if table not in ("seconds", "usage"):
        return found
    lasted_s = f.coalesce("lasted_s", f.lit(1.0)) if "lasted_s" in found.columns else f.lit(1.0)
    return found.withColumn("lasted_s", lasted_s)


def flooded(rows: list[Row]) -> list[Row]:
    """A constant rate says nothing of the highest throughput."""
    return [row for row in rows if row["rate"] == 0]


def laws_of(points: Iterable[tuple[int, float, float | None]]) -> dict[int, ScalingLaw]:
    """From subscriptions, processors and speedup. Where points are too few there is no law."""
    by_load: dict[int, list[tuple[float, float]]] = {}
    for load, processors, gained in points:
        if gained is not None:
            by_load.setdefault(load, []).append((processors, gained))
    return {load: law for load, known in sorted(by_load.items()) if (law := fit(known)) is not None}


def _matcher_speedups(costs: list[Row]) -> Iterator[tuple[int, float, float | None]]:
    """Of the matchers alone: what they could deliver with a core for each, against one of them."""
    matchers = [row for row in costs if row["layer"] == "matcher" and row["exitpoints"] == 1]
    alone = {row["subscriptions"]: row["capacity_s"] for row in matchers if row["configuration"] == BASELINE}
    for row in matchers:
        base = alone.get(row["subscriptions"])
        if base and row["capacity_s"]:
            yield row["subscriptions"], row["matchers"], row["capacity_s"] / base


def _rows(table: DataFrame, *order: str) -> list[Row]:
    return [row.asDict() for row in table.orderBy(*order).collect()]
