"""What a connection point says to access points that leave, and when."""

import pytest

from braid.messages import GoesElsewhere, Send
from braid.topology import Configuration, Phase
from services.connpoint.parting import last_words
from tests.core.scaling_cases import ENDED, NEW_EPOCH, SETTLED, during, to

ONE_LEAVES = to(accesspoints=("accesspoint-2",))


@pytest.mark.parametrize("phase", ["changing", "flushing", "ending"])
def test_one_that_leaves_is_told_in_each_phase_behind_the_cut(phase: Phase) -> None:
    assert last_words(during(phase, ONE_LEAVES)) == [Send("accesspoint-1", [GoesElsewhere(NEW_EPOCH)])]


@pytest.mark.parametrize("phase", ["copying", "moving"])
def test_before_the_cut_nobody_is_told(phase: Phase) -> None:
    assert last_words(during(phase, ONE_LEAVES)) == []


def test_who_stays_or_comes_is_not_told() -> None:
    one_comes = to(accesspoints=("accesspoint-1", "accesspoint-2", "accesspoint-3"))
    assert last_words(during("changing", one_comes)) == []


@pytest.mark.parametrize("configuration", [SETTLED, ENDED], ids=["before", "after"])
def test_without_a_scaling_nobody_is_told(configuration: Configuration) -> None:
    assert last_words(configuration) == []
