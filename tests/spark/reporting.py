"""From what a driver wrote to the page: everything in between is real."""

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark.analysis.scaling_law import ScalingLaw
from spark.errors import ExperimentError
from spark.experiments.machine import machine
from spark.experiments.plan import Cell, Plan, Scaling
from spark.experiments.results import Results, Rows
from spark.experiments.sampling import layer_of
from spark.report import findings, pictures
from spark.report.conditions import other_conditions
from spark.report.difference import ScalingChange, changes, scaling_changes, summary
from spark.report.making import make_report
from spark.report.model import model
from spark.report.page import page
from spark.report.tables import Tables, read_tables
from spark.requests import Report

__all__ = [
    "tables_of_a_run",
    "test_a_damaged_earlier_run_costs_the_difference_and_nothing_else",
    "test_a_difference_counts_when_it_is_larger_than_that_of_repetitions",
    "test_a_law_that_does_not_fit_predicts_nothing",
    "test_a_law_through_two_points_says_nothing_of_itself",
    "test_exit_points_that_are_about_as_fast_are_not_called_faster",
    "test_figures_that_are_left_out_are_named",
    "test_many_cells_that_failed_for_one_reason_are_one_sentence",
    "test_other_conditions_are_told_with_the_difference",
    "test_repetitions_and_scalings_are_told_apart",
    "test_routing_and_workload_are_conditions",
    "test_slices_that_cost_more_than_they_bring_are_counted",
    "test_subscriptions_that_a_scaling_lost_and_what_it_refused_are_told",
    "test_the_page_shows_what_was_measured",
    "test_what_is_missing_was_lost_or_has_failed_is_told",
    "test_where_nothing_came_before_nothing_is_the_same",
]

SPEEDS = {"2-2-1": 1400, "2-2-2": 1500, "1-1-1": 1000, "1-2-1": 1500, "1-3-1": 1800, "1-2-2": 1600}
STOLEN = {"1-2-1": 0.5}  # cores; nothing in other cells
SCALING = Scaling(configuration="1-1-1", steps=["matcher=3"], subscriptions=1000)
PLAN = Plan(name="small", configurations=list(SPEEDS)[2:], subscriptions=[1000], seconds=2, scalings=[SCALING])


def measured(root: Path, commit: str, factor: float = 1.0, plan: Plan = PLAN) -> Results:
    results = Results(root, "small", commit)
    results.describe({**machine(), "cores": 2}, plan)
    for cell in plan.cells():
        results.write(cell, steady(cell, factor) if cell.scaling is None else scaled(cell.steps))
    return results


def steady(cell: Cell, factor: float) -> Rows:
    speed, configuration = SPEEDS[str(cell.layout)], str(cell.layout)
    names = [f"matcher-{number}" for number in range(1, cell.layout.matchers + 1)] + ["connpoint-1"]
    used = {**dict.fromkeys(names, 0.3), "load-1": 0.2}
    used |= {"machine": sum(used.values()) + 0.1, "stolen": STOLEN.get(configuration, 0.0)}
    tables: dict[str, list[tuple[Any, ...]]] = {
        "seconds": [(second, round(speed * factor), round(speed * factor), 1.0) for second in (1, 2)],
        "usage": [(1, name, layer_of(name), cpu_s, 10_000_000, 1.0) for name, cpu_s in used.items()],
        "latencies": [("steady", 5.0, 90), ("steady", 50.0 * cell.repetition, 10)],
    }
    return Rows(tables, {"sent": 2 * speed, "lost": 0, "twice": 0, "took_s": 6.0})


def scaled(steps: str) -> Rows:
    step = f"matcher 1 → {steps.rpartition('=')[2]}"
    bins = [(step, place / 20, 0.05, 0 if place == 30 else 100) for place in range(-20, 60)]
    phases = [(step, "copying", 0.0, 1.0, 700), (step, "moving", 1.0, 2.0, 700)]
    latencies = [("before", 5.0, 10), (step, 50.0, 10)]
    tables: dict[str, list[tuple[Any, ...]]] = {
        "bins": bins,
        "phases": phases,
        "latencies": latencies,
        "seconds": [(1, 2000, 2000, 1.0)],
    }
    return Rows(tables, {"sent": 5000, "lost": 0})


