"""One endpoint: exact effects of everything that can happen to it."""

import math

import pytest
from msgspec.structs import replace

from braid.deliver import Webhook
from braid.machine import IllegalEvent
from services.connpoint.webhooks.answers import answered
from services.connpoint.webhooks.endpoint import GONE, Endpoint, State
from services.connpoint.webhooks.events import (
    Arrived,
    Attempt,
    Bury,
    BuryWaiting,
    Changed,
    DiskFailed,
    Due,
    Effects,
    Ended,
    Event,
    Failed,
    Note,
    NothingLeft,
    Remove,
    Replayed,
    Settle,
    Tried,
    Wake,
)
from services.connpoint.webhooks.facts import Facts
from tests.core.webhook_cases import FACTS, SECRET, WEBHOOK, schedule

NOW = 5000.0
TRIED = Tried(7, 3, NOW - 1.0)
OTHER = Webhook("https://example.org", SECRET)


def sending(facts: Facts = FACTS) -> Endpoint:
    endpoint = Endpoint("a-1", facts, schedule())
    assert endpoint.on_event(Arrived(), NOW) == [Attempt()]
    return endpoint


def told(endpoint: Endpoint, *events: Event) -> Effects:
    """What the last of these events leads to."""
    effects: Effects = []
    for event in events:
        effects = endpoint.on_event(event, NOW)
    return effects


def test_what_arrives_is_posted_until_nothing_is_left() -> None:
    endpoint = sending()
    assert told(endpoint, Arrived()) == []
    assert (told(endpoint, answered(TRIED, 204)), endpoint.state) == ([Settle(7), Attempt()], State.SENDING)
    assert (told(endpoint, NothingLeft()), endpoint.state) == ([], State.IDLE)
    assert endpoint.facts == replace(FACTS, delivered=3, last_success_s=NOW)


@pytest.mark.parametrize("event", [Arrived(), Replayed()])
def test_what_comes_while_an_attempt_finds_nothing_is_found_by_the_next_one(event: Event) -> None:
    endpoint = sending()
    assert told(endpoint, event, NothingLeft()) == [Attempt()]
    assert endpoint.state is State.SENDING
    assert (told(endpoint, NothingLeft()), endpoint.state) == ([], State.IDLE)


def test_one_that_ends_looks_once_more_for_what_came_meanwhile() -> None:
    endpoint = sending()
    assert told(endpoint, Arrived(), Ended(), NothingLeft()) == [Attempt()]
    assert told(endpoint, NothingLeft()) == [Remove()]


def test_a_failure_pauses_and_the_pause_doubles() -> None:
    endpoint = sending()
    assert told(endpoint, answered(TRIED, 503)) == [Note(), Wake(NOW + 1)]
    assert endpoint.state is State.PAUSING
    assert told(endpoint, Arrived()) == []
    assert told(endpoint, Due()) == [Attempt()]
    assert told(endpoint, Failed(TRIED, "no answer within 10 s")) == [Note(), Wake(NOW + 2)]
    assert endpoint.facts == replace(
        FACTS,
        attempts=2,
        failures=2,
        next_attempt_s=NOW + 2,
        last_failure_s=NOW,
        last_error="no answer within 10 s",
    )
    assert told(endpoint, Due(), answered(TRIED, 200)) == [Settle(7), Attempt()]
    assert (endpoint.facts.attempts, endpoint.facts.failures, endpoint.facts.next_attempt_s) == (0, 0, 0.0)


def test_a_longer_wish_of_the_receiver_counts_up_to_the_longest_pause() -> None:
    assert told(sending(), answered(TRIED, 429, 30.0)) == [Note(), Wake(NOW + 30)]
    assert told(sending(), answered(TRIED, 503, 0.5)) == [Note(), Wake(NOW + 1)]
    assert told(sending(), answered(TRIED, 503, 1e9)) == [Note(), Wake(NOW + 60)]


def test_what_failed_too_often_is_a_dead_letter_and_the_next_one_waits_as_long() -> None:
    endpoint = sending(replace(FACTS, attempts=4, failures=4))
    reason = "failed 5 times; last: answered 500"
    assert told(endpoint, answered(TRIED, 500)) == [
        Bury(7, 5, reason),
        BuryWaiting(NOW - 1000, "older than 1000 s; last: answered 500"),
        Wake(NOW + 16),
    ]
    assert endpoint.state is State.PAUSING
    assert (endpoint.facts.attempts, endpoint.facts.failures) == (0, 5)


def test_what_is_too_old_is_a_dead_letter_when_it_fails() -> None:
    old = Tried(7, 3, NOW - 1000.1)
    effects = told(sending(), Failed(old, "no answer"))
    assert effects[0] == Bury(7, 1, "older than 1000 s; last: no answer")
    assert told(sending(), answered(old, 200)) == [Settle(7), Attempt()]


@pytest.mark.parametrize("status", [301, 302, 400, 401, 404, 413, 422, 451])
def test_what_is_refused_is_tried_a_few_times_only(status: int) -> None:
    endpoint = sending()
    assert told(endpoint, answered(TRIED, status)) == [Note(), Wake(NOW + 1)]
    effects = told(endpoint, Due(), answered(TRIED, status))
    assert effects[0] == Bury(7, 2, f"refused 2 times; last: answered {status}")
    assert effects[-1] == Wake(NOW + 2)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 599])
