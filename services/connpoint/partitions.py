"""The retry loop over partitions of Kafka's ingress topic: whoever sees to a partition sends what is in it.

Kafka numbers what is written, so nobody else has to: the origin of a batch is its partition, the sequence its offset
plus one. A connection point sees to the partitions that fall to it among those registered (`braid.standing_in`).

A partition's way here:

    not ours ──it falls to us──▶ wanted ──what is committed is known──▶ read ──it falls to another──▶ not ours
                                    └─somebody else set the offset─▶ unnamed ──its name is committed──▶ read
                                             read ──the log is shorter──▶ unnamed

Invariants, besides those of `retrying.py`:
- A batch is sent only when it was read, so it is in the log, and whoever comes next reads it too.
- What is committed is confirmed: everything before the offset, and what the note names behind it.
- A log that gets its name here, not from its first record, is sent under it only when the name is committed.
- What was sent under a name is sent under it until it is confirmed, or what Kafka still has of it is read again under
  another name that is committed. No watermark of the first name passes that.
- Nothing else about a partition is known to one connection point alone. So two that see to the same one send the same
  batches under the same numbers, each with a watermark that is true, and one that is too late harms nobody.
"""

from collections.abc import Collection, Iterable

import msgspec

from braid.config import Ingress
from braid.messages import Hop, Send
from braid.standing_in import log_name, owner_of
from services.connpoint.committed import Committed, ranges_between
from services.connpoint.retrying import Batch, Origin, RetryLoop

_COMMIT_AGAIN_S = 3600.0  # Kafka forgets what nobody repeats for days (offsets.retention.minutes)


class Logged(msgspec.Struct, array_like=True):
    """The value of a record: one batch. Its key is the publisher, in eight bytes."""

    publisher: int
    contents: list[bytes]
    accepted_s: float
    hops: list[Hop] | None = None


class Record(msgspec.Struct, frozen=True):
    offset: int
    written_ms: int
    value: bytes | None


_decode = msgspec.msgpack.Decoder(Logged).decode


class _LogOrigin(Origin):
    """One name of a log."""

    is_held = False  # its watermark stays where it is

    def advance(self) -> None:
        if not self.is_held:
            super().advance()


class _Partition:
    """One that is ours."""

    def __init__(self, claim: int) -> None:
        self.claim = claim  # each time a partition falls to us is another one
        self.position: int | None = None  # the next offset to read; None until what is committed is known
        self.log: int | None = None
        self.is_named = True  # else its name has to be committed before anything is sent
        self.origin: _LogOrigin | None = None  # None until there is something
        self.before: list[_LogOrigin] = []  # under names that it had: what Kafka has lost of it, and is not confirmed
        self.read_again: list[int] = []  # of the last of these, what Kafka still has; until the next name is committed
        self.first_attempt = 0
        self.confirmed: set[int] = set()  # what somebody before us saw confirmed behind the committed offset
        self.confirmed_until = 0  # behind the last of these
        self.committed: Committed | None = None
        self.committed_s = 0.0

    def set_confirmed(self, offsets: set[int]) -> None:
        self.confirmed, self.confirmed_until = offsets, max(offsets, default=-1) + 1


