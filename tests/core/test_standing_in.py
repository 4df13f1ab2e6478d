"""Who sees to a partition: everybody says the same, and only what has to changes hands."""

from collections import Counter

import pytest

from braid.standing_in import log_name, owner_of

CONNPOINTS = [f"connpoint-{n}" for n in range(1, 9)]
LOGS = [log_name(partition) for partition in range(1000)]


def test_any_other_log_belongs_to_the_connection_point_of_its_name() -> None:
    assert owner_of("connpoint-7", ["connpoint-1"]) == "connpoint-7"
    assert owner_of("connpoint-7", []) == "connpoint-7"


def test_without_connection_points_a_partition_belongs_to_nobody() -> None:
    assert owner_of("ingress-0", []) == ""


def test_the_order_in_which_they_are_known_does_not_matter() -> None:
    assert [owner_of(log, CONNPOINTS) for log in LOGS] == [owner_of(log, set(CONNPOINTS)) for log in LOGS]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_shares_are_about_even(count: int) -> None:
    shares = Counter(owner_of(log, CONNPOINTS[:count]) for log in LOGS)
    assert set(shares) == set(CONNPOINTS[:count])
    assert max(shares.values()) <= 1.5 * len(LOGS) / count


def test_one_that_goes_leaves_its_own_to_the_others_and_nothing_else_moves() -> None:
    before = {log: owner_of(log, CONNPOINTS) for log in LOGS}
    after = {log: owner_of(log, CONNPOINTS[1:]) for log in LOGS}
    assert {log for log in LOGS if before[log] != after[log]} == {log for log in LOGS if before[log] == "connpoint-1"}
    assert len({after[log] for log in LOGS if before[log] == "connpoint-1"}) > 3
