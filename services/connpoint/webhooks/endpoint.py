"""One endpoint: what happens to the notifications of one subscription with a webhook.

    idle ──something arrives──▶ sending ──arrived──▶ sending … nothing left ──▶ idle
                                  │  ▲
                            failed ▼  │ due
                                pausing            410 leads to disabled, another address or a replay back

Notifications lie on disk, not here. `Attempt` asks for the next request, which is made of them if there is none, to be
posted; what came of it is the next event. So one request is under way at a time, and nothing is counted here that the
disk knows better. What arrives while one is under way may lie behind the place where that one looked: it is noted, and
an attempt that finds nothing is followed by another one.

Invariants: an endpoint that is idle has nothing on disk that waits; one that is sending has one attempt under way; one
that pauses has been promised a `Due`.
"""

import enum
import math

from msgspec.structs import replace

from braid.machine import Machine, Transition
from services.connpoint.webhooks.events import (
    Arrived,
    Attempt,
    Bury,
    BuryWaiting,
    Changed,
    Delivered,
    DiskFailed,
    Due,
    Effects,
    Ended,
    Event,
    Failed,
    Gone,
    Note,
    NothingLeft,
    Remove,
    Replayed,
    Settle,
    Wake,
)
from services.connpoint.webhooks.facts import Facts
from services.connpoint.webhooks.schedule import Schedule


class State(enum.Enum):
    IDLE = "idle"
    SENDING = "sending"
    PAUSING = "pausing"
    DISABLED = "disabled"
    ENDED = "ended"  # the subscription is over, and nothing of it is left


GONE = "answered 410: the receiver wants no more"


class Endpoint:
    def __init__(self, id: str, facts: Facts, schedule: Schedule) -> None:
        """As it is when nothing of it is known to wait."""
        self.id = id
        self.facts = facts
        self.state = State.DISABLED if facts.disabled else State.IDLE
        self._schedule = schedule
        self._has_more = False  # something came since the attempt that is under way began
        self._is_elsewhere = False  # that one is posted to an address, or signed with a secret, that was changed since

    def on_event(self, event: Event, now_s: float) -> Effects:
        return MACHINE.step(self, event, now_s)

    def on_found(self, now_s: float) -> Effects:
        """At the start of the process: something waits on disk. The pause that was under way goes on."""
        if self.state is State.DISABLED:
            return []
        self.state = State.PAUSING
        return [Wake(max(now_s, self.facts.next_attempt_s))]

    def on_arrived(self, _event: Arrived, _now_s: float) -> Effects:
        return self._send()

    def on_arrived_disabled(self, _event: Arrived, _now_s: float) -> Effects:
        return [BuryWaiting(math.inf, GONE)]

    def on_unneeded(self, _event: Arrived | Replayed, _now_s: float) -> Effects:
        """It is found by the next attempt."""
        self._has_more = True
        return []

    def on_nothing_left(self, _event: NothingLeft, _now_s: float) -> Effects:
        if self._has_more:
            return self._send()
        if self.facts.ending:
            return self._end()
        self.state = State.IDLE
        return []

    def on_delivered(self, event: Delivered, now_s: float) -> Effects:
        delivered = self.facts.delivered + event.tried.notifications
        self.facts = replace(
            self.facts, attempts=0, failures=0, next_attempt_s=0.0, last_success_s=now_s, delivered=delivered
        )
        return [Settle(event.tried.number), *self._send()]

    def on_failed(self, event: Failed, now_s: float) -> Effects:
        if self._is_elsewhere:
            return self._send()
        facts, schedule, tried = self.facts, self._schedule, event.tried
        attempts, failures = facts.attempts + 1, facts.failures + 1
        next_attempt_s = now_s + schedule.pause_s(failures, event.retry_after_s)
        why = schedule.why_given_up(attempts, is_refusal=event.is_refusal, age_s=now_s - tried.oldest_s)
        self.facts = replace(
            facts,
            attempts=0 if why else attempts,
            failures=failures,
            next_attempt_s=next_attempt_s,
            last_failure_s=now_s,
            last_error=event.reason,
        )
        effects = self._pause(next_attempt_s)
        if not why:
            return [Note(), *effects]
        old = BuryWaiting(now_s - schedule.age_s_max, f"older than {schedule.age_s_max:g} s; last: {event.reason}")
        return [Bury(tried.number, attempts, f"{why}; last: {event.reason}"), old, *effects]

    def on_gone(self, event: Gone, now_s: float) -> Effects:
        if self._is_elsewhere:
            return self._send()
        attempts = self.facts.attempts + 1
        self.facts = replace(
            self.facts,
            disabled=True,
            attempts=0,
            failures=self.facts.failures + 1,
            next_attempt_s=0.0,
            last_failure_s=now_s,
            last_error=GONE,
        )
        if self.facts.ending:
            return self._end()
        self.state = State.DISABLED
        return [Bury(event.tried.number, attempts, GONE), BuryWaiting(math.inf, GONE)]

    def on_disk_failed(self, _event: DiskFailed, now_s: float) -> Effects:
        """No fault of the receiver."""
        return self._pause(now_s + self._schedule.retry_s)

    def on_due(self, _event: Due, _now_s: float) -> Effects:
        return self._send()

    def on_changed(self, event: Changed, _now_s: float) -> Effects:
        """What failed at another address says nothing of this one, also what fails there now."""
        self.facts = replace(self.facts, webhook=event.webhook, ending=False)
        if self.state is State.IDLE:
            return [Note()]
        if self.state is State.SENDING:
            self._forgive()
            self._is_elsewhere = True
            return [Note()]
        return self._enable()

    def on_replayed(self, _event: Replayed, _now_s: float) -> Effects:
        return self._enable()

    def on_ended(self, _event: Ended, _now_s: float) -> Effects:
        if self.state in (State.IDLE, State.DISABLED):
            return self._end()
        self.facts = replace(self.facts, ending=True)
        return [Note()]

    def _send(self) -> Effects:
        self.state = State.SENDING
        self._has_more = self._is_elsewhere = False
        return [Attempt()]

    def _enable(self) -> Effects:
        self._forgive()
        return [Note(), *self._send()]

    def _forgive(self) -> None:
        self.facts = replace(self.facts, disabled=False, attempts=0, failures=0, next_attempt_s=0.0)

    def _end(self) -> Effects:
        self.state = State.ENDED
        return [Remove()]

    def _pause(self, until_s: float) -> Effects:
        self.state = State.PAUSING
        return [Wake(until_s)]