@pytest.fixture(scope="module")
def tables_of_a_run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Read once for all that only look at them."""
    return read_tables(spark, measured(tmp_path_factory.mktemp("measured"), "bbb", 1.5).directory)


def test_the_page_shows_what_was_measured(tables_of_a_run: Tables) -> None:
    tables = tables_of_a_run
    assert [row["delivered_s"] for row in tables.throughput if row["configuration"] == "1-3-1"] == [2700]
    assert tables.laws[1000].processors_max == tables.matcher_laws[1000].processors_max == 3
    slower = [{**row, "delivered_s": row["delivered_s"] / 1.5} for row in tables.throughput]
    made = page(tables, tables._replace(run="aaa", throughput=slower))
    assert made.count("<svg") >= 8
    assert made.count("so these say less of the broker") == 2  # in short, and with what it cost
    namespaces = r"https?://(www\.w3\.org|matplotlib|purl|creativecommons)\S*"
    assert "http" not in re.sub(namespaces, "", made), "the page needs nothing else"
    for sentence in (
        "With 1,000 subscriptions 1-3-1 delivers most: 2,700 notifications per second, 1.80 times 1-1-1.",
        "Of 3 measurements with more slices than 1-1-1, 3 were more than 5% faster and 0 slower",
        "the largest speedup is 1.80, of 1-3-1 with 1,000 subscriptions.",
        "In 1-1-1 with 1,000 subscriptions a delivered publication costs 200.0 µs of processor time",
        "Of 2 cores the slices kept 0.90 busy, what publishes and receives 0.20, everything else "
        "(ZooKeeper, the system, other programs) 0.10, and the host gave 0.00 to other machines",
        "In 1 of 4 cells other programs, ZooKeeper and the system among them, and other machines held more than 10% of "
        "the 2 cores, so these say less of the broker: 1-2-1 with 1,000 subscriptions (programs 5%, machines 25%).",
        "matcher 1 → 3 from 1-1-1 with 1,000 subscriptions, at 2,000 publications per second, took 2.0 s and moved 700 "
        "subscriptions, those that came meanwhile among them; the longest time without any delivery",
        "was 50 ms, in bins of 50 ms. 2,000 notifications came per second before it and 2,000 after it.",
        "Of 16,800 publications in 5 cells 0 were lost, 0 came twice, 0 out of order and 0 unwanted.",
        " · 5 of 5 cells in 0.4 minutes</p>",
        "Of 4 kinds of cells that both runs measured, 4 are faster, 0 slower and 0 about the same",
        "<td>1,000</td><td>1,500</td><td>50% faster</td>",
        "were <b>not measured</b>",
        "what has not come a minute after the last was sent is lost, and of a live scaling what has not come when "
        "nothing came for 20 seconds.",
    ):
        assert sentence in made, sentence
    captions = re.findall(r"<figcaption>[^<]*\(Figure (\d+)\)[^<]*</figcaption>", made)
    assert captions == ["7", "9", "8", "11", "12", "13"]
    assert re.findall(r"<li>(Left out [^<]*)</li>", made) == [
        "Left out for want of two exit points with two numbers of matchers: Figure 10."
    ]


def test_figures_that_are_left_out_are_named(tables_of_a_run: Tables) -> None:
    alone = [row for row in tables_of_a_run.speedup if row["configuration"] == "1-1-1"]
    some = tables_of_a_run._replace(throughput=[], speedup=alone, dominance=[], silences=[])
    found = findings.left_out(some)
    assert [sentence.rpartition(": ")[2] for sentence in found] == [
        *("Figure 7.", "Figure 8.", "Figures 9, 11 and 12.", "Figure 10.", "Figure 13."),
    ]
    two = [{**row, "matchers": 3, "exitpoints": 2} for row in tables_of_a_run.speedup if row["exitpoints"] == 2]
    assert findings.left_out(tables_of_a_run._replace(speedup=[*tables_of_a_run.speedup, *two])) == []


def test_what_is_missing_was_lost_or_has_failed_is_told(tables_of_a_run: Tables) -> None:
    first, second, *others = tables_of_a_run.ledgers
    tables = tables_of_a_run._replace(
        ledgers=[{**first, "lost": 3, "unwanted": 1200}, second],
        missing=[others[0]["cell"], others[1]["cell"]],
        failures=[
            {"cell": others[0]["cell"], "reason": "the first reason"},
            {"cell": others[0]["cell"], "reason": "its cluster did not come up"},
            {"cell": second["cell"], "reason": "a scaling was aborted"},
        ],
    )
    made = page(tables)
    assert " · 2 of 4 cells in " in made
    for sentence in (
        f"2 of 4 cells are missing, and nothing here counts them: {others[0]['cell']} (its cluster did not come up); "
        f"{others[1]['cell']} (not measured yet).",
        f"Cells that failed before they were measured: {second['cell']} (a scaling was aborted).",
        f"3 were lost, 0 came twice, 0 out of order and 1,200 unwanted: {first['cell']} (3 lost, 1,200 unwanted).",
    ):
        assert sentence in made, sentence


def test_many_cells_that_failed_for_one_reason_are_one_sentence(tables_of_a_run: Tables) -> None:
    names = [f"1-1-1_{number}_flood_1" for number in range(190)]
    twice = [{"cell": name, "reason": "the code was changed"} for _ in range(2) for name in names]
    later = [{"cell": "1-2-1_10_flood_1", "reason": why} for why in ("no room", "no time", "no room")]
    tables = tables_of_a_run._replace(missing=[*names, "1-3-1_10_flood_1"], failures=[*twice, *later])
    missing, failed = findings.unfinished(tables)
    assert missing.endswith(
        "cells are missing, and nothing here counts them: 190 cells, 1-1-1_0_flood_1, 1-1-1_1_flood_1, "
        "1-1-1_2_flood_1 among them (the code was changed); 1-3-1_10_flood_1 (not measured yet)."
    )
    assert failed == (
        "Cells that failed before they were measured: 1-2-1_10_flood_1 (no room); 1-2-1_10_flood_1 (no time)."
    )


def test_subscriptions_that_a_scaling_lost_and_what_it_refused_are_told(tables_of_a_run: Tables) -> None:
    *others, last = tables_of_a_run.ledgers

    def told(kept: int, new_refused: int = 0, refused: int = 0) -> str:
        ledger = {**last, "subscriptions": 1000, "new_at_end": 200, "kept_at_end": kept}
        ledger |= {"new_refused": new_refused, "refused": refused}
        return findings.ledger(tables_of_a_run._replace(ledgers=[*others, ledger])).partition(" unwanted")[2]

    assert told(1200) == "."
    assert told(1190) == f": {last['cell']} (1,190 subscriptions instead of 1,200)."
    assert told(1205) == f": {last['cell']} (1,205 subscriptions instead of 1,200)."
    assert told(1205, new_refused=5) == "."  # a subscription that was refused may be there or not
    assert told(1199, refused=7) == f": {last['cell']} (7 refused, 1,199 subscriptions instead of 1,200)."


def test_exit_points_that_are_about_as_fast_are_not_called_faster(tables_of_a_run: Tables) -> None:
    (row,) = tables_of_a_run.dominance
    assert findings.slices(tables_of_a_run)[-1] == (
        "Of 1 comparisons, a second exit point was more than 5% faster in 1, slower in 0 and about as fast in 0 (1.07 "
        "to 1.07 times)."
    )
    even = tables_of_a_run._replace(dominance=[{**row, "dominance": ratio} for ratio in (1.01, 1.0, 0.9)])
    assert findings.slices(even)[-1] == (
        "Of 3 comparisons, a second exit point was more than 5% faster in 0, slower in 1 and about as fast in 2 (0.90 "
        "to 1.01 times)."
    )


def test_slices_that_cost_more_than_they_bring_are_counted(tables_of_a_run: Tables) -> None:
    rows = [row for row in tables_of_a_run.speedup if row["karp_flatt"] is not None]

    def told(*parts: float) -> str:
        speedup = [{**rows[0], "karp_flatt": part} for part in parts]
        (sentence,) = (one for one in findings.slices(tables_of_a_run._replace(speedup=speedup)) if "Karp" in one)
        return sentence.partition("metric is ")[2]

    assert told(0.2, 0.9) == "0.20 to 0.90, the part of the work that more slices do not speed up."
    assert told(0.78, 1.2, 1.42) == (
        "0.78 to 1.42, more than all of the work in 2 of 3 configurations: slices cost more than they bring there."
    )
    assert told(1.2, 1.3) == "1.20 to 1.30, more than all of the work: slices cost more than they bring there."


def test_where_nothing_came_before_nothing_is_the_same(tables_of_a_run: Tables) -> None:
    now = tables_of_a_run
    silent = [{**row, "delivered_s": 0.0} for row in now.throughput]
    found = changes(now._replace(throughput=silent), now)
    assert {one.verdict for one in found} == {"nothing came before"}
    assert summary(found).startswith(f"Of {len(found)} kinds of cells that both runs measured, 0 are faster, 0 slower")
    assert summary(found).endswith(f" Of {len(found)} nothing came before, so there is nothing to compare.")
    neither = changes(now._replace(throughput=silent), now._replace(throughput=silent))
    assert {one.verdict for one in neither} == {"nothing came in either"}


def test_a_difference_counts_when_it_is_larger_than_that_of_repetitions(tables_of_a_run: Tables) -> None:
    before = tables_of_a_run

    def now(share: float, apart: float, repetitions: int = 3) -> str:
        rows = [
            {
                **row,
                "delivered_s": share * row["delivered_s"],
                "delivered_s_max": (share + apart) * row["delivered_s"],
                "delivered_s_min": share * row["delivered_s"],
                "repetitions": repetitions,
            }
            for row in before.throughput
        ]
        return changes(before, before._replace(throughput=rows))[0].verdict

    assert now(1.25, 0.0, repetitions=1) == "about the same"  # nobody knows how far repetitions lie apart
    assert now(0.6, 0.0, repetitions=1) == "40% slower"
    assert now(1.25, 0.05) == "25% faster"
    assert now(1.25, 0.5) == "about the same"
    assert now(1.05, 0.0) == "about the same"
    assert "or 33% where nothing was repeated" in summary(changes(before, before))


def test_a_law_that_does_not_fit_predicts_nothing(tables_of_a_run: Tables) -> None:
    tables = tables_of_a_run
    law = ScalingLaw(0.25, 0.0, 0.9, 8, 3)
    good = "".join(model(tables._replace(laws={1000: law}, matcher_laws={1000: law})))
    for sentence in (
        "the model has a ceiling of 4.00 times one, however many there are; with 16 processors it would have 3.37",
        "and 16 matchers, by the model, at",
        "<td>a ceiling of 4.00 times one, however many there are</td>",
        "1 k, model</text>",
    ):
        assert sentence in good, sentence
    poor = law._replace(r_squared=-0.95)
    bad = "".join(model(tables._replace(laws={1000: poor}, matcher_laws={1000: poor})))
    for sentence in (
        "With 1,000 subscriptions the law does not describe the speedups on this machine (R² -0.95), so it predicts",
        "what more matchers would bring the law does not describe (R² -0.95).",
        "<td>does not describe these</td>",
        "1 k, measured</text>",
    ):
        assert sentence in bad, sentence
    for sentence in ("it would have", "by the model", ", model</text>", "ceiling of"):
        assert sentence not in bad, sentence


def test_a_law_through_two_points_says_nothing_of_itself(tables_of_a_run: Tables) -> None:
    """It was measured with two and with three processors, so that R² is 1 whatever was measured."""

    def shown(law: ScalingLaw) -> str:
        return "".join(model(tables_of_a_run._replace(laws={1000: law}, matcher_laws={1000: law})))

    through = ScalingLaw(0.25, 0.01, 1.0, 3, 2)
    made = shown(through)
    for sentence in (
        "(measured: up to 3, at 2 numbers beyond one, as many as the law has unknowns).",
        "matchers, by the model, at 2 numbers beyond one, as many as the law has unknowns, at ",
        "<td>says nothing</td><td>3</td>",
    ):
        assert sentence in made, sentence
    for law in (through._replace(different=3), through._replace(coherence=0.0)):
        judged = shown(law._replace(r_squared=0.9))
        assert "as many as the law has unknowns" not in judged
        assert "<td>0.90</td><td>3</td>" in judged


def test_a_damaged_earlier_run_costs_the_difference_and_nothing_else(
    tables_of_a_run: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, now = measured(tmp_path, "aaa"), measured(tmp_path, "bbb")
    for path in (*before.directory.glob("*/seconds.parquet"), *before.directory.glob("*/usage.parquet")):
        pq.write_table(pq.read_table(path).drop_columns(["lasted_s"]), path)  # as runs were written once

    def read_before(spark: SparkSession, run: Path) -> Tables:
        return tables_of_a_run if run == now.directory else read_tables(spark, run)

    with monkeypatch.context() as patch:
        # How a run is read that is whole, and shown, is asked by other tests.
        patch.setattr("spark.report.tables.read_tables", read_before)
        patch.setattr("spark.report.page.page", lambda _now, _before, why: str(why))
        made = make_report(Report(results=tmp_path / "small"))
        assert (made["of"], made["against"], made["note"]) == ("bbb", "aaa", None)
        next(before.directory.glob("*/bins.parquet")).write_bytes(b"not what was written")
        made = make_report(Report(results=tmp_path / "small"))
        assert (made["against"], made["note"]) == (None, Path(made["out"]).read_text())
        assert made["note"].startswith("The difference to aaa is left out: ")
    with monkeypatch.context() as patch:
        patch.setattr("spark.report.tables.read_tables", read_before)
        next(before.directory.glob("*/cell.json")).write_bytes(b"not what was written")
        made = make_report(Report(results=tmp_path / "small"))
        assert (made["of"], made["against"]) == ("bbb", None)
        assert made["note"].startswith("The difference to aaa is left out: ")
        shown = Path(made["out"]).read_text()
        assert "The difference to aaa is left out: " in shown
        assert "1-3-1 delivers most" in shown
    next(now.directory.glob("*/bins.parquet")).write_bytes(b"not what was written")
    with pytest.raises(ExperimentError, match=r"bins\.parquet cannot be read"):
        make_report(Report(results=tmp_path / "small"))


def test_repetitions_and_scalings_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    scalings = [SCALING, SCALING.model_copy(update={"steps": ["matcher=2"], "subscriptions": 500})]
    plan = PLAN.model_copy(update={"configurations": list(SPEEDS), "repetitions": 2, "scalings": scalings})
    tables = read_tables(spark, measured(tmp_path, "aaa", plan=plan).directory)
    made = page(tables)
    captions = re.findall(r"<figcaption>(matcher 1 → [^<]*)</figcaption>", made)
    assert len(captions) == len(set(captions)) == 4
    assert captions[0] == (
        "matcher 1 → 2 from 1-1-1 with 500 subscriptions, at 2,000 publications per second, repetition 1 (Figure 13): "
        "deliveries in bins of 50 ms."
    )
    for part in ("steady", "before", "copying"):
        rows = re.findall(rf"<tr[^>]*>((?:<td>[^<]*</td>)*<td>{part}</td>.*?)</tr>", made)
        assert len(rows) == len(set(rows)) == {"steady": 6, "before": 6, "copying": 4}[part], part
    # Ten of a hundred took 50 ms in one repetition, and 100 ms in the other.
    assert (
        "<td>2-2-1</td><td>1,000</td><td>flood</td><td></td><td>steady</td><td>5.0</td><td>5.0</td><td>100.0</td>"
        in made
    )
    assert "1-2-1 with 1,000 subscriptions, repetition 2 (programs 5%, machines 25%)" in made
    picture = pictures.dominance_by_load(tables)
    assert "2-2-2 over 2-2-1" in picture
    assert "1-2-2 over 1-2-1" in picture


def test_routing_and_workload_are_conditions(tables_of_a_run: Tables) -> None:
    """A plan that does not name one has cells without it."""

    def named(**conditions: Any) -> Tables:
        ledgers = [{**one, "as": {**one["as"], **conditions}} for one in tables_of_a_run.ledgers]
        return tables_of_a_run._replace(ledgers=ledgers)

    stored = {"publications": "readings", "subscriptions": "alarms"}
    before, now = named(routing="anchored"), named(workload=stored)
    (told,) = other_conditions(before, now)
    assert told == (
        "Cells of the same name were not measured in the same way: routing anchored before and not named now; "
        "workload not named before and publications readings, subscriptions alarms now."
    )
    made = page(now, before)
    assert " · workload publications readings, subscriptions alarms · 5 of 5 cells" in made
    assert told in made
    silent = [{name: value for name, value in one.items() if name != "as"} for one in before.ledgers]
    assert other_conditions(before._replace(ledgers=silent), now) == []


def test_other_conditions_are_told_with_the_difference(tables_of_a_run: Tables) -> None:
    now = tables_of_a_run
    assert other_conditions(now, now) == []
    ledgers = [{**one, "as": {**one["as"], "seconds": 20, "warm_up_s": 7}} for one in now.ledgers]
    before = now._replace(
        run="aaa",
        machine={**now.machine, "cores": 64, "processor": "a large one"},
        ledgers=ledgers,
        holders=[{**row, "stolen_cores": 32.0} for row in now.holders],
        silences=[{**row, "silent_s": 1.5} for row in now.silences],
        phases=[{**row, "end_s": row["end_s"] + 3} for row in now.phases],
    )
    machine, cells, stolen = other_conditions(before, now)
    assert machine.startswith("The machine is another one: 64 cores (a large one) before, 2 (")
    assert cells == (
        "Cells of the same name were not measured in the same way: seconds 20 before and 0 now or 20 before and 2 now; "
        "warm_up_s 7 before and 0.0 now or 7 before and 2.0 now."
    )
    assert stolen == "In the median of cells other machines held 50% of the cores before and 0% now."
    (scaled,) = scaling_changes(before, now)
    assert scaled == ScalingChange("1-1-1", 1000, 2000.0, "matcher=3", "matcher 1 → 3", 5.0, 2.0, 1500.0, 50.0)
    (new,) = scaling_changes(before._replace(silences=[]), now)
    assert (new.before_s, new.now_s, new.before_silent_ms) == (None, 2.0, None)
    made = page(now, before)
    assert "The machine is another one: 64 cores" in made
    assert "<td>matcher=3</td><td>5.0</td><td>2.0</td><td>1,500</td><td>50</td>" in made