class PartitionsCore(RetryLoop):
    def __init__(self, name: str, partitions: int, settings: Ingress) -> None:
        super().__init__(settings)
        self._name = name
        self._partitions = partitions
        self._ours: dict[int, _Partition] = {}
        self._claims = 0
        self.missing = 0  # records that were gone before they were read
        self.unreadable = 0

    @property
    def is_full(self) -> bool:
        return not self.has_room(1, 1)

    # Whose it is

    def on_connpoints(self, registered: Collection[str]) -> list[int]:
        """Those that are registered; none when this one is not. Returns the partitions that fell to us."""
        ours = {
            partition
            for partition in range(self._partitions)
            if self._name in registered and owner_of(log_name(partition), registered) == self._name
        }
        for partition in [partition for partition in self._ours if partition not in ours]:
            self._leave(self._ours.pop(partition))
        new = sorted(ours - self._ours.keys())
        for partition in new:
            self._claims += 1
            self._ours[partition] = _Partition(self._claims)
        return new

    def claims(self) -> dict[int, int]:
        """Every partition that is ours, with the number of the claim: what was read under another is not."""
        return {partition: one.claim for partition, one in self._ours.items()}

    def wanted(self) -> list[int]:
        """Those of which it is not known yet what is committed."""
        return sorted(partition for partition, one in self._ours.items() if one.position is None)

    def positions(self) -> dict[int, int]:
        """The next offset to read of each partition that is ours."""
        return {partition: one.position for partition, one in self._ours.items() if one.position is not None}

    def on_committed(self, partition: int, committed: Committed | None, begins: int, now_s: float) -> None:
        """Where to go on; without anything committed, where the log begins."""
        one = self._ours.get(partition)
        if one is None or one.position is not None:
            return
        one.first_attempt = int(now_s * 1000)  # attempts of two that see to the same partition are not mixed
        if committed is None:
            one.position = begins
            return
        one.position = committed.offset
        if committed.log is None:
            self._name_anew(one, now_s)  # whoever set the offset wants what follows to be taken for new, each time
            return
        one.log = committed.log
        one.committed, one.committed_s = committed, now_s
        one.set_confirmed({offset for first, last in committed.confirmed for offset in range(first, last + 1)})

    def position(self, partition: int) -> int | None:
        one = self._ours.get(partition)
        return None if one is None else one.position

    def on_lost(self, partition: int, begins: int, ends: int, first_ms: int | None, now_s: float) -> None:
        """The next record is not there: it was deleted before it was read, or the log is shorter than it was."""
        one = self._ours.get(partition)
        if one is None or one.position is None:
            return
        if ends >= _known_until(one):
            self.missing += max(0, begins - one.position)
            one.position = max(begins, one.position)
            one.read_again = [sequence for sequence in one.read_again if sequence > begins]
            return
        self._set_aside(one)
        if _is_cut_off(one, begins, first_ms):
            there = range(begins, ends)
            one.position = max(begins, min(one.position, ends))
        else:
            there = range(0)
            one.position = begins
        one.set_confirmed({offset for offset in one.confirmed if offset >= one.position and offset in there})
        one.read_again = [sequence for sequence in one.read_again if sequence - 1 in there]
        one.committed = None
        self._name_anew(one, now_s)

    def _set_aside(self, one: _Partition) -> None:
        """What was sent and is not confirmed goes on under the name that it has. What Kafka has no more, as long as the
        partition is ours, since nobody else can send it; the rest until `_leave_before`.
        """
        origin, one.origin = one.origin, None
        if origin is None:
            return
        assert one.position is not None
        one.confirmed |= {o for o in range(origin.watermark, one.position) if o + 1 not in origin.pending}
        one.position, one.read_again = origin.watermark, list(origin.pending)
        one.before.append(origin)
        self._close(origin)

    def _leave_before(self, one: _Partition) -> None:
        """The next name is committed: what Kafka still has is read again under it, but for what is confirmed by now."""
        for sequence in one.read_again:
            origin = one.before[-1]
            if self._drop(origin, sequence) is None:
                one.confirmed.add(sequence - 1)
            else:
                origin.is_held = True  # whoever has not heard of the next name sends this one under the old name
        one.set_confirmed(one.confirmed)
        one.read_again = []
        for origin in one.before:
            self._close(origin)
        one.before = [origin for origin in one.before if origin.pending]

    def _close(self, origin: Origin) -> None:
        origin.is_open = False
        if not origin.pending:
            self._origins.pop(origin.name, None)

    def _name_anew(self, one: _Partition, now_s: float) -> None:
        """By the time: numbers are given again that were given before, and must not be taken for those."""
        one.log, one.is_named = max(int(now_s * 1000), (one.log or 0) + 1), False

    def to_name(self) -> dict[int, Committed]:
        """What has to be committed before anything is sent of these partitions; `on_named` says when it is."""
        found = {}
        for partition, one in self._ours.items():
            if not one.is_named and one.position is not None:
                unconfirmed = (o for o in range(one.position, one.confirmed_until) if o not in one.confirmed)
                ranges = ranges_between(unconfirmed, one.position, one.confirmed_until)
                found[partition] = Committed(one.position, one.log, ranges)
        return found

    def on_named(self, written: dict[int, Committed], now_s: float) -> None:
        for partition, committed in written.items():
            one = self._ours.get(partition)
            if one is not None and one.log == committed.log:
                self._leave_before(one)
                one.is_named, one.committed, one.committed_s = True, committed, now_s

    def _leave(self, one: _Partition) -> None:
        """Whoever sees to it now reads from what is committed."""
        for origin in (*one.before, one.origin):
            if origin is not None:
                self._forget(origin)

    def _forget(self, origin: Origin) -> None:
        for sequence in list(origin.pending):
            self._drop(origin, sequence)
        self._origins.pop(origin.name, None)

    # What is in it

    def on_records(self, partition: int, records: Iterable[Record], now_s: float, now_ns: int) -> list[Send]:
        """In the order of their offsets; the caller has asked `is_full`, and that the claim is still the same."""
        one = self._ours[partition]
        sends: list[Send] = []
        for record in records:
            assert one.position is not None
            assert record.offset >= one.position, "read twice"
            assert one.is_named, "what is sent must not be sent under another name later"
            origin = self._origin_of(partition, one, record)
            one.position = record.offset + 1
            origin.next_sequence = record.offset + 2
            batch = self._batch_of(one, origin, record)
            if batch is not None:
                self._take(origin, batch)
                sends += self._send_logged(origin, batch, now_s, now_ns)
            elif not origin.pending:
                origin.advance()
        return sends

    def _origin_of(self, partition: int, one: _Partition, record: Record) -> _LogOrigin:
        if one.origin is None:
            assert one.position is not None
            if one.log is None:
                one.log = record.written_ms
            name = f"{log_name(partition)}.{one.log:x}"
            one.origin = self._origins[name] = _LogOrigin(name, one.position + 1, is_open=True)
        return one.origin

    def _batch_of(self, one: _Partition, origin: Origin, record: Record) -> Batch | None:
        """None when there is nothing to be sent."""
        if record.offset in one.confirmed:
            one.confirmed.discard(record.offset)
            return None
        try:
            logged = _decode(record.value or b"")
        except msgspec.MsgspecError:
            self.unreadable += 1
            return None
        return Batch(
            origin.name,
            record.offset + 1,
            logged.publisher,
            logged.contents,
            sum(map(len, logged.contents)),
            logged.accepted_s,
            first_attempt=one.first_attempt,
            hops=logged.hops,
        )

    # What is confirmed

    def to_commit(self, now_s: float) -> dict[int, Committed]:
        """What is not written down yet; `on_commit` says when it is."""
        found = {}
        for partition, one in self._ours.items():
            now = self._committable(one)
            if now is not None and (now != one.committed or now_s - one.committed_s >= _COMMIT_AGAIN_S):
                found[partition] = now
        return found

    def on_commit(self, written: dict[int, Committed], now_s: float) -> None:
        for partition, committed in written.items():
            one = self._ours.get(partition)
            if one is not None and one.is_named and one.log == committed.log:
                one.committed, one.committed_s = committed, now_s

    def committed(self) -> set[int]:
        """Those of which something was written down, as far as is known here."""
        return {partition for partition, one in self._ours.items() if one.committed is not None}

    def on_forgotten(self, partition: int, ends: int) -> None:
        """What was written down is gone: it is written down again, unless it is of a log that is gone, too."""
        one = self._ours.get(partition)
        if one is not None and one.position is not None and one.position <= ends:
            one.committed_s = -_COMMIT_AGAIN_S

    def _committable(self, one: _Partition) -> Committed | None:
        """The sequence of the watermark is the offset behind it."""
        origin = one.origin
        if origin is None or one.position is None or one.position < one.confirmed_until:
            return one.committed  # nothing new, or the note knows more than we do
        offset = origin.watermark
        pending = (sequence - 1 for sequence in origin.pending)
        behind = ranges_between(pending, offset, origin.next_sequence - 1) if origin.pending else ()
        return Committed(offset, one.log, behind)


def _known_until(one: _Partition) -> int:
    """Behind the last offset that has been in the log for sure."""
    assert one.position is not None
    return max(one.position, one.confirmed_until, *one.read_again)  # a sequence is its offset plus one


def _is_cut_off(one: _Partition, begins: int, first_ms: int | None) -> bool:
    """Whether a log that is shorter than what was read of it is the same one, and not one that was made anew.

    That would begin at 0, with a record that was written after this one got its name.
    """
    return begins > 0 or (first_ms is not None and one.log is not None and first_ms <= one.log)
