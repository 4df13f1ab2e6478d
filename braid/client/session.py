"""The protocol core of the client: what it has asked, what it holds, what to say again on a new connection.

A call is asked once and answered once, however many connections that takes: unanswered calls are sent again, in their
order, on every new connection. A stream stands for one subscription and lives through these states:

    opening ──subscribed──▶ open ──lost by the server──▶ repairing ──subscribed──▶ open
       │                      │                              │
       └─────── close ────────┴────────── close ─────────────┴──▶ closing ──unsubscribed──▶ gone

Invariants:
- While not connected nothing is sent; `on_connected` sends what is owed, repairs before calls, so that what this client
  publishes again finds what it has subscribed to.
- No stream is given the same publication twice within the window of `Delivered`. So a repair may ask for a little more
  of the past than was missed.
- Every collection is bounded: calls by the caller's own limit, what `Routing` remembers by numbers.
"""

from collections.abc import Sequence, Set
from typing import Any

from braid.client.effects import Answered, CallFailed, DropConnection, Effect, Report, Send, StreamFailed
from braid.client.errors import BraidError, ConnectionLost, from_problem
from braid.client.frames import (
    Error,
    Frame,
    Gap,
    Notify,
    Past,
    Publication,
    Published,
    Subscribed,
    Unsubscribed,
    encode_publish,
    encode_subscribe,
    encode_unsubscribe,
)
from braid.client.held import Call, HeldStream, Wish
from braid.client.routing import Routing

CALL_ATTEMPTS_MAX = 10
_WORTH_A_RETRY = frozenset({429, 503})


