"""From what a driver wrote to the page: everything in between is real."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.errors import ExperimentError
from spark.experiments.configurations import layout_of
from spark.experiments.driver import machine
from spark.experiments.plan import Cell, Scaling
from spark.experiments.results import Results, Rows
from spark.report.making import newest_of
from spark.report.page import page
from spark.report.tables import read_tables

__all__ = ["test_a_directory_without_results_is_refused", "test_the_page_shows_what_was_measured"]

SPEEDS = {"1-1-1": 1000, "1-2-1": 1500, "1-3-1": 1800, "1-2-2": 1600}


def measured(root: Path, commit: str, factor: float = 1.0) -> Results:
    results = Results(root, "small", commit)
    results.describe(machine())
    for configuration, speed in SPEEDS.items():
        layout = layout_of(configuration)
        names = [f"matcher-{number}" for number in range(1, layout.matchers + 1)] + ["connpoint-1"]
        usage = [(1, name, name.rpartition("-")[0], 0.3, 10_000_000) for name in names]
        seconds = [(second, round(speed * factor), round(speed * factor)) for second in (1, 2)]
        tables: dict[str, list[tuple[Any, ...]]] = {
            "seconds": seconds,
            "usage": usage,
            "latencies": [("steady", 5.0, 90), ("steady", 50.0, 10)],
        }
        results.write(Cell(layout, 1000, 0.0, 1), Rows(tables, {"sent": 2 * speed, "lost": 0, "twice": 0}))
    scaling = Scaling(configuration="1-1-1", steps=["matcher=3"], subscriptions=1000)
    step = "matcher 1 → 3"
    bins = [(step, place / 20, 0.05, 0 if place == 30 else 100) for place in range(-20, 60)]
    phases = [(step, "copying", 0.0, 1.0, 700), (step, "moving", 1.0, 2.0, 700)]
    rows = Rows({"bins": bins, "phases": phases, "seconds": [(1, 2000, 2000)]}, {"sent": 5000, "lost": 0})
    results.write(Cell(layout_of("1-1-1"), 1000, 2000.0, 1, scaling), rows)
    return results


def test_the_page_shows_what_was_measured(spark: SparkSession, tmp_path: Path) -> None:
    before, now = measured(tmp_path, "aaa"), measured(tmp_path, "bbb", 1.5)
    tables = read_tables(spark, now.directory)
    assert [row["delivered_s"] for row in tables.throughput if row["configuration"] == "1-3-1"] == [2700]
    assert tables.laws[1000].processors_max == 3
    slower = [{**row, "delivered_s": row["delivered_s"] / 1.5} for row in tables.throughput]
    made = page(tables, tables._replace(commit="aaa", throughput=slower))
    assert made.count("<svg") >= 8
    namespaces = r"https?://(www\.w3\.org|matplotlib|purl|creativecommons)\S*"
    assert "http" not in re.sub(namespaces, "", made), "the page needs nothing else"
    for sentence in (
        "With 1,000 subscriptions 1-3-1 delivers most: 2,700 notifications per second, 1.80 times 1-1-1.",
        "matcher 1 → 3 from 1-1-1 with 1,000 subscriptions took 2.0 s and moved 700",
        "was 50 ms, in bins of 50 ms",
        "Of 16,800 publications in 5 cells 0 were lost and 0 came twice.",
        "1-1-1 with 1,000 subscriptions: 1,000 → 1,500 per second, 50% faster.",
        "were <b>not measured</b>",
    ):
        assert sentence in made
    assert newest_of(tmp_path / "small") == [before.directory, now.directory]


def test_a_directory_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="holds no results"):
        newest_of(tmp_path)
