"""`./dev bench storage`, small: every figure runs, and variants that must find the same find the same."""

import gzip
import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from benchmarks.storage import loop_delay, postgres, recovery, upkeep, workloads
from benchmarks.storage.__main__ import _arguments, measure
from benchmarks.storage.figures import FIGURES, steps
from benchmarks.storage.report import Report, show

pytestmark = pytest.mark.slow


def small(*arguments: str) -> Report:
    given = _arguments(["--operations", "600", "--rate", "100", "--no-peers", *arguments])
    return measure(given, lambda _: None)


def test_every_figure_runs_and_variants_agree() -> None:
    report = small()
    assert [one.figure for one in report.figures] == list(FIGURES)
    for result in report.figures:
        matches = {one.variant: one.matches for one in result.measured}
        assert all(one.operations == result.operations for one in result.measured)
        if result.figure == "15":
            # Fewer and smaller cells meet less that does not really intersect.
            assert matches["fixed"] <= matches["covering"] <= matches["variable"]
        else:
            instant = {count for variant, count in matches.items() if variant != "RepQueries"}
            assert len(instant) == 1
    assert report.missing["taxis"]


def test_the_report_is_shown_and_written() -> None:
    report = small("--figures", "12,14")
    console = Console(record=True, width=140, file=io.StringIO())
    show(report, console)
    text = console.export_text()
    assert "Figure 12" in text
    assert "Figure 16" in text
    assert "the same by what is found" in text
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_self_joins_are_told_apart_by_what_they_find() -> None:
    crowd = workloads.posts(1)
    found = [step.group for step in steps(FIGURES["12"], "DualDB", crowd, 15, rate=0.5)]
    assert found == ["0 found", "1", "2 to 3", "2 to 3", *["4 to 7"] * 11]  # five operations in ten seconds, for ever


def test_upkeep_is_measured_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "WINDOWS", (2000,))
    monkeypatch.setattr(upkeep, "SUBSCRIPTIONS", 3000)
    monkeypatch.setattr(recovery, "SUBSCRIPTIONS", 5000)
    monkeypatch.setattr(recovery, "BATCHES", 100)
    monkeypatch.setattr(loop_delay, "SECONDS", 0.2)
    report = small("--figures", "none", "--upkeep")
    assert report.figures == []
    assert report.upkeep is not None
    assert [one.what for one in report.upkeep.slices] == [
        "drop a window of 2,000",
        "rewrite a base of 3,000, 1,800 removed",
    ]
    assert len(upkeep.table(report.upkeep)) == 3
    assert [delay.ticks > 0 for delay in report.upkeep.delays] == [True, True, True]
    assert "recover subscriptions into the index" in [rate.what for rate in report.upkeep.rates]


def test_recorded_taxis_are_read_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / workloads.TAXIS
    file.parent.mkdir()
    rows = ["unix_time,cab_id,lat,lon,occupied", "1,a,37.7,-122.4,0", "2,b,10.0,10.0,0", "3,c,37.8,-122.45,1"]
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.write("\n".join(rows))
    assert [point.who for point in workloads.taxis(tmp_path, 10).points] == ["a", "c"]


@pytest.mark.parametrize(
    "arguments",
    [["--figures", "9"], ["--operations", "0"], ["--data", "/nonexistent"]],
    ids=["figure", "operations", "data"],
)
def test_wrong_options_say_what_is_wrong(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _arguments(arguments)
    assert arguments[0] in capsys.readouterr().err


def test_a_missing_peer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "missing", lambda: "it is not there")
    given = _arguments(["--operations", "20", "--figures", "10"])
    assert measure(given, lambda _: None).missing["PostgreSQL"] == "it is not there"
