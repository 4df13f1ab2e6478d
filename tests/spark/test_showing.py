"""How far a plan is, as it is shown: a line for each cell, and on a terminal a bar that moves with the clock."""

import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from spark.experiments import showing
from spark.experiments.plan import Plan
from spark.experiments.results import Results, Rows
from spark.experiments.showing import Shown

PLAN = Plan(name="small", configurations=["1-1-1", "1-2-1"], subscriptions=[10, 20])
CELLS = list(PLAN.cells())
WEIGHT_S = 1800.0  # of each cell


class Clock:
    """Of this module only; rich looks at its own."""

    def __init__(self) -> None:
        self.now = 5000.0

    def monotonic(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(showing, "time", SimpleNamespace(monotonic=clock.monotonic))
    monkeypatch.setattr(showing, "weight_s", lambda _cell: WEIGHT_S)
    return clock


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path, "small", "abc")


@pytest.fixture
def on_terminal(clock: Clock, results: Results, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    monkeypatch.setattr("sys.stderr", Terminal())
    with Shown(PLAN, results) as shown:
        yield shown


def bar(shown: Shown) -> str:
    """What a terminal shows of it now, without the bar itself and the time that has passed."""
    console = Console(file=io.StringIO(), width=160, color_system=None)
    with console.capture() as captured:
        console.print(shown._bar.get_renderable())
    words = captured.get().replace("━", "").replace("╸", "").replace("╺", "").split()
    return " ".join(words[: words.index("elapsed")])


def finish(results: Results, number: int) -> None:
    results.begin(CELLS[number])
    results.write(CELLS[number], Rows({"seconds": [(1, 5, 5, 1.0)]}, {"sent": 5, "lost": 0}))


def test_each_cell_that_has_ended_is_a_line_with_the_time_left(
    clock: Clock, results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that have ended tell how long the others take; the first one took twice as long as it weighs."""
    with Shown(PLAN, results) as shown:
        for cell, took_s, came_of_it in zip(
            CELLS, (3600, 1800, 60, 60), ("5/s", "failed", "[7/s]", "8/s"), strict=True
        ):
            shown.begin(cell)
            shown.say("loading")
            clock.now += took_s
            shown.end(cell, came_of_it)
    assert capsys.readouterr().err.splitlines() == [
        "1/4 1-1-1_10_flood_1: 5/s, 3:00:00 left",
        "2/4 1-2-1_10_flood_1: failed, 1:30:00 left",
        "3/4 1-1-1_20_flood_1: [7/s], 0:30:20 left",
        "4/4 1-2-1_20_flood_1: 8/s",
    ]


def test_cells_that_were_finished_before_take_no_time_and_have_no_number(
    clock: Clock, results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (0, 2):
        finish(results, number)
    with Shown(PLAN, results) as shown:
        shown.note("abc is left so: [it was measured] by other code")
        for number in (1, 3):
            shown.begin(CELLS[number])
            clock.now += WEIGHT_S
            shown.end(CELLS[number], "5/s")
    assert capsys.readouterr().err.splitlines() == [
        "abc is left so: [it was measured] by other code",
        "1/2 1-2-1_10_flood_1: 5/s, 0:30:00 left",
        "2/2 1-2-1_20_flood_1: 5/s",
    ]


def test_the_bar_moves_with_the_clock_within_a_cell(clock: Clock, on_terminal: Shown) -> None:
    assert bar(on_terminal) == "0% left 2:00:00"
    on_terminal.begin(CELLS[0])
    assert bar(on_terminal) == "1/4 1-1-1_10_flood_1 0% left 2:00:00"
    on_terminal.say("loading subscriptions")
    clock.now += WEIGHT_S / 2
    assert bar(on_terminal) == "1/4 1-1-1_10_flood_1: loading subscriptions 12% left 1:45:00"
    clock.now += 3 * WEIGHT_S  # far longer than it weighs: it is not done, and nobody knows how long it takes
    assert bar(on_terminal) == "1/4 1-1-1_10_flood_1: loading subscriptions 24% left 1:30:00"
    on_terminal.end(CELLS[0], "5/s")
    on_terminal.begin(CELLS[1])
    assert bar(on_terminal) == "2/4 1-2-1_10_flood_1 25% left 5:15:00"


def test_the_bar_of_a_plan_that_goes_on_begins_with_what_is_left(clock: Clock, results: Results) -> None:
    for number in range(3):
        finish(results, number)
    shown = Shown(PLAN, results)
    shown.begin(CELLS[3])
    clock.now += WEIGHT_S / 2
    assert bar(shown) == "1/1 1-2-1_20_flood_1 50% left 0:15:00"


def test_nothing_is_left_of_a_plan_that_was_finished(clock: Clock, results: Results) -> None:
    for number in range(4):
        finish(results, number)
    assert bar(Shown(PLAN, results)) == "100% left 0:00:00"
