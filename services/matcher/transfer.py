"""What a matcher sends to others in a scaling: everything once, then what has changed since, in bounded chunks.

Subscriptions may come, change and go while the copy is made: whoever changes one says so (`on_changed`), and what it is
then is sent behind. The copy has ended when everything was looked at and few changes are left; `finish` is called when
no more can come.

Bounded: a look at some hundred ids at a time, so that matching goes on; chunks of a bounded size; a bounded number of
them under way to each receiver. A chunk that is not known to be on the receiver's disk is kept, and sent again when the
link to it was broken: a receiver takes them in their order, and each once.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from braid.id_tables import IdSet
from braid.messages import AddMatcherState, Calls, Send
from braid.selector import Selector
from braid.subscription import SubscriptionRecord

CHUNK_BYTES_MAX = 32 * 1024  # by estimate; large zones cost a receiver milliseconds each
_RECORD_BYTES, _NUMBER_BYTES = 200, 10


class Pace(msgspec.Struct, frozen=True):
    """How much is done at a time."""

    looks: int = 1_000
    chunk_records_max: int = 50  # a receiver is deaf while it takes one
    changes_left_max: int = 500  # when the copy ends; they are sent while new subscriptions wait
    sends: int = 100  # of all looks; one costs as much as ten others
    chunks_under_way_max: int = 24  # to each receiver; on a busy machine it is half a second until one is acknowledged


class Outgoing:
    """To one receiver."""

    def __init__(self, receiver: str, epoch: int, pace: Pace) -> None:
        self._pace = pace
        self._receiver = receiver
        self._epoch = epoch
        self._entries: dict[str, SubscriptionRecord | None] = {}  # by id; None was removed
        self._calls: dict[str, Calls] = {}
        self._bytes = 0
        self._queued: deque[AddMatcherState] = deque()
        self._under_way: dict[int, AddMatcherState] = {}
        self._chunks = 0
        self._copy_chunk = 0  # the one that ended the copy

    @property
    def is_full(self) -> bool:
        return bool(self._queued)

    @property
    def is_done(self) -> bool:
        return not self._queued and not self._under_way

    @property
    def has_copied(self) -> bool:
        """Everything up to the end of the copy is stored."""
        waiting = next(iter(self._under_way), None) or (self._queued[0].chunk if self._queued else self._chunks + 1)
        return 0 < self._copy_chunk < waiting

    def add(self, id: str, record: SubscriptionRecord | None, calls: Calls | None) -> None:
        self._entries[id] = record
        if calls is not None:
            self._calls[id] = calls
        self._bytes += _RECORD_BYTES if record is None else _size(record)
        if len(self._entries) >= self._pace.chunk_records_max or self._bytes >= CHUNK_BYTES_MAX:
            self.close_chunk()

    def close_chunk(self, ends: Literal["", "copy", "state"] = "") -> None:
        self._chunks += 1
        if ends == "copy":
            self._copy_chunk = self._chunks
        records = [record for record in self._entries.values() if record is not None]
        removed = [id for id, record in self._entries.items() if record is None]
        self._queued.append(AddMatcherState(self._epoch, self._chunks, records, removed, self._calls, ends))
        self._entries, self._calls, self._bytes = {}, {}, 0

    def sends(self) -> list[Send]:
        chunks = []
        while self._queued and len(self._under_way) < self._pace.chunks_under_way_max:
            chunk = self._queued.popleft()
            self._under_way[chunk.chunk] = chunk
            chunks.append(chunk)
        return [Send(self._receiver, chunks)] if chunks else []

    def again(self) -> list[Send]:
        return [Send(self._receiver, list(self._under_way.values()))] if self._under_way else []

    def on_stored(self, chunk: int) -> None:
        self._under_way.pop(chunk, None)


class Transfer:
    """To all receivers.

    `ids` are those of all subscriptions kept here, `called` those of which calls are known; both are walked bit by bit.
    `leaving` gets each subscription that another matcher has in the new epoch.
    """

    def __init__(
        self,
        name: str,
        selector: Selector,
        *,
        ids: Iterable[str],
        called: Iterable[str],
        get: Callable[[str], SubscriptionRecord | None],
        calls_of: Callable[[str], Calls | None],
        leaving: IdSet,
        pace: Pace,
    ) -> None:
        self._name = name
        self._selector = selector
        self._ids: Iterator[str] | None = iter(ids)
        self._called: Iterator[str] | None = iter(called)
        self._get = get
        self._calls_of = calls_of
        self._leaving = leaving
        self._pace = pace
        self._changed: OrderedDict[str, None] = OrderedDict()  # in their order; a plain one is slow at its beginning
        self._has_copied = False
        self._finishing = False
        self._closed = False
        self._receivers = {m: Outgoing(m, selector.epoch, pace) for m in selector.matchers if m != name}
        self.moved = 0

    @property
    def is_copied(self) -> bool:
        """Everybody has stored everything but a few changes."""
        return self._has_copied and all(outgoing.has_copied for outgoing in self._receivers.values())

    @property
    def is_done(self) -> bool:
        return self._closed and all(outgoing.is_done for outgoing in self._receivers.values())

    @property
    def wants_to_go_on(self) -> bool:
        """There is more to look at, or to close, and room for it."""
        if self._closed or any(outgoing.is_full for outgoing in self._receivers.values()):
            return False
        return bool(self._changed) or not self._has_copied or self._finishing

    def on_changed(self, id: str) -> None:
        if not self._closed and self._selector.matcher_of(id) != self._name:
            self._changed.pop(id, None)
            self._changed[id] = None

    def finish(self) -> None:
        """Nothing changes any more."""
        self._finishing = True

    def go_on(self) -> list[Send]:
        if self.wants_to_go_on:
            self._look()
            self._close_when_due()
        return self.sends()

    def sends(self) -> list[Send]:
        """What there is room for."""
        return [send for outgoing in self._receivers.values() for send in outgoing.sends()]

    def on_stored(self, receiver: str, chunk: int) -> None:
        if receiver in self._receivers:
            self._receivers[receiver].on_stored(chunk)

    def on_receiver_up(self, receiver: str) -> list[Send]:
        return self._receivers[receiver].again() if receiver in self._receivers else []

    def _look(self) -> None:
        """At some of all, then at some of the ended ones of which calls are known, then at changes."""
        if self._ids is not None:
            # One that has changed will be sent behind the others.
            self._ids = self._look_at(self._ids, lambda id: id not in self._changed)
        elif self._called is not None:
            self._called = self._look_at(self._called, lambda id: self._get(id) is None)
        else:
            for _ in range(min(self._pace.looks, self._pace.sends, len(self._changed))):
                self._send(self._changed.popitem(last=False)[0])

    def _look_at(self, ids: Iterator[str], is_to_go: Callable[[str], bool]) -> Iterator[str] | None:
        """Some of them, and what is left."""
        sent = 0
        for looked, id in enumerate(ids, start=1):
            sent += is_to_go(id) and self._send(id)
            if looked == self._pace.looks or sent == self._pace.sends:
                return ids
        return None

    def _send(self, id: str) -> bool:
        """Unless it stays."""
        owner = self._selector.matcher_of(id)
        if owner == self._name:
            return False
        record, calls = self._get(id), self._calls_of(id)
        self._receivers[owner].add(id, record, calls)
        if record is not None and id not in self._leaving:
            self._leaving.add(id)
            self.moved += 1
        return True

    def _close_when_due(self) -> None:
        if self._ids is not None or self._called is not None:
            return
        if not self._has_copied and len(self._changed) <= self._pace.changes_left_max:
            self._has_copied = True
            self._close("copy")
        if self._finishing and not self._changed:
            self._closed = True
            self._close("state")

    def _close(self, ends: Literal["copy", "state"]) -> None:
        for outgoing in self._receivers.values():
            outgoing.close_chunk(ends)


def _size(record: SubscriptionRecord) -> int:
    """By estimate."""
    size = _RECORD_BYTES + len(record.filter) + len(record.topic) + sum(map(len, record.words))
    if record.zone is not None:
        for ring in record.zone.get("coordinates", ()):
            size += 2 * _NUMBER_BYTES * (len(ring) if isinstance(ring, list | tuple) else 1)
    return size
