"""Everything a report shows, computed by Spark and brought to the driver: a few hundred rows."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from spark.analysis.cost import cost_of_layers, speed_of_cores
from spark.analysis.latency import latency_percentiles
from spark.analysis.scaling_law import ScalingLaw, fit
from spark.analysis.throughput import dominance, speedup, throughput, throughput_of_cells
from spark.analysis.timeline import longest_silences, rates_by_phase
from spark.experiments.results import files_of, finished_cells

Row = dict[str, Any]


class Tables(NamedTuple):
    plan: str
    commit: str
    machine: Row
    ledgers: list[Row]
    throughput: list[Row]
    speedup: list[Row]
    dominance: list[Row]
    latency: list[Row]
    cost: list[Row]
    cores: list[Row]
    bins: list[Row]
    phases: list[Row]
    rates: list[Row]
    silences: list[Row]
    laws: dict[int, ScalingLaw]  # by subscriptions


def read_tables(spark: SparkSession, directory: Path) -> Tables:
    """Of one plan and commit. Raises `ExperimentError`."""
    seconds, latencies, usage, bins, phases = (
        spark.read.parquet(*files_of(directory, table)).cache()
        for table in ("seconds", "latencies", "usage", "bins", "phases")
    )
    # What was measured while a cluster scaled is no throughput of a configuration.
    scaled = phases.select("configuration", "subscriptions", "rate", "repetition").distinct()
    steady = seconds.join(scaled, ["configuration", "subscriptions", "rate", "repetition"], "left_anti")
    cells = throughput_of_cells(steady).cache()
    kinds = throughput(cells).cache()
    gained = _rows(speedup(kinds), "subscriptions", "processors", "exitpoints")
    return Tables(
        plan=directory.parent.name,
        commit=directory.name,
        machine=json.loads((directory / "machine.json").read_text()),
        ledgers=[json.loads((cell / "cell.json").read_text()) for cell in finished_cells(directory)],
        throughput=_rows(kinds, "subscriptions", "matchers", "exitpoints"),
        speedup=gained,
        dominance=_rows(dominance(kinds), "subscriptions", "matchers"),
        latency=_rows(latency_percentiles(latencies), "configuration", "subscriptions", "part", "percentile"),
        cost=_rows(cost_of_layers(usage, cells), "subscriptions", "configuration", "repetition", "layer"),
        cores=_rows(speed_of_cores(usage, cells), "subscriptions", "configuration", "repetition"),
        bins=_rows(bins, "configuration", "step", "at_s"),
        phases=_rows(phases, "configuration", "step", "begin_s"),
        rates=_rows(rates_by_phase(bins, phases), "configuration", "step", "begin_s"),
        silences=_rows(longest_silences(bins), "configuration", "step"),
        laws=_laws(gained),
    )


def _rows(table: DataFrame, *order: str) -> list[Row]:
    return [row.asDict() for row in table.orderBy(*order).collect()]


def _laws(gained: list[Row]) -> dict[int, ScalingLaw]:
    points: dict[int, list[tuple[float, float]]] = {}
    for row in gained:
        if row["rate"] == 0 and row["speedup"] is not None:
            points.setdefault(row["subscriptions"], []).append((row["processors"], row["speedup"]))
    return {load: law for load, known in sorted(points.items()) if (law := fit(known)) is not None}
