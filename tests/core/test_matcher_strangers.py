"""A matcher takes publications and calls from the access points of the configuration, and from those that follow."""

import pytest
from msgspec.structs import replace

from braid.topology import Phase
from services.matcher.core import MatcherCore
from tests.core.scaling_cases import ENDED, SETTLED, during, to

STAYS, LEAVES, COMES, STRANGER = "accesspoint-1", "accesspoint-2", "accesspoint-3", "accesspoint-4"
TARGET = to(accesspoints=(STAYS, COMES))


def taken(core: MatcherCore) -> list[str]:
    return [name for name in (STAYS, LEAVES, COMES, STRANGER) if not core.refuses(name, 1)]


def test_before_any_configuration_nothing_is_taken() -> None:
    assert taken(MatcherCore("matcher-1", lambda: 0)) == []


@pytest.mark.parametrize("phase", ["copying", "moving", "changing", "flushing", "ending"])
def test_while_a_scaling_runs_old_and_new_ones_count(phase: Phase) -> None:
    core = MatcherCore("matcher-1", lambda: 0)
    core.on_configuration(SETTLED)
    core.on_configuration(during(phase, TARGET))
    assert taken(core) == [STAYS, LEAVES, COMES]


def test_one_that_left_and_does_not_know_it_is_refused() -> None:
    core = MatcherCore("matcher-1", lambda: 0)
    core.on_configuration(SETTLED)
    core.on_configuration(during("ending", TARGET))
    core.on_configuration(replace(ENDED, accesspoints=TARGET.accesspoints))
    assert taken(core) == [STAYS, COMES]
    assert core.refuses(LEAVES, 5)
    assert core.stale == 2 + 5
