"""The benchmark that kills: every case has its turn, and what came of it is told as it was."""

from array import array

import msgspec
import pytest

from benchmarks.scaling.kill_cases import (
    ACCESSPOINT,
    COORDINATOR,
    EXITPOINT,
    OLD_MATCHER,
    OVER,
    PARTICIPANTS,
    WAY_BACK,
    Case,
    cases_of,
    ends_by_rule,
    has_reached,
    next_case,
    victim_of,
)
from benchmarks.scaling.kill_table import kill_table
from benchmarks.scaling.killing import MISSED, Hit
from benchmarks.scaling.kills import Attempt, Kills, kills_of
from benchmarks.scaling.measured import Observed, Scaled
from benchmarks.scaling.receiving import Received
from benchmarks.scaling.subscribing import Subscribed, _Answer, _Newcomer, _Problem
from braid.topology import PHASES, Change, Configuration, Layer, Target

NEW_MATCHER = "new matcher"


def in_turn(pending: list[Case]) -> list[tuple[Case, str]]:
    """From one slice of each layer on, every scaling is done."""
    numbers: dict[Layer, int] = {"accesspoint": 1, "matcher": 1, "exitpoint": 1}
    done = []
    while pending:
        case, step = next_case(pending, numbers)
        done.append((case, f"{step.what}={step.value}"))
        if case != WAY_BACK:
            pending.remove(case)
        numbers.update({layer: int(step.value) for layer in numbers if layer == step.what})
    return done


def test_every_case_has_its_turn_while_the_cluster_goes_up_and_down() -> None:
    assert in_turn(cases_of([NEW_MATCHER, EXITPOINT], ["moving", "ending"])) == [
        (Case(NEW_MATCHER, "moving"), "matcher=2"),
        (Case(EXITPOINT, "moving"), "matcher=1"),
        (Case(NEW_MATCHER, "ending"), "matcher=2"),
        (Case(EXITPOINT, "ending"), "matcher=1"),
    ]
    assert len(cases_of(PARTICIPANTS, PHASES)) == len(PARTICIPANTS) * len(PHASES)


def test_who_comes_or_leaves_does_so_in_its_own_layer() -> None:
    assert in_turn(cases_of(["leaving accesspoint", "new accesspoint", "new exitpoint"], ["moving"])) == [
        (Case("new accesspoint", "moving"), "accesspoint=2"),
        (Case("leaving accesspoint", "moving"), "accesspoint=1"),
        (Case("new exitpoint", "moving"), "exitpoint=2"),
    ]
    assert in_turn(cases_of(["leaving exitpoint"], ["changing", "ending"])) == [
        (WAY_BACK, "exitpoint=2"),
        (Case("leaving exitpoint", "changing"), "exitpoint=1"),
        (WAY_BACK, "exitpoint=2"),
        (Case("leaving exitpoint", "ending"), "exitpoint=1"),
    ]


def test_the_victim_is_the_slice_that_is_meant() -> None:
    before = Configuration(1, ("accesspoint-1", "accesspoint-2"), ("matcher-1",), ("exitpoint-1",))
    assert victim_of(NEW_MATCHER, before) == ""
    target = Target(2, ("accesspoint-1",), ("matcher-1", "matcher-2"), ("exitpoint-2",))
    during = msgspec.structs.replace(before, change=Change("scaling-1", PHASES[0], target, {}))
    assert {participant: victim_of(participant, during) for participant in PARTICIPANTS} == {
        OLD_MATCHER: "matcher-1",
        ACCESSPOINT: "accesspoint-1",
        EXITPOINT: "exitpoint-1",
        COORDINATOR: "",
        "new accesspoint": "",
        "new matcher": "matcher-2",
        "new exitpoint": "exitpoint-2",
        "leaving accesspoint": "accesspoint-2",
        "leaving matcher": "",
        "leaving exitpoint": "exitpoint-1",
    }


@pytest.mark.parametrize(
    ("participant", "hit", "state", "is_right"),
    [
        (OLD_MATCHER, "moving", "aborted", True),
        (EXITPOINT, "moving", "done", True),  # was back before anybody missed it
        (OLD_MATCHER, "moving", "running", False),
        (OLD_MATCHER, "changing", "done", True),
        (NEW_MATCHER, "ending", "aborted", False),
        (COORDINATOR, "moving", "done", True),
        (COORDINATOR, "moving", "aborted", False),
        (EXITPOINT, OVER, "done", True),
        ("", "", "aborted", False),
    ],
)
def test_how_a_scaling_must_end(participant: str, hit: str, state: str, is_right: bool) -> None:
    assert ends_by_rule(participant, hit, state) is is_right


def test_a_later_phase_has_been_reached_too() -> None:
    assert has_reached("changing", "changing")
    assert has_reached("ending", "changing")
    assert not has_reached(PHASES[0], "changing")


