"""Since when a subscription is given what it matches: as a matcher writes it, and as others hear of it."""

import math
from typing import Any

import pytest
from msgspec.structs import replace

from braid.messages import AnchorsKnown, FindSubscriptions, Send, Subscribe, SubscriptionStored, Unsubscribe
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from services.matcher import beginnings
from services.matcher.beginnings import LateBeginnings, dated, noted
from services.matcher.core import MatcherCore
from services.matcher.effects import Store
from tests.core.matcher_cases import CONFIGURATION
from tests.core.matching_cases import record

NOW_S = 100.0


def given_from(given: SubscriptionRecord, before: SubscriptionRecord | None = None) -> float:
    return dated(given, before, NOW_S).given_from_s


def test_a_new_one_begins_when_it_is_stored() -> None:
    assert given_from(record("s-1", created_s=90.0)) == NOW_S
    assert given_from(record("s-1", created_s=90.0, from_s=200.0)) == NOW_S  # its window is looked at too
    assert given_from(record("s-1", created_s=90.0, given_from_s=5.0)) == NOW_S  # nobody else says so


def test_one_that_begins_in_the_past_was_given_nothing_yet() -> None:
    assert given_from(record("s-1", created_s=90.0, from_s=80.0)) == math.inf


@pytest.mark.parametrize(
    "changes",
    [{"filter": "n = 2"}, {"zone": None}, {"from_s": None}, {"from_s": 95.0}],
    ids=str,
)
def test_another_content_begins_anew(changes: dict[str, Any]) -> None:
    zone = {"type": "circle", "lat": 40.0, "lon": 3.0, "radius_m": 5}
    kept: dict[str, Any] = {"filter": "n = 1", "zone": zone, "created_s": 90.0, "from_s": 80.0}
    assert given_from(record("s-1", **(kept | changes)), record("s-1", **kept, given_from_s=80.0)) == NOW_S


def test_another_home_and_another_end_change_nothing() -> None:
    before = record("s-1", "n = 1", created_s=90.0, from_s=80.0, given_from_s=85.0)
    moved = record("s-1", "n = 1", created_s=90.0, from_s=80.0, home="connpoint-2", until_s=500.0)
    assert given_from(moved, before) == 85.0


def test_what_a_connection_point_notes_counts_once() -> None:
    settling = record("s-1", created_s=90.0, from_s=80.0)
    settled = noted(settling, 85.0)
    assert settled.given_from_s == 85.0
    assert noted(settled, 85.0) == settled
    changed = record("s-1", "n = 2", created_s=90.0, given_from_s=95.0)
    assert noted(changed, 85.0) == changed
    assert noted(settled, math.inf).given_from_s == math.inf  # it failed


# At the matcher


class Stage:
    """A matcher whose clock stands until it is set."""

    def __init__(self, configuration: Configuration = CONFIGURATION) -> None:
        self.now_s = NOW_S
        self.core = MatcherCore("matcher-1", lambda: int(self.now_s * 1e9))
        self.core.on_configuration(configuration)
        self._ref = 0

    def subscribe(self, given: SubscriptionRecord, given_from_s: float | None = None) -> list[Any]:
        self._ref += 1
        message = Subscribe(1, self._ref, "connpoint-1", given, given_from_s)
        return self.core.on_subscribe("accesspoint-1", message)

    def known(self, *, ended: bool = False) -> list[float]:
        asked = FindSubscriptions(1, 99, "connpoint-1", subscriber="anna", ended=ended)
        ((message,),) = [send.messages for send in self.core.on_find_subscriptions("accesspoint-1", asked)]
        return [found.given_from_s for found in message.records]


def test_a_matcher_writes_when_it_has_it() -> None:
    stage = Stage()
    (store,) = stage.subscribe(record("s-1", created_s=90.0))
    assert store.record.given_from_s == NOW_S
    assert stage.known() == [NOW_S]


def test_the_past_that_was_given_is_noted_and_nothing_else_changes() -> None:
    stage = Stage()
    stage.subscribe(record("s-1", created_s=90.0, from_s=80.0))
    moved = record("s-1", created_s=90.0, from_s=80.0, home="connpoint-2")
    stage.subscribe(moved)  # meanwhile
    (store,) = stage.subscribe(record("s-1", created_s=90.0, from_s=80.0), 85.0)
    assert isinstance(store, Store)
    assert (store.record.home, store.record.given_from_s) == ("connpoint-2", 85.0)


def test_what_is_noted_of_one_that_has_ended_is_answered_and_changes_nothing() -> None:
    stage = Stage()
    effects = stage.subscribe(record("s-1"), 85.0)
    assert effects == [Send("accesspoint-1", [SubscriptionStored(1, 1, "connpoint-1", "s-1")])]
    assert stage.known() == []


def test_one_that_failed_is_remembered_as_given_nothing() -> None:
    stage = Stage()
    given = record("s-1", created_s=90.0, distinct=True)
    stage.subscribe(given)
    stage.subscribe(given, math.inf)
    stage.core.on_unsubscribe("accesspoint-1", Unsubscribe(1, 9, "connpoint-1", "s-1"))
    assert stage.known(ended=True) == [math.inf]


def test_acknowledged_later_than_it_was_written_it_begins_then() -> None:
    late, given = LateBeginnings(), record("s-1", given_from_s=NOW_S)
    late.expect(("connpoint-1", 7), given)
    assert late.applied(given) == given
    late.on_acknowledged(("connpoint-1", 8), "s-1", 101.0)
    assert late.applied(given) == given
    late.on_acknowledged(("connpoint-1", 7), "s-1", 103.0)
    assert late.applied(given).given_from_s == 103.0
    changed = record("s-1", "n = 2", given_from_s=104.0)
    assert late.applied(changed) == changed


def test_one_that_waits_until_access_points_know_its_anchor_is_late() -> None:
    stage = Stage(replace(CONFIGURATION, routing="anchored"))
    stage.core.on_accesspoint_up("accesspoint-1")
    store, announced = stage.subscribe(record("s-1", "n = 1", created_s=90.0))
    assert stage.core.on_written(store.answer) == []
    stage.now_s = 103.0
    known = AnchorsKnown(0, announced.messages[0].part)
    assert Send("accesspoint-1", [store.answer.message]) in stage.core.on_anchors_known("accesspoint-1", known)
    assert stage.known() == [103.0]


def test_a_bounded_number_of_late_ones_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginnings, "LATE_MAX", 2)
    late = LateBeginnings()
    several = [record(f"s-{number}", given_from_s=NOW_S) for number in range(5)]
    for number, given in enumerate(several):
        late.expect(("connpoint-1", number), given)
        if number:
            late.on_acknowledged(("connpoint-1", number), given.id, 103.0)
    assert [late.applied(given).given_from_s for given in several] == [NOW_S, NOW_S, NOW_S, 103.0, 103.0]
