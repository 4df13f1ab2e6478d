"""What a matcher sends to others in a scaling: its snapshot, partitioned by the new selector, in bounded chunks.

Bounded: a look at some hundred ids at a time, so that matching goes on; chunks of a bounded size; a bounded number of
them under way to each receiver. A chunk that is not known to be on the receiver's disk is kept, and sent again when the
link to it was broken: a receiver that gets one twice has it once.
"""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from braid.messages import AddMatcherState, Send
from braid.selector import BroadcastSelector
from braid.subscription import SubscriptionRecord

LOOKS_AT_ONCE = 500
CHUNK_RECORDS_MAX = 250  # a receiver may read all that are under way at once, and is deaf meanwhile
CHUNK_BYTES_MAX = 256 * 1024  # by estimate
CHUNKS_UNDER_WAY_MAX = 4


class Outgoing:
    """To one receiver."""

    def __init__(self, receiver: str, epoch: int) -> None:
        self._receiver = receiver
        self._epoch = epoch
        self._records: list[SubscriptionRecord] = []
        self._bytes = 0
        self._queued: deque[AddMatcherState] = deque()
        self._under_way: dict[int, AddMatcherState] = {}
        self._chunks = 0

    @property
    def is_full(self) -> bool:
        return bool(self._queued)

    @property
    def is_done(self) -> bool:
        return not self._queued and not self._under_way

    def add(self, record: SubscriptionRecord) -> None:
        self._records.append(record)
        self._bytes += 200 + len(record.filter)
        if len(self._records) >= CHUNK_RECORDS_MAX or self._bytes >= CHUNK_BYTES_MAX:
            self.close_chunk(last=False)

    def close_chunk(self, *, last: bool) -> None:
        self._chunks += 1
        self._queued.append(AddMatcherState(self._epoch, self._chunks, self._records, last))
        self._records, self._bytes = [], 0

    def sends(self) -> list[Send]:
        chunks = []
        while self._queued and len(self._under_way) < CHUNKS_UNDER_WAY_MAX:
            chunk = self._queued.popleft()
            self._under_way[chunk.chunk] = chunk
            chunks.append(chunk)
        return [Send(self._receiver, chunks)] if chunks else []

    def again(self) -> list[Send]:
        return [Send(self._receiver, list(self._under_way.values()))] if self._under_way else []

    def on_stored(self, chunk: int) -> None:
        self._under_way.pop(chunk, None)


class Transfer:
    """The whole snapshot. `leaves` is told of each subscription that another matcher has in the new epoch."""

    def __init__(
        self,
        name: str,
        ids: Iterable[str],
        selector: BroadcastSelector,
        get: Callable[[str], SubscriptionRecord | None],
        leaves: Callable[[str], None],
    ) -> None:
        self._name = name
        self._ids = iter(ids)
        self._closed = False
        self._selector = selector
        self._get = get
        self._leaves = leaves
        self._receivers = {m: Outgoing(m, selector.epoch) for m in selector.matchers if m != name}
        self.moved = 0

    @property
    def is_done(self) -> bool:
        return self._closed and all(outgoing.is_done for outgoing in self._receivers.values())

    @property
    def wants_to_go_on(self) -> bool:
        """There is more to look at, and room for it."""
        return not self._closed and not any(outgoing.is_full for outgoing in self._receivers.values())

    def go_on(self) -> list[Send]:
        if self.wants_to_go_on:
            self._look()
        return [send for outgoing in self._receivers.values() for send in outgoing.sends()]

    def on_stored(self, receiver: str, chunk: int) -> None:
        if receiver in self._receivers:
            self._receivers[receiver].on_stored(chunk)

    def on_receiver_up(self, receiver: str) -> list[Send]:
        return self._receivers[receiver].again() if receiver in self._receivers else []

    def _look(self) -> None:
        ids = list(islice(self._ids, LOOKS_AT_ONCE))
        for id in ids:
            owner = self._selector.matcher_of(id)
            if owner == self._name:
                continue
            record = self._get(id)
            if record is not None:  # else its window has passed since the snapshot
                self._receivers[owner].add(record)
                self._leaves(id)
                self.moved += 1
        if len(ids) < LOOKS_AT_ONCE:
            self._closed = True
            for outgoing in self._receivers.values():
                outgoing.close_chunk(last=True)
