"""What a matcher that leaves does with the publications it keeps: it hands them to those that keep them from now on.

First what is on disk, read bit by bit, then what came meanwhile. Whoever asks for the past asks this matcher too until
it is gone, so it does not matter when they arrive; a publication that is kept twice counts once. What is not known to
be on the receiver's disk is sent again when the link to it was broken, and now and then: whoever has no room for it
does not say so.

Bounded: a number of parts under way to each receiver, and no more is read while enough waits for one. What comes
meanwhile waits too, up to a number of batches and of bytes; what comes beyond that is on disk as everything else, and
is read from there when all else has been.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from braid.keeping import keepers_of
from braid.messages import HandOverPublications, KeptBatch, Send
from braid.selector import Selector
from braid.subscription import SubscriptionRecord
from services.matcher.effects import Effects, ReadKept
from services.matcher.storage.records import Cursor

PART_PUBLICATIONS_MAX = 200
PART_BYTES_MAX = 256 * 1024
PARTS_UNDER_WAY_MAX = 4
AGAIN_S = 10  # then a part that is under way for at least as long is sent again
_NEARLY_ALL = 1_000  # batches that may wait when the copy counts as made
_WAITING_MAX = 500  # batches; while more wait for a receiver, no more is read
WAITING_MOST = 5_000  # batches for one receiver; what comes beyond it is read from disk later
WAITING_BYTES_MOST = 32 * 1024 * 1024


class _Receiver(msgspec.Struct):
    waiting: deque[KeptBatch] = msgspec.field(default_factory=deque)
    waiting_bytes: int = 0
    left: int = 0  # publications that wait or are under way
    ended: list[SubscriptionRecord] = msgspec.field(default_factory=list)
    under_way: dict[int, HandOverPublications] = msgspec.field(default_factory=dict)
    late: set[int] = msgspec.field(default_factory=set)  # those that were under way the last time somebody looked
    parts: int = 0

    @property
    def is_done(self) -> bool:
        return not self.waiting and not self.ended and not self.under_way

    @property
    def is_full(self) -> bool:
        return len(self.waiting) >= WAITING_MOST or self.waiting_bytes >= WAITING_BYTES_MOST

    def add(self, batch: KeptBatch) -> None:
        self.waiting.append(batch)
        self.waiting_bytes += _size(batch)
        self.left += len(batch.contents)

    def on_stored(self, number: int) -> int:
        """How many publications were in that part."""
        part = self.under_way.pop(number, None)
        stored = 0 if part is None else sum(len(batch.contents) for batch in part.batches)
        self.left -= stored
        return stored

    def next_parts(self, epoch: int) -> list[HandOverPublications]:
        parts = []
        while (self.waiting or self.ended) and len(self.under_way) < PARTS_UNDER_WAY_MAX:
            ended, self.ended = self.ended[:PART_PUBLICATIONS_MAX], self.ended[PART_PUBLICATIONS_MAX:]
            self.parts += 1
            part = self.under_way[self.parts] = HandOverPublications(epoch, self.parts, self._next_batches(), ended)
            parts.append(part)
        return parts

    def late_parts(self) -> list[HandOverPublications]:
        parts = [part for number, part in self.under_way.items() if number in self.late]
        self.late = set(self.under_way)
        return parts

    def _next_batches(self) -> list[KeptBatch]:
        batches: list[KeptBatch] = []
        publications = size = 0
        while self.waiting and publications < PART_PUBLICATIONS_MAX and size < PART_BYTES_MAX:
            batch = self.waiting.popleft()
            batches.append(batch)
            publications += len(batch.contents)
            size += _size(batch)
        self.waiting_bytes -= size
        return batches


class Departure:
    def __init__(
        self,
        selector: Selector,
        ended: Sequence[SubscriptionRecord],
        *,
        staying: str = "",
        reader: int = 0,
        parts: int = 0,
    ) -> None:
        """`ended`: distinct subscriptions that are remembered. All are asked for them, so anybody may have them.

        `staying` names the matcher itself where it does not leave: what it keeps is not handed over. `reader` tells its
        readings from those of others, `parts` is the number of the last part before it.
        """
        self._selector = selector
        self._receivers = {name: _Receiver(parts=parts) for name in selector.matchers if name != staying}
        self._first_receiver = next(iter(self._receivers.values()))
        self._first_receiver.ended = list(ended)
        self.reader = reader
        self.epoch = selector.epoch
        self._has_read_all = False
        self._reading = False
        self._after: Cursor | None = None
        self._wanted_from_s = -math.inf  # what was published before is not handed over again
        self._missed_from_s = math.inf  # when the first of those was published that found no room
        self._seconds = 0
        self.handed_over = 0  # publications

    @property
    def left(self) -> int:
        """Publications that were read, and are not known to be stored where they belong."""
        return sum(one.left for one in self._receivers.values())

    @property
    def last_part(self) -> int:
        return max(one.parts for one in self._receivers.values())

    @property
    def is_copied(self) -> bool:
        return self._is_all_read and all(len(one.waiting) <= _NEARLY_ALL for one in self._receivers.values())

    @property
    def is_done(self) -> bool:
        return self._is_all_read and all(one.is_done for one in self._receivers.values())

    @property
    def _is_all_read(self) -> bool:
        return self._has_read_all and self._missed_from_s == math.inf

    def begin(self) -> Effects:
        self._reading = True
        return [*self._sends(), ReadKept(None, self.reader)]

    def on_read(self, batches: Iterable[KeptBatch], after: Cursor | None) -> Effects:
        self._reading, self._after, self._has_read_all = False, after, after is None
        for batch in batches:
            if batch.published_s >= self._wanted_from_s:
                self._give(batch)
        return [*self._sends(), *self._read_more()]

    def add(self, batches: Iterable[KeptBatch], now_s: float) -> list[Send]:
        """Kept since the departure began. A clock that is ahead is not believed on disk either."""
        for batch in batches:
            if self._missed_from_s < math.inf or any(one.is_full for one in self._receivers.values()):
                self._missed_from_s = min(self._missed_from_s, batch.published_s, now_s)
            else:
                self._give(batch)
        return self._sends()

    def _give(self, batch: KeptBatch) -> None:
        """To those that keep some of it."""
        keepers = keepers_of(self._selector, batch.origin, batch.sequence, batch.contents)
        for name, places in keepers.items():
            if name in self._receivers:
                self._receivers[name].add(_part_of(batch, places))

    def add_ended(self, records: Iterable[SubscriptionRecord]) -> list[Send]:
        """They have ended since the departure began."""
        self._first_receiver.ended += records
        return self._sends()

    def on_second(self) -> list[Send]:
        self._seconds += 1
        if self._seconds % AGAIN_S:
            return []
        late = [(name, receiver.late_parts()) for name, receiver in self._receivers.items()]
        return [Send(name, parts) for name, parts in late if parts]

    def on_handed_over(self, receiver: str, number: int) -> Effects:
        known = self._receivers.get(receiver)
        if known is None:
            return []
        self.handed_over += known.on_stored(number)
        return [*self._sends(), *self._read_more()]

    def on_receiver_up(self, receiver: str) -> list[Send]:
        known = self._receivers.get(receiver)
        return [Send(receiver, list(known.under_way.values()))] if known is not None and known.under_way else []

    def _sends(self) -> list[Send]:
        parts = [(name, receiver.next_parts(self.epoch)) for name, receiver in self._receivers.items()]
        return [Send(name, own) for name, own in parts if own]

    def _read_more(self) -> Effects:
        is_behind = any(len(one.waiting) > _WAITING_MAX for one in self._receivers.values())
        if self._is_all_read or self._reading or is_behind:
            return []
        if self._has_read_all:
            self._wanted_from_s, self._missed_from_s = self._missed_from_s, math.inf
            self._has_read_all, self._after = False, None
        self._reading = True
        return [ReadKept(self._after, self.reader)]


def _size(batch: KeptBatch) -> int:
    return sum(map(len, batch.contents))


def _part_of(batch: KeptBatch, places: list[int]) -> KeptBatch:
    if len(places) == len(batch.contents):
        return batch
    return msgspec.structs.replace(
        batch,
        places=[batch.places[place] for place in places],
        contents=[batch.contents[place] for place in places],
    )