# What came of it


def scaled(asked_s: float, state: str = "done", reason: str = "") -> Scaled:
    return Scaled("matcher 1 → 2", asked_s, state, reason, {"asked": 1.0, "moving": 1.0}, 2.0, 0, 0.0, {})


ATTEMPTS = [
    Attempt(Case(OLD_MATCHER, "moving"), Hit("matcher-1", "moving", 101.5), scaled(100.0, "aborted", "died"), 104.0),
    Attempt(Case(EXITPOINT, "flushing"), Hit("exitpoint-1", "ending", 111.0), scaled(110.0), 113.0),
    Attempt(WAY_BACK, MISSED, scaled(120.0), 122.0),
]


def killed(attempts: list[Attempt] = ATTEMPTS, **changes: int) -> Kills:
    """A delivery each 0.1 s, but none for 1.5 s from 102 s on: the scaling had ended, the matcher was not back."""
    arrived = array("d", [90 + 0.1 * n for n in range(400) if not 102.05 < 90 + 0.1 * n < 103.45])
    received = Received(arrived, arrived, {0: len(arrived)}, out_of_order=changes.pop("out_of_order", 0))
    given = {"sent": len(arrived), "kept": 13, "refused": 0} | changes
    new = Subscribed([(99.0, 0.02), (101.0, 2.5), (103.0, 0.5)], 0, 3, 0)
    scalings = [attempt.scaled for attempt in attempts]
    observed = Observed(10, 95.0, 130.0, received, new, scalings, given["sent"], 0.0, 1.0, given["kept"])
    return kills_of(observed._replace(refused=given["refused"]), attempts)


def test_the_gap_of_a_kill_lasts_until_everybody_is_back() -> None:
    first, second, third = killed().kills
    assert first.longest_gap_ms == pytest.approx(1500, abs=1)
    assert (first.longest_wait_ms, second.longest_wait_ms) == (2500, None)
    assert (first.back_s, third.back_s) == (2.5, 0.0)
    assert second.longest_gap_ms == pytest.approx(100, abs=1)


def test_the_table_says_which_phase_was_hit() -> None:
    kills = killed(refused=7)
    lines = kill_table(kills).splitlines()
    assert lines[0] == "2 kills in 3 scalings of one cluster, 10 subscriptions loaded in 1.0 s"
    assert lines[2].split()[:10] == [
        "old",
        "matcher",
        "matcher-1",
        "matcher",
        "1",
        "→",
        "2",
        "moving",
        "moving",
        "aborted",
    ]
    assert lines[2].endswith("died")
    assert lines[3].split()[6:9] == ["flushing", "ending", "done"]
    assert lines[4].split()[:2] == ["-", "nobody"]
    assert lines[5].endswith("lost 0, twice 0, out of order 0, and 7 were refused")
    assert lines[-1] == "  never hit, each time the phase was over before: exitpoint in flushing"


def test_a_rate_that_was_not_kept_is_said() -> None:
    assert "NOT kept" not in kill_table(killed())
    behind = msgspec.structs.replace(killed(), new_due=12)
    assert "  the rate of new subscriptions was NOT kept: 12 were due, 3 (25%) asked" in kill_table(behind).splitlines()
    assert kill_table(behind).splitlines()[3].split()[-1] == "-"


def test_what_is_wrong_after_kills() -> None:
    hit = [ATTEMPTS[0], ATTEMPTS[2]]
    assert killed(hit, out_of_order=3).wrong() == []
    assert killed(hit, sent=400).wrong() == [f"{400 - killed().received} lost"]
    assert killed(hit, kept=12).wrong() == ["12 subscriptions instead of 13"]
    assert killed().wrong() == ["exitpoint was never killed in flushing"]
    bad = ATTEMPTS[1]._replace(scaled=scaled(110.0, "aborted", "died"))
    assert killed([*hit, bad._replace(case=Case(EXITPOINT, "ending"))]).wrong() == ["exitpoint in ending: aborted"]
    assert "against the rule" in kill_table(killed([bad]))


def test_an_end_that_was_refused_may_have_come_all_the_same() -> None:
    newcomer = _Newcomer(None, 0, 10)  # type: ignore[arg-type]
    unknown, away = _Answer("error", problem=_Problem(404)), _Answer("error", problem=_Problem(503))
    newcomer._take_end("s-1", away)
    assert (list(newcomer.kept), newcomer.unsure) == (["s-1"], {"s-1"})
    newcomer.kept.clear()
    newcomer._take_end("s-1", unknown)
    assert (list(newcomer.kept), newcomer.unsure) == ([], set())
    newcomer._take_end("s-2", unknown)  # nobody ended it: it is missing
    assert (list(newcomer.kept), newcomer.unsure) == (["s-2"], set())
