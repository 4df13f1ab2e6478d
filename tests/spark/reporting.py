"""From what a driver wrote to the page: everything in between is real."""

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark.experiments.configurations import layout_of
from spark.experiments.machine import machine
from spark.experiments.plan import Cell, Scaling
from spark.experiments.results import Results, Rows
from spark.report.page import page
from spark.report.tables import read_tables

__all__ = ["test_the_page_shows_what_was_measured"]

SPEEDS = {"1-1-1": 1000, "1-2-1": 1500, "1-3-1": 1800, "1-2-2": 1600}


def measured(root: Path, commit: str, factor: float = 1.0) -> Results:
    results = Results(root, "small", commit)
    results.describe(machine())
    for configuration, speed in SPEEDS.items():
        layout = layout_of(configuration)
        names = [f"matcher-{number}" for number in range(1, layout.matchers + 1)] + ["connpoint-1"]
        usage = [(1, name, name.rpartition("-")[0], 0.3, 10_000_000) for name in names]
        usage += [(1, "load-1", "load", 0.2, 10_000_000), (1, "machine", "machine", 1.9, 0)]
        seconds = [(second, round(speed * factor), round(speed * factor)) for second in (1, 2)]
        tables: dict[str, list[tuple[Any, ...]]] = {
            "seconds": seconds,
            "usage": usage,
            "latencies": [("steady", 5.0, 90), ("steady", 50.0, 10)],
        }
        cell = Cell(layout=layout, subscriptions=1000)
        results.write(cell, Rows(tables, {"sent": 2 * speed, "lost": 0, "twice": 0, "took_s": 6.0}))
    scaling = Scaling(configuration="1-1-1", steps=["matcher=3"], subscriptions=1000)
    step = "matcher 1 → 3"
    bins = [(step, place / 20, 0.05, 0 if place == 30 else 100) for place in range(-20, 60)]
    phases = [(step, "copying", 0.0, 1.0, 700), (step, "moving", 1.0, 2.0, 700)]
    rows = Rows({"bins": bins, "phases": phases, "seconds": [(1, 2000, 2000)]}, {"sent": 5000, "lost": 0})
    results.write(Cell(layout=layout_of("1-1-1"), subscriptions=1000, rate=2000.0, scaling=scaling), rows)
    return results


def test_the_page_shows_what_was_measured(spark: SparkSession, tmp_path: Path) -> None:
    measured(tmp_path, "aaa")
    now = measured(tmp_path, "bbb", 1.5)
    tables = read_tables(spark, now.directory)
    assert [row["delivered_s"] for row in tables.throughput if row["configuration"] == "1-3-1"] == [2700]
    assert tables.laws[1000].processors_max == tables.matcher_laws[1000].processors_max == 3
    slower = [{**row, "delivered_s": row["delivered_s"] / 1.5} for row in tables.throughput]
    made = page(tables, tables._replace(run="aaa", throughput=slower))
    assert made.count("<svg") >= 8
    namespaces = r"https?://(www\.w3\.org|matplotlib|purl|creativecommons)\S*"
    assert "http" not in re.sub(namespaces, "", made), "the page needs nothing else"
    for sentence in (
        "With 1,000 subscriptions 1-3-1 delivers most: 2,700 notifications per second, 1.80 times 1-1-1.",
        "Of 3 measurements with more slices than 1-1-1, 3 were more than 5% faster and 0 slower",
        "the largest speedup is 1.80, of 1-3-1 with 1,000 subscriptions.",
        "In 1-1-1 with 1,000 subscriptions a delivered publication costs 200.0 µs of processor time",
        "Of 2 cores the slices kept 0.90 busy, what publishes and receives 0.20, and everything else "
        "(ZooKeeper, the system, other programs) 0.80",
        "matcher 1 → 3 from 1-1-1 with 1,000 subscriptions, at 2,000 publications per second, took 2.0 s and moved 700",
        "was 50 ms, in bins of 50 ms. 2,000 notifications came per second before it and 2,000 after it.",
        "Of 16,800 publications in 5 cells 0 were lost, 0 came twice and 0 out of order.",
        "Of 4 kinds of cells that both runs measured, 4 are faster, 0 slower and 0 about the same",
        "<td>1,000</td><td>1,500</td><td>50% faster</td>",
        "were <b>not measured</b>",
    ):
        assert sentence in made, sentence
