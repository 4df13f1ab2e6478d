"""The benchmark of the index: its workloads keep their promises, and what it cannot measure it says."""

import gzip
import io
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.match import check
from benchmarks.match.cell import Measured
from benchmarks.match.peers import building, rules, running
from benchmarks.match.peers.building import MissingError, Peer
from benchmarks.match.peers.running import PeerResult, Task
from benchmarks.match.recorded import AIR, POSTS, TAXIS
from benchmarks.match.report import WIDTH_MIN, show
from benchmarks.match.run import Options, Report, run
from benchmarks.match.source import NOW_S, record
from benchmarks.match.workloads import WORKLOADS, missing_data
from braid.filters import parse, print_filter
from braid.matching.index import MatchIndex
from braid.matching.meaning import accepts, read_publication
from braid.subscription import SubscriptionRecord

HERE = "tests.core.test_bench_match"


class Found:
    def __init__(self, found: list[list[str]]) -> None:
        self._found = found

    def ids(self) -> list[list[str]]:
        return self._found


class PlainIndex:
    """The meaning, asked for each subscription."""

    def __init__(self) -> None:
        self.records: dict[str, SubscriptionRecord] = {}

    def add(self, record: SubscriptionRecord) -> None:
        self.records[record.id] = record

    def add_many(self, records: list[SubscriptionRecord]) -> None:
        for added in records:
            self.add(added)

    def remove(self, id: str) -> SubscriptionRecord | None:
        return self.records.pop(id, None)

    def get(self, id: str) -> SubscriptionRecord | None:
        return self.records.get(id)

    def match(self, contents: list[bytes], now_s: float) -> Found:
        return Found([self.accepting(content, now_s) for content in contents])

    def accepting(self, content: bytes, now_s: float) -> list[str]:
        publication = read_publication(content)
        return [record.id for record in self.records.values() if accepts(record, publication, None, now_s)]


class ForgetfulIndex(PlainIndex):
    """Leaves out one match of each publication."""

    def accepting(self, content: bytes, now_s: float) -> list[str]:
        return super().accepting(content, now_s)[1:]


