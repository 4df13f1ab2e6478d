"""Access points that leave: nothing is lost that comes to them behind their last word, whoever hears of it late."""

import pytest

from services.accesspoint.scaling import AccessPointScaling
from services.connpoint.retrying import RetryLoop
from services.matcher.scaling import MatcherScaling
from tests.simulation.leaving import (
    DeafToTheEndSimulation,
    LeavingScalingSimulation,
    LeavingUnasked,
    PartingInTrouble,
)
from tests.simulation.seeds import from_seed, is_caught, name_of, parts, problems_of


@pytest.mark.parametrize("seeds", [range(96, 97), range(121, 122)], ids=name_of)
def test_what_comes_behind_the_last_word_is_not_lost(seeds: range) -> None:
    """In these an access point that had left, and did not know it, sent something past the matcher that wanted it."""
    assert problems_of(LeavingUnasked, seeds) == []


def test_what_one_that_left_sends_is_not_taken_while_a_scaling_takes_it_in_again() -> None:
    """In this one it hears nothing of either, and its subscriptions of the old epoch came when all state had moved."""
    assert problems_of(DeafToTheEndSimulation, [137]) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LeavingScalingSimulation, LeavingUnasked])
@pytest.mark.parametrize("seeds", parts(1, 50), ids=name_of)
def test_all_guarantees_hold_while_access_points_leave(kind: type[LeavingScalingSimulation], seeds: range) -> None:
    assert problems_of(kind, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(1, 30), ids=name_of)
def test_all_guarantees_hold_while_one_that_left_hears_nothing_of_it(seeds: range) -> None:
    assert problems_of(DeafToTheEndSimulation, seeds) == []


@pytest.mark.slow
def test_all_guarantees_hold_whatever_breaks_while_one_waits_for_the_last_words() -> None:
    troubles = 0
    for seed in range(1, 31):
        simulation = PartingInTrouble(seed)
        assert simulation.run() == [], seed
        troubles += simulation.troubles
    assert troubles > 30


@pytest.mark.slow
def test_with_the_last_words_little_is_sent_again() -> None:
    def sent_again(kind: type[LeavingScalingSimulation]) -> int:
        again = 0
        for seed in range(1, 13):
            simulation = kind(seed)
            assert simulation.run() == []
            again += sum(connpoint.ingress.sent_again for connpoint in simulation.connpoints)
        return again

    assert sent_again(LeavingScalingSimulation) < sent_again(LeavingUnasked) / 3


@pytest.mark.slow
def test_the_last_word_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, and with matchers that take what comes from one that left, something is lost."""
    monkeypatch.setattr(AccessPointScaling, "has_left", False)
    monkeypatch.setattr(MatcherScaling, "takes", lambda *_: True)
    monkeypatch.setattr(RetryLoop, "_bring_forward", lambda *_: None)
    assert is_caught(from_seed(119, LeavingUnasked), "lost")


@pytest.mark.slow
@pytest.mark.parametrize(("first", "kind"), [(81, "misplaced"), (23, "lost")])
def test_nothing_may_be_taken_from_one_that_left(monkeypatch: pytest.MonkeyPatch, first: int, kind: str) -> None:
    """One that did not hear of its end sends a subscription that nobody copies any more, and past who wants it."""
    monkeypatch.setattr(MatcherScaling, "takes", lambda *_: True)
    assert is_caught(from_seed(first, DeafToTheEndSimulation), kind)