_S = State
_E = Endpoint
MACHINE: Machine[State, Effects] = Machine(
    State.IDLE,
    [
        Transition(_S.IDLE, Arrived, (_S.SENDING,), "tries the first request", _E.on_arrived),
        Transition(_S.IDLE, Replayed, (_S.SENDING,), "tries the first dead letter", _E.on_replayed),
        Transition(_S.IDLE, Changed, (), "notes it", _E.on_changed),
        Transition(_S.IDLE, Ended, (_S.ENDED,), "forgets it", _E.on_ended),
        Transition(_S.SENDING, Arrived, (), "finds it with the next attempt", _E.on_unneeded),
        Transition(_S.SENDING, Replayed, (), "finds it with the next attempt", _E.on_unneeded),
        Transition(_S.SENDING, Changed, (), "posts there from the next attempt on", _E.on_changed),
        Transition(_S.SENDING, Delivered, (), "goes on with the next one", _E.on_delivered),
        Transition(_S.SENDING, Failed, (_S.PAUSING, _S.SENDING), "tries again later, or gives it up", _E.on_failed),
        Transition(_S.SENDING, Gone, (_S.DISABLED, _S.ENDED, _S.SENDING), "gives everything up", _E.on_gone),
        Transition(_S.SENDING, DiskFailed, (_S.PAUSING,), "tries again later", _E.on_disk_failed),
        Transition(_S.SENDING, NothingLeft, (_S.IDLE, _S.ENDED, _S.SENDING), "rests", _E.on_nothing_left),
        Transition(_S.SENDING, Ended, (), "goes on with what is left", _E.on_ended),
        Transition(_S.PAUSING, Due, (_S.SENDING,), "tries again", _E.on_due),
        Transition(_S.PAUSING, Arrived, (), "lets it wait", _E.on_unneeded),
        Transition(_S.PAUSING, Changed, (_S.SENDING,), "tries again at once", _E.on_changed),
        Transition(_S.PAUSING, Replayed, (_S.SENDING,), "tries again at once", _E.on_replayed),
        Transition(_S.PAUSING, Ended, (), "goes on with what is left", _E.on_ended),
        Transition(_S.DISABLED, Arrived, (), "makes a dead letter of it", _E.on_arrived_disabled),
        Transition(_S.DISABLED, Changed, (_S.SENDING,), "tries again at once", _E.on_changed),
        Transition(_S.DISABLED, Replayed, (_S.SENDING,), "tries again at once", _E.on_replayed),
        Transition(_S.DISABLED, Ended, (_S.ENDED,), "forgets it", _E.on_ended),
    ],
)