class BrokenIndex(PlainIndex):
    def add_many(self, records: list[SubscriptionRecord]) -> None:
        raise OSError("the index broke")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A few rows of each recording."""
    hours = range(24)
    texts = (
        "the senate votes on the health insurance reform bill",
        "thank you teachers and nurses of the senate",
        "budget hearing about farming",
    )
    places = [f"{1212390000 + n},cab,{37.75 + n / 5000:.5f},{-122.4 - n / 5000:.5f},0" for n in range(40)]
    air = [f"2023-01-01T{hour:02}:00,s{hour % 3},8,NO2,{hour * 2},V" for hour in hours]
    _write(
        tmp_path / AIR,
        "local_hour_end,station,magnitude_code,pollutant,value,flag",
        [*air, "2023-01-01T01:00,s9,1,SO2,9,N"],
    )
    _write(tmp_path / POSTS, "unix_time,tweet_id,screen_name,text", [f"1,2,x,{texts[n % 3]} {n}" for n in range(40)])
    _write(tmp_path / TAXIS, "unix_time,cab_id,lat,lon,occupied", places)
    return tmp_path


def _write(file: Path, heading: str, lines: list[str]) -> None:
    file.parent.mkdir()
    file.write_bytes(gzip.compress("\n".join([heading, *lines]).encode()))


# Workloads


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_the_same_at_every_run(name: str, data: Path) -> None:
    first, second = (WORKLOADS[name].open(100, data) for _ in range(2))
    assert list(islice(first.subscriptions(), 120)) == list(islice(second.subscriptions(), 120))
    assert first.contents(20) == second.contents(20)
    assert len(set(first.contents(20))) == 20


@pytest.mark.slow
def test_a_workload_is_the_same_in_every_process(data: Path) -> None:
    program = (
        "import sys; from itertools import islice; from pathlib import Path\n"
        "from benchmarks.match.workloads import WORKLOADS\n"
        "for workload in WORKLOADS.values():\n"
        "    source = workload.open(100, Path(sys.argv[1]))\n"
        "    print(list(islice(source.subscriptions(), 120)), source.contents(20))\n"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", program, str(data)],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0].count(b"\n") == len(WORKLOADS)
    assert printed[0] == printed[1]


@pytest.mark.parametrize("name", WORKLOADS)
def test_subscriptions_are_as_they_are_stored(name: str, data: Path) -> None:
    records = list(islice(WORKLOADS[name].open(100, data).subscriptions(), 120))
    assert len({record.id for record in records}) == 120
    for subscribed in records:
        assert subscribed.filter == (print_filter(parse(subscribed.filter)) if subscribed.filter else "")


@pytest.mark.parametrize("size", [10, 500])
def test_a_publication_of_a_has_ten_matches_whatever_the_size(size: int) -> None:
    source = WORKLOADS["A"].open(size, Path())
    index = PlainIndex()
    index.add_many(list(islice(source.subscriptions(), size + 30)))
    for ids in index.match(source.contents(10), NOW_S).ids():
        assert len(ids) == 10
        assert all(int(id.removeprefix("subscription-")) < size for id in ids)


@pytest.mark.parametrize("name", ["A*", "C", "C*", "D"])
def test_a_hundred_thousand_subscriptions_have_about_ten_matches(name: str) -> None:
    source = WORKLOADS[name].open(2000, Path())
    index = MatchIndex()
    index.add_many(islice(source.subscriptions(), 2000))
    matches = sum(map(len, index.match(source.contents(80), NOW_S).ids()))
    assert 5 < matches / 80 * 100_000 / 2000 < 20


@pytest.mark.parametrize("name", ["B", "E", "F"])
def test_recorded_publications_find_subscriptions(name: str, data: Path) -> None:
    source = WORKLOADS[name].open(200, data)
    index = PlainIndex()
    index.add_many(list(islice(source.subscriptions(), 200)))
    assert any(index.match(source.contents(10), NOW_S).ids())


def test_invalid_readings_are_left_out(data: Path) -> None:
    records = islice(WORKLOADS["B"].open(100, data).subscriptions(), 100)
    assert not any("SO2" in subscribed.filter for subscribed in records)


def test_nobody_asks_for_stop_words_or_for_frequent_words_only(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.match.recorded.Posts.frequent", 0.4)
    source = WORKLOADS["E"].open(100, data)
    asked = [set(subscribed.words) for subscribed in islice(source.subscriptions(), 400)]
    assert {len(words) for words in asked} == {1, 2, 3, 4}
    assert not any("the" in words for words in asked)
    often = {word for word in set.union(*asked) if {word} not in asked}
    assert often
    assert not any(words <= often for words in asked)


def test_a_workload_without_its_recording_says_what_it_needs(tmp_path: Path) -> None:
    assert missing_data("A", None) == ""
    assert missing_data("B", None) == f"needs recorded data: --data DIRECTORY with {AIR}"
    assert missing_data("B", tmp_path) == f"{tmp_path / AIR} does not exist"


# Comparing with the meaning


def test_the_comparison_finds_what_is_missing_wrong_twice_or_unknown() -> None:
    hot, cold = record(1, "value > 40"), record(2, "value < 10")
    content = b'{"id":"p","attributes":{"value":41}}'

    def differences(*ids: str) -> list[str]:
        return check.compare([content], [ids], [hot, cold], {hot.id: hot, cold.id: cold}, NOW_S).differences

    assert differences(hot.id) == []
    assert "subscription-1 (value > 40) was not found though it matches" in differences()[0]
    assert "subscription-2 (value < 10) was found though it does not match" in differences(hot.id, cold.id)[0]
    assert "twice" in differences(hot.id, hot.id)[0]
    assert "ghost was found but does not exist" in differences(hot.id, "ghost")


def test_all_of_few_and_some_of_many_are_compared() -> None:
    records = [record(number) for number in range(check.ALL_UP_TO)]
    assert len(check.sample(records, check.ALL_UP_TO)) == check.ALL_UP_TO
    assert len(check.sample(records, 10 * check.ALL_UP_TO)) == check.SAMPLE // 10


# Whole runs


def small(index: str, **more: object) -> Options:
    options = Options(workloads=["A"], sizes=[50], seconds=0.02, batch=4, events=20, singles=5, index=f"{HERE}:{index}")
    for name, value in more.items():
        setattr(options, name, value)
    return options


@pytest.mark.slow
def test_a_run_measures_each_cell_and_reports_what_is_missing() -> None:
    steps: list[str] = []
    report = run(small("PlainIndex", workloads=["A", "E"], peers=False, profile=True), steps.append)
    (cell,) = report.cells
    assert (cell.workload, cell.size, cell.matches_per_event, cell.checked_matches) == ("A", 50, 10, 200)
    assert min(cell.events_per_s, cell.adds_per_s, cell.single_adds_per_s, cell.removes_per_s) > 0
    assert cell.batch_ms_p99 >= cell.batch_ms_p50 > 0
    assert (cell.compared_events, cell.compared_subscriptions, cell.differences) == (20, 50, [])
    assert "function calls" in cell.profile
    assert report.missing == {"workload E": f"needs recorded data: --data DIRECTORY with {POSTS}"}
    assert not report.failed
    assert "A 50: matching" in steps


@pytest.mark.slow
def test_an_index_that_forgets_fails_the_run() -> None:
    report = run(small("ForgetfulIndex", peers=False), lambda _: None)
    assert report.failed
    assert "was not found though it matches" in report.cells[0].differences[0]
    assert "WRONG: A 50: subscription-" in shown(report)


@pytest.mark.slow
def test_an_index_that_breaks_fails_the_run_and_says_why() -> None:
    report = run(small("BrokenIndex", peers=False), lambda _: None)
    assert report.failed
    assert not report.cells
    assert "the index broke" in report.missing["workload A of 50"]


# Other matchers


def test_rules_of_other_matchers() -> None:
    text = "city prefix 'Ma' and kind = 'x' and name contains 'ana' and path suffix '.csv' and value > 40"
    assert rules.event_ruler(text) == (
        b'{"attributes":{"city":[{"prefix":"Ma"}],"kind":["x"],"name":[{"wildcard":"*ana*"}],'
        b'"path":[{"suffix":".csv"}],"value":[{"numeric":[">",40]}]}}'
    )
    assert rules.hypermatch(text) == (
        b'{"attributes.city":{"prefix":"Ma"},"attributes.kind":{"equals":"x"},"attributes.name":{"wildcard":"*ana*"},'
        b'"attributes.path":{"suffix":".csv"},"attributes.value":{"gt":40}}'
    )
    assert rules.quamina("name contains 'ana' and path suffix '.csv' and kind = 'x'") == (
        b'{"attributes":{"name":[{"shellstyle":"*ana*"}],"path":[{"shellstyle":"*.csv"}],"kind":["x"]}}'
    )
    assert rules.event_ruler("v between 1 and 2") == b'{"attributes":{"v":[{"numeric":[">=",1,"<=",2]}]}}'
    assert rules.hypermatch("v between 1 and 2") == b'{"attributes.v":{"between":[{"gte":1},{"lte":2}]}}'


@pytest.mark.parametrize(
    ("translate", "filter"),
    [
        (rules.event_ruler, "name contains '*'"),
        (rules.event_ruler, "value > 1 and value < 3"),
        (rules.event_ruler, "name != 'x'"),
        (rules.hypermatch, "not name = 'x'"),
        (rules.hypermatch, "name = 'x' or kind = 'y'"),
        (rules.hypermatch, "name = 'x' and name = 'y'"),
        (rules.quamina, "value > 40"),
    ],
)
def test_what_another_matcher_cannot_say_is_refused(translate: Callable[[str], bytes], filter: str) -> None:
    with pytest.raises(rules.UntranslatableError):
        translate(filter)


def test_a_tool_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    report = run(small("PlainIndex", workloads=[]), lambda _: None)
    assert report.missing == {
        "event-ruler": "'java' is not installed",
        "hypermatch": "'go' is not installed",
        "quamina": "'go' is not installed",
    }
    assert "missing: quamina: 'go' is not installed" in shown(report)
    assert not report.failed


def test_what_a_failing_tool_printed_is_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "go"
    tool.write_text("#!/bin/sh\necho 'go: downloading' >&2\necho 'module: 403 Forbidden' >&2\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(MissingError, match="go: downloading / module: 403 Forbidden"):
        building.build(building.PEERS[1])
    copied = {file.name for file in (tmp_path / "cache/braid/peers/hypermatch").iterdir()}
    assert copied == {"go.mod", "main.go", "measure.go"}


PRINTED = '{"added":20,"built":true,"build_s":1.5,"events_per_s":1000,"matches_per_event":10,"checked_matches":7}'


@pytest.mark.parametrize(
    ("program", "missing"),
    [
        (f"print('{PRINTED}')", ""),
        ('print(\'{"added":7,"built":false}\')', "not built within 3 s: 7 of 20 rules"),
        ("raise SystemExit('out of memory')", "failed: out of memory"),
        ("import time; time.sleep(60)", "neither built nor measured within 0.5 s"),
    ],
)
def test_the_driver_of_another_matcher(program: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task("A", 20, 5, 0.1, 3)
    if "sleep" in program:
        monkeypatch.setattr(running, "_PATIENCE_S", -2.7)
    peer = Peer("other", rules.event_ruler, lambda _: [])
    result = running.run(peer, [sys.executable, "-c", program], WORKLOADS["A"].open(20, Path()), task)
    assert result.missing == missing
    assert (result.build_s, result.events_per_s, result.checked_matches) == ((0, 0, 0) if missing else (1.5, 1000, 7))


def test_the_driver_gets_a_rule_and_an_event_in_each_line(tmp_path: Path) -> None:
    program = (
        "import sys; count = lambda name: len(open(name).read().splitlines());"
        'print(\'{"added":%d,"built":true,"checked_matches":%d}\' % (count(sys.argv[1]), count(sys.argv[2])))'
    )
    peer = Peer("other", rules.event_ruler, lambda _: [])
    result = running.run(
        peer, [sys.executable, "-c", program], WORKLOADS["A"].open(20, Path()), Task("A", 20, 5, 0.1, 3)
    )
    assert (result.missing, result.checked_matches) == ("", 5)


def test_what_a_matcher_cannot_say_is_reported_as_missing(data: Path) -> None:
    peer = Peer("quamina", rules.quamina, lambda _: [])
    result = running.run(peer, ["/nonexistent"], WORKLOADS["B"].open(20, data), Task("B", 20, 5, 0.1, 3))
    assert result.missing.startswith("quamina cannot say: value ")


# Tables


def shown(report: Report) -> str:
    text = io.StringIO()
    show(report, Console(file=text, width=WIDTH_MIN))
    return text.getvalue()


def test_the_tables_show_rates_ratios_and_disagreement() -> None:
    cell = Measured(workload="A", size=1000, events_per_s=90_000, processor_share=1, checked_matches=100)
    slow = PeerResult(
        peer="slow", workload="A", size=1000, events_per_s=30_000, processor_share=0.5, checked_matches=99
    )
    stuck = PeerResult(peer="stuck", workload="A", size=1000, missing="not built within 120 s")
    alone = PeerResult(peer="alone", workload="B", size=1000, events_per_s=5)
    lines = shown(Report("2 cores", [cell], [slow, stuck, alone])).splitlines()
    (braid,) = [line.split() for line in lines if "90,000" in line]
    assert braid[:3] == ["A", "1,000", "90,000"]
    (row,) = [line for line in lines if " slow " in line]
    assert " ".join(row.split()).endswith(" 3.00 1.50 99 matches of 100 events, not 100")
    (row,) = [line for line in lines if " stuck " in line]
    assert "not built within 120 s" in row
    assert any(" alone " in line for line in lines)
