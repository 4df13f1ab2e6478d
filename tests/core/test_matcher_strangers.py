"""A matcher takes publications and calls from the access points of the configuration, and from those that follow.

Of each epoch it takes only what comes from those that have a part in it.
"""

import pytest
from msgspec.structs import replace

from braid.messages import Unsubscribe
from braid.topology import Phase
from services.matcher.core import MatcherCore
from tests.core.scaling_cases import ENDED, SETTLED, during, to

STAYS, LEAVES, COMES, STRANGER = "accesspoint-1", "accesspoint-2", "accesspoint-3", "accesspoint-4"
TARGET = to(accesspoints=(STAYS, COMES))
OLD, NEW = SETTLED.epoch, TARGET.epoch


def taken(core: MatcherCore, epoch: int) -> list[str]:
    call = Unsubscribe(epoch, 1, "connpoint-1", "s-1")
    return [name for name in (STAYS, LEAVES, COMES, STRANGER) if core.taken(name, [call])]


def test_before_any_configuration_nothing_is_taken() -> None:
    assert taken(MatcherCore("matcher-1", lambda: 0), OLD) == []


@pytest.mark.parametrize("phase", ["copying", "moving", "changing", "flushing", "ending"])
def test_while_a_scaling_runs_old_and_new_ones_count(phase: Phase) -> None:
    """One that is taken in says nothing of the old epoch, unless it had left before and does not know it."""
    core = MatcherCore("matcher-1", lambda: 0)
    core.on_configuration(SETTLED)
    core.on_configuration(during(phase, TARGET))
    assert taken(core, NEW) == [STAYS, LEAVES, COMES]
    assert taken(core, OLD) == [STAYS, LEAVES]


def test_one_that_left_and_does_not_know_it_is_refused() -> None:
    core = MatcherCore("matcher-1", lambda: 0)
    core.on_configuration(SETTLED)
    core.on_configuration(during("ending", TARGET))
    core.on_configuration(replace(ENDED, accesspoints=TARGET.accesspoints))
    assert taken(core, NEW) == [STAYS, COMES]
    assert core.stale == 2