class Session:
    """One subscriber's conversation with the cluster. No socket and no clock inside."""

    def __init__(self, *, temporary: bool, delivered_window: int) -> None:
        self.connected = False
        self.last_event_id = ""
        self._temporary = temporary
        self._refs = 0
        self._calls: dict[int, Call] = {}  # in the order they were asked
        self._streams: dict[int, HeldStream] = {}
        self._routing = Routing(delivered_window)
        self._may_have_strays = False

    # What the user asks.

    def publish(self, publications: Sequence[Publication | dict[str, Any]]) -> tuple[int, list[Effect]]:
        ref = self._next_ref()
        return ref, self._ask(Call(ref, encode_publish(ref, publications)))

    def subscribe(self, parts: dict[str, Any], *, keep: bool, now: float) -> tuple[int, list[Effect]]:
        """The ref of the call is also the number of the stream."""
        ref = self._next_ref()
        self._streams[ref] = HeldStream(Wish.of(parts, now), keep, asked=ref)
        return ref, self._ask(Call(ref, encode_subscribe(ref, parts), stream=ref))

    def listen(self) -> int:
        """A stream of everything that reaches this subscriber, whoever subscribed; asks nothing of the server."""
        stream = self._next_ref()
        self._routing.add_listener(stream)
        return stream

    def id_of(self, stream: int) -> str:
        held = self._streams.get(stream)
        return held.ids[-1] if held and held.ids else ""

    def past_of(self, stream: int) -> Past | None:
        held = self._streams.get(stream)
        return held.past if held else None

    def close_stream(self, stream: int) -> tuple[int | None, list[Effect]]:
        """The ref of the unsubscribe, or None when there is nothing to wait for."""
        if self._routing.remove_listener(stream):
            return None, []
        held = self._streams.get(stream)
        if held is None or held.closing:
            return None, []
        held.closing = True
        if held.asked:
            # Its id is still to come: the answer to the subscribe is what starts the unsubscribe.
            return None, []
        return self._unsubscribe(stream, held)

    def forget(self, ref: int) -> None:
        """The caller waits no longer. A late answer is ignored, except that a late subscription is taken back."""
        call = self._calls.get(ref)
        if call is None:
            return
        held = self._streams.get(call.stream)
        if held is not None and held.asked == ref and self.connected:
            held.closing, held.keep = True, False
        else:
            del self._calls[ref]
            self._remove(call.stream)

    # What happens.

    @property
    def must_list(self) -> bool:
        """Whether `on_connected` needs to know which subscriptions the server still has."""
        return bool(self._routing.ids) or self._may_have_strays

    @property
    def held_ids(self) -> Set[str]:
        return self._routing.ids

    def on_connected(self, alive: Set[str], now: float, heard_s: float | None = None) -> list[Effect]:
        """`alive` are the ids of this subscriber's subscriptions at the server; unused unless `must_list`.

        `heard_s` is when the server was last heard of over the connections before.
        """
        effects: list[Effect] = self._take_back_strays(alive) if self._may_have_strays else []
        self._may_have_strays = False
        self.connected = True
        unanswered = list(self._calls.values())
        lost = [
            (stream, held)
            for stream, held in self._streams.items()
            if held.ids and held.ids[-1] not in alive and not held.closing and not held.asked
        ]
        for stream, held in lost:
            if not held.wish.is_over(now):
                held.heard_s = heard_s
                ref = self._next_ref()
                effects += self._ask(Call(ref, held.repair(ref, now), stream))
        if lost:
            effects.append(Report("resubscribing", f"the server no longer had {len(lost)} subscription(s)"))
        for call in unanswered:
            repaired = self._repaired_by(call)
            if repaired is not None:
                call.frame = repaired.repair(call.ref, now)  # more is missing by now
            effects += self._send(call)
        return effects

    def on_disconnected(self) -> list[Effect]:
        """Whatever was on its way is owed again, but not without end."""
        self.connected = False
        self._routing.forget_early()
        effects: list[Effect] = []
        for call in list(self._calls.values()):
            held = self._streams.get(call.stream)
            asked_now = held is not None and held.asked == call.ref and call.attempts > 0
            # Of a named subscriber they cannot be told from subscriptions that others made for it.
            self._may_have_strays |= asked_now and self._temporary
            if held is not None and held.closing and asked_now:
                # Nobody waits for it any more.
                del self._calls[call.ref]
                self._remove(call.stream)
            elif call.attempts >= CALL_ATTEMPTS_MAX:
                effects += self._give_up(
                    call, ConnectionLost(f"the connection was lost {call.attempts} times before the answer")
                )
        return effects

    def on_too_big(self) -> list[Effect]:
        """The server closed because of a message's size: the longest is the one, and must not be sent again."""
        longest = max(self._calls.values(), key=lambda call: len(call.frame), default=None)
        if longest is None:
            return []
        size = len(longest.frame)
        return self._give_up(
            longest, BraidError(f"a message of {size:,} bytes is too big for the server; publish fewer at a time")
        )

    def on_frame(self, frame: Frame) -> list[Effect]:
        effects: list[Effect] = []
        match frame:
            case Notify():
                self.last_event_id = frame.event or self.last_event_id
                effects = self._routing.route(frame.notifications, keep_unknown=self._is_subscribing)
            case Published(ref, ids):
                effects = [Answered(ref, ids)] if self._calls.pop(ref, None) else []
            case Subscribed():
                effects = self._on_subscribed(frame)
            case Unsubscribed(ref):
                effects = self._on_unsubscribed(ref)
            case Error():
                effects = self._on_error(frame)
            case Gap(detail):
                effects = [Report("gap", detail)]
        return effects

    # Details.

    @property
    def _is_subscribing(self) -> bool:
        return any(call.stream for call in self._calls.values())

    def _on_subscribed(self, frame: Subscribed) -> list[Effect]:
        ref, id = frame.ref, frame.id
        self.last_event_id = self.last_event_id or frame.event
        call = self._calls.pop(ref, None)
        held = self._streams.get(call.stream) if call else None
        if call is None or held is None or held.asked != ref:
            return []
        is_first = not held.ids
        held.asked = 0
        self._routing.remove(held.adopt(id))
        if held.closing:
            return [Answered(ref, id), *self._unsubscribe(call.stream, held)[1]]
        effects: list[Effect] = [Answered(ref, id), *self._routing.add(id, call.stream)]
        if is_first:
            held.past = frame.past
        elif frame.past is not None and not frame.past.complete:
            effects.append(Report("gap", "more was published meanwhile than the server gives at once"))
        if not self._is_subscribing:
            self._routing.forget_early()
        return effects

    def _repaired_by(self, call: Call) -> HeldStream | None:
        """The stream whose lost subscription this call makes again."""
        held = self._streams.get(call.stream)
        return held if held is not None and held.ids and held.asked == call.ref else None

    def _on_unsubscribed(self, ref: int) -> list[Effect]:
        call = self._calls.pop(ref, None)
        if call is None:
            return []
        self._remove(call.stream)
        return [Answered(ref, "")]

    def _on_error(self, frame: Error) -> list[Effect]:
        call = self._calls.get(frame.ref) if frame.ref is not None else None
        if call is None:
            return [Report("error", str(from_problem(frame.problem)))] if frame.ref is None else []
        held = self._streams.get(call.stream)
        status = frame.problem.get("status")
        if status == 404 and held is not None and held.closing:
            return self._on_unsubscribed(call.ref)  # gone is what was asked for
        repaired = self._repaired_by(call)
        if repaired is not None and status in _WORTH_A_RETRY:
            # A repair has no caller to decide, so it is tried again where reconnecting is bounded.
            return [*repaired.ask_for_less(status), DropConnection(str(from_problem(frame.problem)))]
        return self._give_up(call, from_problem(frame.problem))

    def _give_up(self, call: Call, error: BraidError) -> list[Effect]:
        del self._calls[call.ref]
        held = self._streams.get(call.stream)
        was_open = held is not None and bool(held.ids) and not held.closing
        self._remove(call.stream)
        return [StreamFailed(call.stream, error)] if was_open else [CallFailed(call.ref, error)]

    def _take_back_strays(self, alive: Set[str]) -> list[Effect]:
        """Unsubscribes what the server made although its answer was lost."""
        known = {id for held in self._streams.values() for id in held.ids}
        return [Send(encode_unsubscribe(self._next_ref(), id)) for id in sorted(alive) if id not in known]

    def _unsubscribe(self, stream: int, held: HeldStream) -> tuple[int | None, list[Effect]]:
        if held.keep:
            self._remove(stream)
            return None, []
        ref = self._next_ref()
        return ref, self._ask(Call(ref, encode_unsubscribe(ref, held.ids[-1]), stream))

    def _remove(self, stream: int) -> None:
        held = self._streams.pop(stream, None)
        if held is not None:
            self._routing.remove(held.ids)

    def _ask(self, call: Call) -> list[Effect]:
        self._calls[call.ref] = call
        return self._send(call)

    def _send(self, call: Call) -> list[Effect]:
        if not self.connected:
            return []
        call.attempts += 1
        return [Send(call.frame)]

    def _next_ref(self) -> int:
        self._refs += 1
        return self._refs
