"""Which tests stay together on one worker, and in which order workers get them.

Tests with real processes wait for most of their time, the others compute. So the processors are busy all the time when
both are on the way at once, and nobody waits for the last worker when nothing long begins late.
"""

from collections.abc import Iterable
from itertools import groupby

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it ships no types

# The two that take longest come first, each for one worker; one after the other come in the first half of the rest.
WITH_PROCESSES = (
    "tests/cluster/test_scaling_crashes.py",
    "tests/cluster/test_scaling.py",
    "tests/cluster/test_zookeeper_away.py",
    "tests/cluster/test_upgrading.py",
    "tests/cluster/test_followed.py",
    "tests/cluster/test_launcher_processes.py",
    "tests/cluster/test_delivery.py",
    "tests/cluster/test_launcher_scaling.py",
    "tests/cluster/test_past.py",
    "tests/cluster/test_backups.py",
    "tests/kafka/",
)
TOGETHER = "tests/kafka/"  # all of these share one broker
ALONE = "tests/simulation/"  # these share nothing, and some of these files take minutes
DIRECTORIES = (ALONE, "tests/core/", "tests/service/")


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # as above
    """Tests of one file may share a cluster or a server, so they stay together; so do those that share a broker."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def unit_of(nodeid: str) -> str:
    if nodeid.startswith(TOGETHER):
        return TOGETHER
    return nodeid if nodeid.startswith(ALONE) else nodeid.split("::", 1)[0]


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    units = {name: list(unit) for name, unit in groupby(items, lambda item: unit_of(item.nodeid))}
    waiting = [units.pop(name) for name in WITH_PROCESSES if name in units]
    computing = [units[name] for name in sorted(units, key=_directory)]
    ordered, later = waiting[:2], waiting[2:]
    # Where only some tests are run there may be few of these.
    apart = max(1, len(computing) // (2 * len(later))) if later else 0
    for number, unit in enumerate(computing, 1):
        ordered.append(unit)
        if later and number % apart == 0:
            ordered.append(later.pop(0))
    return [item for unit in (*ordered, *later) for item in unit]


def _directory(unit: str) -> int:
    """Those that are not known come first: nobody knows how long they take."""
    return next((place for place, name in enumerate(DIRECTORIES) if unit.startswith(name)), -1)