def test_what_may_be_better_later_is_tried_until_the_end(status: int) -> None:
    endpoint = sending()
    for _ in range(4):
        assert told(endpoint, answered(TRIED, status))[0] == Note()
        told(endpoint, Due())
    assert isinstance(told(endpoint, answered(TRIED, status))[0], Bury)


def test_an_address_that_is_forbidden_is_a_refusal() -> None:
    endpoint = sending()
    told(endpoint, Failed(TRIED, "forbidden", is_refusal=True), Due())
    assert isinstance(told(endpoint, Failed(TRIED, "forbidden", is_refusal=True))[0], Bury)


def test_410_disables_and_all_that_waits_or_comes_is_a_dead_letter() -> None:
    endpoint = sending()
    assert told(endpoint, answered(TRIED, 410)) == [Bury(7, 1, GONE), BuryWaiting(math.inf, GONE)]
    assert endpoint.state is State.DISABLED
    assert endpoint.facts.disabled
    assert told(endpoint, Arrived()) == [BuryWaiting(math.inf, GONE)]
    assert Endpoint("a-1", endpoint.facts, schedule()).state is State.DISABLED


@pytest.mark.parametrize("event", [Changed(OTHER), Replayed()])
def test_another_address_or_a_replay_enables_it_again(event: Event) -> None:
    endpoint = sending()
    told(endpoint, answered(TRIED, 410))
    assert told(endpoint, event) == [Note(), Attempt()]
    assert endpoint.state is State.SENDING
    assert not endpoint.facts.disabled
    assert endpoint.facts.failures == 0


@pytest.mark.parametrize("event", [Changed(OTHER), Replayed()])
def test_another_address_or_a_replay_ends_the_pause(event: Event) -> None:
    endpoint = sending()
    told(endpoint, answered(TRIED, 503))
    assert told(endpoint, event) == [Note(), Attempt()]
    assert (endpoint.facts.attempts, endpoint.facts.next_attempt_s) == (0, 0.0)


def test_another_address_counts_from_the_next_attempt_on() -> None:
    endpoint = sending()
    assert told(endpoint, Changed(OTHER)) == [Note()]
    assert endpoint.facts.webhook == OTHER
    assert told(endpoint, Replayed()) == []
    told(endpoint, NothingLeft(), NothingLeft())
    assert told(endpoint, Changed(WEBHOOK)) == [Note()]
    assert endpoint.state is State.IDLE
    assert told(endpoint, Replayed()) == [Note(), Attempt()]


@pytest.mark.parametrize("status", [400, 410, 503])
def test_what_comes_of_an_attempt_at_the_address_before_is_not_held_against_another_one(status: int) -> None:
    endpoint = sending(replace(FACTS, attempts=3, failures=9))
    assert told(endpoint, Changed(OTHER), answered(TRIED, status)) == [Attempt()]
    assert endpoint.state is State.SENDING
    assert endpoint.facts == replace(FACTS, webhook=OTHER)
    assert told(endpoint, answered(TRIED, 503)) == [Note(), Wake(NOW + 1)]


def test_a_failing_disk_is_no_fault_of_the_receiver() -> None:
    endpoint = sending()
    assert told(endpoint, DiskFailed()) == [Wake(NOW + 1)]
    assert endpoint.facts == FACTS
    assert told(endpoint, Due()) == [Attempt()]


def test_the_end_comes_when_nothing_is_left() -> None:
    endpoint = sending()
    assert told(endpoint, Ended()) == [Note()]
    assert told(endpoint, answered(TRIED, 503), Due(), answered(TRIED, 200)) == [Settle(7), Attempt()]
    assert told(endpoint, NothingLeft()) == [Remove()]
    assert endpoint.state is State.ENDED


def test_the_end_of_one_that_rests_or_is_disabled_comes_at_once() -> None:
    assert told(Endpoint("a-1", FACTS, schedule()), Ended()) == [Remove()]
    assert told(Endpoint("a-1", replace(FACTS, disabled=True), schedule()), Ended()) == [Remove()]
    endpoint = sending()
    assert told(endpoint, Ended(), answered(TRIED, 410)) == [Remove()]


def test_behind_a_start_the_pause_goes_on() -> None:
    paused = Endpoint("a-1", replace(FACTS, attempts=2, failures=2, next_attempt_s=NOW + 40), schedule())
    assert paused.on_found(NOW) == [Wake(NOW + 40)]
    assert paused.state is State.PAUSING
    assert Endpoint("a-1", FACTS, schedule()).on_found(NOW) == [Wake(NOW)]
    disabled = Endpoint("a-1", replace(FACTS, disabled=True), schedule())
    assert (disabled.on_found(NOW), disabled.state) == ([], State.DISABLED)


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (State.IDLE, Due()),
        (State.IDLE, answered(TRIED, 200)),
        (State.IDLE, NothingLeft()),
        (State.PAUSING, answered(TRIED, 200)),
        (State.PAUSING, NothingLeft()),
        (State.SENDING, Due()),
        (State.DISABLED, Due()),
        (State.ENDED, Arrived()),
    ],
)
def test_what_cannot_happen_changes_nothing(state: State, event: Event) -> None:
    endpoint = Endpoint("a-1", FACTS, schedule())
    endpoint.state = state
    with pytest.raises(IllegalEvent):
        endpoint.on_event(event, NOW)
    assert (endpoint.state, endpoint.facts) == (state, FACTS)
