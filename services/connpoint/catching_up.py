"""Subscriptions that are being given their past: what comes live meanwhile waits behind it, and nothing comes twice.

    begin ──notifications of it are held──▶ finish ──▶ past and what was held, in order, each once

A publication of the past whose batch is not confirmed may still come live. It is remembered until it does, or until the
watermark of its origin has passed it. Bounded: a subscription for which more is held than an outbox takes fails, and
the caller is told; what is remembered is forgotten after some minutes, or the oldest first beyond a number, and might
come twice where a connection point was away for very long.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from braid.messages import Kept, UnderWay

REMEMBERED_MAX = 200_000  # publications
REMEMBERED_S_MAX = 600.0  # a connection point that was away for longer may have sent them before
ORDER_S = 60.0  # what was published before that has arrived, or is sent again

Key = tuple[str, int, int]  # origin, sequence, place in the batch


class _Live(msgspec.Struct, gc=False):
    key: Key
    content: bytes


class _Held(msgspec.Struct):
    live: list[_Live] = msgspec.field(default_factory=list)
    size: int = 0
    is_too_much: bool = False


class _Given(msgspec.Struct):
    """What may still come live."""

    keys: set[Key]
    since_s: float


class TooMuchHeldError(Exception):
    """More came live than is held while the past was looked for."""


class CatchingUp:
    def __init__(self, held_max: int, held_bytes_max: int) -> None:
        self._held_max = held_max
        self._held_bytes_max = held_bytes_max
        self._held: dict[str, _Held] = {}  # by subscription
        self._given: dict[str, _Given] = {}  # by subscription
        self._remembered = 0
        self._watermarks: dict[str, int] = {}  # by origin, as it was at the last look

    @property
    def is_idle(self) -> bool:
        return not self._held and not self._given

    @property
    def held(self) -> int:
        return sum(len(held.live) for held in self._held.values())

    @property
    def remembered(self) -> int:
        return self._remembered

    def begin(self, id: str) -> None:
        self._held[id] = _Held()

    def takes(self, id: str, origin: str, sequence: int, place: int, content: bytes) -> bool:
        """Whether this notification of that subscription is not to be delivered now."""
        held = self._held.get(id)
        if held is not None:
            self._hold(held, _Live((origin, sequence, place), content))
            return True
        given = self._given.get(id)
        if given is None or (origin, sequence, place) not in given.keys:
            return False
        self._forget(id, given, [(origin, sequence, place)])
        return True

    def _hold(self, held: _Held, one: _Live) -> None:
        held.size += len(one.content)
        held.is_too_much |= len(held.live) >= self._held_max or held.size > self._held_bytes_max
        if held.is_too_much:
            held.live = []
        else:
            held.live.append(one)

    def finish(self, id: str, past: Iterable[Kept], now_s: float) -> list[bytes]:
        """The contents of what is given to it now, oldest first; nothing when it has gone meanwhile.

        Raises `TooMuchHeldError`.
        """
        held = self._held.pop(id, None)
        if held is None:
            return []
        if held.is_too_much:
            raise TooMuchHeldError
        found = {_key(kept): kept for kept in past}
        unconfirmed = {key for key, kept in found.items() if not kept.is_confirmed}
        unconfirmed.difference_update(one.key for one in held.live)
        if unconfirmed:
            self._given[id] = _Given(unconfirmed, now_s)
            for origin in {key[0] for key in unconfirmed}:
                self._watermarks.pop(origin, None)  # so that what is confirmed by now is seen at the next look
            self._remembered += len(unconfirmed)
            while self._remembered > REMEMBERED_MAX:
                self.forget(next(iter(self._given)))
        return in_order(found, {one.key: one.content for one in held.live if one.key not in found})

    def forget(self, id: str) -> None:
        """The subscription is gone, or its past could not be given."""
        self._held.pop(id, None)
        given = self._given.pop(id, None)
        if given is not None:
            self._remembered -= len(given.keys)

    def on_second(self, watermark_of: Callable[[str], int], now_s: float) -> None:
        """What is confirmed does not come again. Only origins that have confirmed something are looked at."""
        origins = {key[0] for given in self._given.values() for key in given.keys}
        watermarks = {origin: watermark_of(origin) for origin in origins}
        moved = {origin for origin, mark in watermarks.items() if mark > self._watermarks.get(origin, 0)}
        self._watermarks = watermarks
        for id, given in list(self._given.items()):
            if now_s - given.since_s > REMEMBERED_S_MAX:
                self.forget(id)
            elif moved:
                gone = [key for key in given.keys if key[0] in moved and key[1] <= watermarks[key[0]]]
                self._forget(id, given, gone)

    def _forget(self, id: str, given: _Given, keys: list[Key]) -> None:
        given.keys.difference_update(keys)
        self._remembered -= len(keys)
        if not given.keys:
            del self._given[id]


def is_in_order(past: Iterable[Kept], under_way: Sequence[dict[str, UnderWay]], now_s: float) -> bool:
    """Whether nothing of a publisher is still to come that was published before something of its past.

    Of each batch that is not confirmed, the ones before it must be kept by somebody, or confirmed. `under_way` is what
    the matchers say of that. Matchers that were started again know nothing of old ones, so only new ones are looked at.
    """
    watermarks: dict[str, int] = {}
    previous: dict[tuple[str, int], int] = {}
    for of_matcher in under_way:
        for origin, known in of_matcher.items():
            watermarks[origin] = max(known.watermark, watermarks.get(origin, 0))
            previous.update({(origin, sequence): before for sequence, before in known.previous.items()})
    for kept in past:
        is_settled = kept.is_confirmed or kept.published_s < now_s - ORDER_S
        before = 0 if is_settled else kept.previous
        while before > watermarks.get(kept.origin, 0):
            if (kept.origin, before) not in previous:
                return False
            before = previous[kept.origin, before]
    return True


def in_order(past: dict[Key, Kept], live: dict[Key, bytes]) -> list[bytes]:
    """The contents of both, the past by its time, and what came live behind it.

    Those of one origin stay in the order of their sequences, whatever its clock did. Matchers are not asked in the same
    moment, so something of the past may be newer than something that came live: that one goes before it.
    """
    placed: list[tuple[float, int, Key, bytes]] = []
    later: dict[str, float] = {}  # by origin, when the next one of its past is placed
    arrived = {key: number for number, key in enumerate(live)}
    moments = _moments(past)
    for key in sorted([*past, *live], reverse=True):
        if key in past:
            moment_s = later[key[0]] = moments[key]
            placed.append((moment_s, 0, key, past[key].content))
        else:
            moment_s = later.get(key[0], math.inf)
            number = arrived[key] if moment_s == math.inf else 0
            placed.append((moment_s, number, key, live[key]))
    return [content for *_, content in sorted(placed)]


def _moments(past: dict[Key, Kept]) -> dict[Key, float]:
    """When each was published; where the clock of an origin went back, when the ones before it were."""
    latest: dict[str, float] = {}
    moments: dict[Key, float] = {}
    for key in sorted(past):
        moments[key] = latest[key[0]] = max(latest.get(key[0], 0.0), past[key].published_s)
    return moments


def _key(kept: Kept) -> Key:
    return kept.origin, kept.sequence, kept.place
