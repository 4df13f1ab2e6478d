"""Subscriptions that are being given their past: what comes live meanwhile waits behind it, and nothing comes twice.

    begin ──notifications of it are held──▶ give ──▶ past and what was held, in order, each once, a part at a time

What comes live while it is given is held too, and is the last to be given. A `distinct` one is not given what its
subscriber gets meanwhile through another one: neither of its past, nor of what was held. A publication of the past
whose batch is not confirmed may still come live: it is remembered (`remembered.py`).

Batches that were published before the past begins, and before something in it of the same publisher, may still be on
their way (`unconfirmed.py`). What came of them until the past is given stands in it at its place; what comes later is
out of order, and not wanted: it is left out.

Bounded: a subscription for which more is held than an outbox takes fails, and the caller is told. What a subscriber
gets meanwhile is noted up to the same number; what is not noted might come twice.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from braid.content import expiry_of
from braid.messages import Kept
from services.connpoint.past_order import Key, in_order, in_parts, key_of
from services.connpoint.remembered import Remembered
from services.connpoint.unconfirmed import Batch


class Part(msgspec.Struct, frozen=True):
    """Some of what is given; one without contents is a pause, so that others have their turn."""

    keys: list[Key]
    contents: list[bytes]
    of_past: int  # how many of them are of the past


class _Held(msgspec.Struct):
    subscriber: str
    is_distinct: bool
    live: dict[Key, bytes] = {}  # in the order in which they came
    size: int = 0
    is_too_much: bool = False
    past: dict[Key, Kept] = {}  # when it is known
    came: set[Key] = set()  # what of that came live too
    may_come: set[Key] = set()  # was given with the past, and is not confirmed
    passed: set[Batch] = set()  # what still comes of these is out of order, and was published before the past begins


class _Got(msgspec.Struct):
    """What a subscriber got since one of its distinct subscriptions is held."""

    held: int = 0  # so many of them are
    keys: set[Key] = set()


class TooMuchHeldError(Exception):
    """More came live than is held while the past was looked for."""


class CatchingUp:
    def __init__(self, held_max: int, held_bytes_max: int) -> None:
        self._held_max = held_max
        self._held_bytes_max = held_bytes_max
        self._held: dict[str, _Held] = {}  # by subscription
        self._got: dict[str, _Got] = {}  # by subscriber
        self._remembered = Remembered()

    @property
    def is_idle(self) -> bool:
        return not self._held and not len(self._remembered)

    @property
    def held(self) -> int:
        return sum(len(held.live) for held in self._held.values())

    @property
    def remembered(self) -> int:
        return len(self._remembered)

    def begin(self, id: str, subscriber: str, *, is_distinct: bool = False) -> None:
        self._held[id] = _Held(subscriber, is_distinct)
        if is_distinct:
            self._got.setdefault(subscriber, _Got()).held += 1

    def left(
        self, key: Key, ids: list[str], content: bytes, subscribers: Mapping[str, str], distinct: Collection[str]
    ) -> list[str]:
        """The subscriptions through which this one is to be delivered now, of those that it matches."""
        held = [id for id in ids if id in self._held]
        given = [id for id in ids if self._remembered.take(id, key)]
        passed = [id for id in ids if self._remembered.has_passed(id, key)]
        now = ids
        if held or given or passed:
            others = {*held, *given, *passed}
            now = [id for id in ids if id not in others]
        if given:
            got = {subscribers.get(id) for id in given}
            now = [id for id in now if id not in distinct or subscribers.get(id) not in got]
        if self._got:
            for id in (*now, *given):
                self._note_got(subscribers.get(id, ""), [key])
        for id in held:
            self._hold(self._held[id], key, content)
        return now

    def _hold(self, held: _Held, key: Key, content: bytes) -> None:
        if self._has_got(held, key) or key[:2] in held.passed:
            return
        held.size += len(content)
        held.is_too_much |= len(held.live) >= self._held_max or held.size > self._held_bytes_max
        if held.is_too_much:
            held.live = {}
        else:
            held.live[key] = content

    def _has_got(self, held: _Held, key: Key) -> bool:
        return held.is_distinct and key in self._got[held.subscriber].keys

    def _note_got(self, subscriber: str, keys: Iterable[Key]) -> None:
        got = self._got.get(subscriber)
        if got is not None and len(got.keys) < self._held_max:
            got.keys.update(keys)

    def give(
        self, id: str, past: Iterable[Kept], clock_s: Callable[[], float], before: Collection[Batch] = ()
    ) -> Iterator[Part]:
        """What is given to it now, oldest first; nothing more when it has gone meanwhile.

        What comes from now on of the batches `before` it is left out. It goes on being held until all parts are taken,
        and each part has what has not expired when it is taken. Raises `TooMuchHeldError`.
        """
        held = self._held.get(id)
        if held is None:
            return
        for part in self._merge(id, held, past, before):
            now_s = clock_s()
            given = [one for one in part if _expiry(held, *one) > now_s and not self._has_got(held, one[0])]
            self._note_got(held.subscriber, [key for key, _ in given])
            # One that has expired is not wanted either when it comes.
            held.may_come.update([key for key, _ in part if key in held.past and not held.past[key].is_confirmed])
            of_past = sum(key in held.past for key, _ in given)
            yield Part([key for key, _ in given], [content for _, content in given], of_past)
            if self._held.get(id) is not held:
                return
        self._end(id)
        self._remembered.add(id, held.may_come - held.came, held.passed, clock_s())

    def _merge(
        self, id: str, held: _Held, past: Iterable[Kept], before: Collection[Batch]
    ) -> Iterator[list[tuple[Key, bytes]]]:
        """Behind the last part nothing is held."""
        held.past = {key_of(kept): kept for kept in past}
        yield []
        live, held.passed = self._take_held(id, held), set(before)
        yield from in_order(held.past, live)
        while held.live or held.is_too_much:
            yield from in_parts(list(self._take_held(id, held).items()))

    def _take_held(self, id: str, held: _Held) -> dict[Key, bytes]:
        """Those that are not in the past too."""
        if held.is_too_much:
            self._end(id)
            raise TooMuchHeldError
        live, held.live, held.size = held.live, {}, 0
        both = live.keys() & held.past.keys()
        held.came |= both
        for key in both:
            del live[key]
        return live

    def _end(self, id: str) -> None:
        held = self._held.pop(id, None)
        if held is not None and held.is_distinct:
            got = self._got[held.subscriber]
            got.held -= 1
            if not got.held:
                del self._got[held.subscriber]

    def forget(self, id: str) -> None:
        """The subscription is gone, or its past could not be given."""
        self._end(id)
        self._remembered.forget(id)

    def on_tick(self, watermark_of: Callable[[str], int], now_s: float) -> None:
        self._remembered.on_tick(watermark_of, now_s)


def _expiry(held: _Held, key: Key, content: bytes) -> float:
    """Matchers know when those expire that do not say it themselves."""
    kept = held.past.get(key)
    return expiry_of(content) if kept is None else kept.expires_s
