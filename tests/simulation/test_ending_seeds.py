"""Subscriptions with an end: nothing that is published behind it comes, nothing before it is lost, nothing is left."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from braid.matching.index import MatchIndex
from services.matcher.core import MatcherCore
from tests.simulation.cluster import Simulation
from tests.simulation.ending import EndingCrashingSimulation, EndingScalingSimulation, EndingSimulation
from tests.simulation.ledger import Ledger, SubscriptionEntry
from tests.simulation.seeds import is_caught, name_of, parts, problems_of


@pytest.mark.parametrize("seeds", parts(1, 20), ids=name_of)
def test_all_guarantees_hold(seeds: range) -> None:
    assert problems_of(EndingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [EndingScalingSimulation, EndingCrashingSimulation])
def test_all_guarantees_hold_while_slices_change(kind: Callable[[int], Simulation]) -> None:
    assert problems_of(kind, range(1, 13)) == []


@pytest.mark.slow
def test_windows_really_end_and_others_are_really_open() -> None:
    expired = promised = behind = 0
    for seed in range(13, 17):
        simulation = EndingScalingSimulation(seed)
        assert simulation.run() == [], f"EndingScalingSimulation({seed})"
        expired += sum(matcher.core.expired for matcher in simulation.matchers)
        promised += _of_those_that_end(simulation.ledger, Ledger.is_promised)
        behind += _of_those_that_end(simulation.ledger, _is_behind)
    assert min(expired, promised, behind) > 100


def _is_behind(ledger: Ledger, entry: SubscriptionEntry, id: str) -> bool:
    return ledger.publications[id].published_s >= entry.until_s


def _of_those_that_end(ledger: Ledger, is_meant: Callable[[Ledger, SubscriptionEntry, str], bool]) -> int:
    """How many publications, counted for each subscription that has an end, and matches but for that."""
    ends = [one for one in ledger.subscriptions.values() if one.acknowledged_s is not None and one.until_s < math.inf]
    return sum(
        is_meant(ledger, one, id)
        for one in ends
        for id, publication in ledger.publications.items()
        if publication.sensor == one.sensor
    )


def nothing_ends_by_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MatcherCore, "on_second", lambda *_: [])


def what_ends_is_thought_to_be_over_before(patch: pytest.MonkeyPatch) -> None:
    def on_second(self: MatcherCore, now_s: float) -> Any:
        return original(self, now_s + 20.0)

    original = MatcherCore.on_second
    patch.setattr(MatcherCore, "on_second", on_second)


def matching_does_not_look_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """So it goes on until the matcher looks what has ended."""

    def match(self: MatchIndex, contents: Any, now_s: float, **more: Any) -> Any:
        return original(self, contents, now_s - 1.0, **more)

    original = MatchIndex.match
    patch.setattr(MatchIndex, "match", match)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("take_away", "kind"),
    [
        (nothing_ends_by_itself, "misplaced"),
        (what_ends_is_thought_to_be_over_before, "lost"),
        (matching_does_not_look_at_the_end, "wrong"),
    ],
)
def test_the_checkers_bite(
    monkeypatch: pytest.MonkeyPatch, take_away: Callable[[pytest.MonkeyPatch], None], kind: str
) -> None:
    take_away(monkeypatch)
    assert is_caught(EndingScalingSimulation, kind)
