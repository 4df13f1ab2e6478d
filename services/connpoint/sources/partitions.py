"""The retry loop over partitions of source topics: the topic is the log, and nothing of it is written down again.

Kafka numbers the records, so nobody else has to: the origin of a batch is its partition, the sequence the offset of its
first record plus one. Who reads a partition is the business of Kafka's consumer group.

A partition's way here, and a cut's (one batch of it):

    not ours ──assigned──▶ ours ──revoked──▶ not ours
    ours ──the log is shorter──▶ ours, under another name ──its first note──▶ the old name keeps what is gone
    wanted (an earlier reader noted it) ──its records are read──▶ noted ──sent──▶ unconfirmed ──▶ confirmed
    new ──committed in a note──▶ noted

Invariants, besides those of `retrying.py`:
- A batch is sent only when the note that says where it begins and ends is committed. Kafka takes no note from somebody
  who has lost the partition. So whoever sends a batch of a partition, ever, sends the same one under the same number.
- Cuts are without gaps from the committed offset on; everything before that is confirmed.
- Of a partition whose dead letters are not written (it is held) nothing is committed, sent or read.
- What was sent under a name stays there until it is confirmed, or what takes its place is noted under another name.
- What is read and not confirmed is bounded by the window, by the cuts that a note has room for, and by one poll.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from braid.config import Ingress
from braid.messages import Send
from braid.selector import hash64
from braid.source_logs import source_log
from services.connpoint.retrying import Batch, Origin, RetryLoop
from services.connpoint.sources.notes import BATCHES_MAX, Cut, Note

_BATCH_MAX = 200  # as of any publisher: so that others get their turn
_BATCH_BYTES_MAX = 1024 * 1024


class Partition(NamedTuple):
    topic: str
    number: int

    @property
    def log_name(self) -> str:
        return source_log(self.topic, self.number)


class Read(msgspec.Struct, frozen=True, gc=False):
    """A record that was read; without content when it cannot be published."""

    offset: int
    content: bytes | None


class _Cut(msgspec.Struct, eq=False):
    first: int
    span: int
    accepted_ms: int
    is_noted: bool
    is_sent: bool = False
    contents: list[bytes] = []  # between read and sent

    @property
    def end(self) -> int:
        return self.first + self.span


class _SparseOrigin(Origin):
    """Sequences are far apart: a batch spans many offsets, and of a compacted topic millions may be missing."""

    def advance(self) -> None:
        """In one step, wherever the next unconfirmed one is. There are no more of them than a note has room for."""
        self.watermark = next(iter(self.pending), self.next_sequence) - 1


class _Partition:
    """One that is ours."""

    def __init__(self, partition: Partition, note: Note, log: int, now_s: float) -> None:
        self.publisher = hash64(partition.log_name)
        self.log = log
        self.origin: Origin = _SparseOrigin(f"{partition.log_name}.{log:x}", note.offset + 1, is_open=True)
        self.before: Origin | None = None  # of a log that was found shorter, until the first note of this one
        self.read_again: list[_Cut] = []  # of that one
        self.first_attempt = int(now_s * 1000)  # attempts of two that have the same partition are not mixed
        self.position = note.offset  # the next offset that is not in a cut
        self.cuts: deque[_Cut] = deque()  # from the committed offset on
        for cut in note.cuts:
            self.cuts.append(_Cut(self.position, cut.span, cut.accepted_ms, is_noted=True))
            self.position += cut.span
        self.wanted = deque(self.cuts)  # whose records are not all here yet
        self.unsent: deque[_Cut] = deque()
        self.read: deque[Read] = deque()  # and not in a cut yet
        self.read_to = note.offset  # the next offset that is not read
        self.committed: Note | None = None
        self.committed_s = now_s

    def forget_confirmed(self) -> None:
        while self.cuts and self.cuts[0].is_sent and self.cuts[0].first + 1 not in self.origin.pending:
            self.cuts.popleft()

    def note(self) -> Note:
        self.forget_confirmed()
        offset = self.cuts[0].first if self.cuts else self.position
        return Note(offset, self.log, tuple([Cut(cut.span, cut.accepted_ms) for cut in self.cuts]))


class SourceCore(RetryLoop):
    def __init__(self, settings: Ingress) -> None:
        super().__init__(settings)
        self._ours: dict[Partition, _Partition] = {}
        self.lost = 0  # records that were deleted before they were read

    # Whose it is

    @property
    def ours(self) -> list[Partition]:
        return list(self._ours)

    def on_assigned(self, partition: Partition, note: Note, now_s: float) -> int:
        """The note that is committed, or one without a log. Returns the offset to read from."""
        self.on_revoked([partition])
        log = int(now_s * 1000) if note.log is None else note.log
        self._own(partition, _Partition(partition, note, log, now_s))
        return self._ours[partition].read_to

    def on_revoked(self, partitions: Iterable[Partition]) -> None:
        """Whoever has them now reads from what is committed, and sends the same."""
        for partition in partitions:
            one = self._ours.pop(partition, None)
            if one is not None:
                self._forget(one.origin)

    def _own(self, partition: Partition, one: _Partition) -> None:
        left = self._origins.get(one.origin.name)
        if left is not None and left.next_sequence <= one.position + 1:
            self._take_up(one, left)
        elif left is not None:
            self._forget(left)  # Kafka has forgotten what was noted: what is read is cut anew
        self._ours[partition] = one
        self._origins[one.origin.name] = one.origin

    def _take_up(self, one: _Partition, left: Origin) -> None:
        """Its log was found shorter, and the note of the name that should follow was not committed: it goes on under
        the one it had. What was sent from here is not read again, it is here or confirmed.
        """
        for sequence in [sequence for sequence in left.pending if sequence <= one.read_to]:
            self._drop(left, sequence)
        for batch in left.pending.values():
            batch.first_attempt = one.first_attempt
        left.is_open, one.origin = True, left
        left.next_sequence = max(left.next_sequence, one.read_to + 1)
        left.advance()
        while one.wanted and one.wanted[0].end < left.next_sequence:
            cut = one.wanted.popleft()
            cut.is_sent, one.read_to = True, cut.end

    def _forget(self, origin: Origin) -> None:
        for sequence in list(origin.pending):
            self._drop(origin, sequence)
        del self._origins[origin.name]

    def read_to(self, partition: Partition) -> int:
        """The next offset that is not read."""
        return self._ours[partition].read_to

    def on_out_of_range(self, partition: Partition, begins: int, ends: int, now_s: float) -> int:
        """The next record is not there: it was deleted before it was read, or the log is shorter than it was.

        Then its numbers are given again, under another name. One that begins behind 0 has lost its tail, and goes on
        with what is left of it and not confirmed; one that begins at 0 may have been made anew. Returns the offset to
        read from. What was sent before is sent until it is confirmed.
        """
        one = self._ours[partition]
        if one.read_to > ends:
            return self._begin_another(partition, one, begins, ends, now_s)
        self.lost += max(0, begins - one.read_to)
        one.read_to = max(begins, one.read_to)
        self._cut(one, now_s)
        return one.read_to

    def _begin_another(self, partition: Partition, one: _Partition, begins: int, ends: int, now_s: float) -> int:
        """What is read again stays under the old name until the new one is noted: else whoever finds the old note would
        take it for confirmed, and so would exit points, by the watermark.
        """
        log = max(int(now_s * 1000), one.log + 1)
        first = max(begins, min(one.note().offset, ends)) if begins else 0
        another = _Partition(partition, Note(first), log, now_s)
        if begins:
            cuts = one.cuts if one.before is None else one.read_again  # of whoever has sent something
            another.read_again = [cut for cut in cuts if begins <= cut.first and cut.end <= ends]
        another.before = one.before or one.origin
        self._close(one.origin)
        self._own(partition, another)
        return first

    def _close(self, origin: Origin) -> None:
        origin.is_open = False
        if not origin.pending:
            self._origins.pop(origin.name, None)

    def _leave_before(self, one: _Partition) -> None:
        """It is noted: what is read again is not sent under the old name any more."""
        before, one.before = one.before, None
        if before is not None:
            for cut in one.read_again:
                self._drop(before, cut.first + 1)
            one.read_again = []
            self._close(before)

    def offsets(self) -> dict[Partition, int]:
        """Of each partition, the first offset that is not confirmed."""
        return {partition: one.note().offset for partition, one in self._ours.items()}

    # What is in it

    def readable(self, held: Collection[Partition] = ()) -> list[Partition]:
        """Those of which more may be read now; `held` are those whose dead letters are not written."""
        if not self.has_room(1, 1):
            return []
        return [
            partition
            for partition, one in self._ours.items()
            if partition not in held and len(one.cuts) - len(one.wanted) < BATCHES_MAX // 2
        ]

    def awaited(self) -> list[Partition]:
        """Those with a cut whose records are not all here; perhaps they are gone."""
        return [partition for partition, one in self._ours.items() if one.wanted]

    def on_read(self, partition: Partition, read: Iterable[Read], position: int, now_s: float) -> None:
        """In the order of offsets. `position` is the next one to be read; records may be missing before it."""
        one = self._ours[partition]
        one.read.extend(read)
        one.read_to = max(one.read_to, position)
        self._cut(one, now_s)

    def _cut(self, one: _Partition, now_s: float) -> None:
        while one.wanted and one.read_to >= one.wanted[0].end:
            cut = one.wanted.popleft()
            cut.contents = list(_taken(one.read, cut.end))
            one.unsent.append(cut)
        if one.wanted:
            return
        one.forget_confirmed()
        accepted_ms = int(now_s * 1000)
        while one.read and len(one.cuts) < BATCHES_MAX:
            end = _end_of_batch(one.read)
            contents = list(_taken(one.read, end))
            if not one.read:
                end = one.read_to  # nothing is missing before it
            cut = _Cut(one.position, end - one.position, accepted_ms, is_noted=False, contents=contents)
            one.position = end
            one.cuts.append(cut)
            one.unsent.append(cut)
        if not one.cuts:
            one.position = max(one.position, one.read_to)

    # What is noted

    def to_note(self, now_s: float, patience_s: float, held: Collection[Partition] = ()) -> dict[Partition, Note]:
        """What has to be committed before more can be sent; what is confirmed goes along, or has some patience.

        Of those that are held nothing is committed: a dead letter comes before the offset of its record.
        """
        found = {}
        for partition, one in self._ours.items():
            if partition in held:
                continue
            self._cut(one, now_s)
            note = one.note()
            is_urgent = bool(one.unsent) and not one.unsent[-1].is_noted
            if is_urgent or (note != one.committed and now_s - one.committed_s >= patience_s):
                found[partition] = note
        return found

    def on_noted(self, notes: dict[Partition, Note], now_s: float) -> None:
        """They are committed."""
        for partition, note in notes.items():
            one = self._ours.get(partition)
            if one is None or one.log != note.log:
                continue
            self._leave_before(one)
            one.committed, one.committed_s = note, now_s
            end = note.offset + sum(cut.span for cut in note.cuts)
            for cut in one.unsent:
                cut.is_noted = cut.is_noted or cut.end <= end

    def to_send(self, now_s: float, now_ns: int, held: Collection[Partition] = ()) -> list[Send]:
        """Whatever is noted, in its order."""
        sends: list[Send] = []
        for partition, one in self._ours.items():
            while partition not in held and one.unsent and one.unsent[0].is_noted:
                sends += self._enter(one, one.unsent.popleft(), now_s, now_ns)
        return sends

    def _enter(self, one: _Partition, cut: _Cut, now_s: float, now_ns: int) -> list[Send]:
        origin, contents = one.origin, cut.contents
        cut.contents, cut.is_sent = [], True
        if not contents:
            origin.next_sequence = cut.end + 1
            origin.advance()
            return []
        size = sum(map(len, contents))
        batch = Batch(origin.name, cut.first + 1, one.publisher, contents, size, cut.accepted_ms / 1000)
        batch.first_attempt = one.first_attempt
        self._take(origin, batch)
        origin.next_sequence = cut.end + 1
        origin.advance()
        return self._send_logged(origin, batch, now_s, now_ns)


def _taken(read: deque[Read], end: int) -> Iterator[bytes]:
    while read and read[0].offset < end:
        content = read.popleft().content
        if content is not None:
            yield content


def _end_of_batch(read: deque[Read]) -> int:
    """Behind the last record of the next batch; one record may be larger than a batch should be."""
    size, end = 0, read[0].offset
    for count, one in enumerate(read):
        size += len(one.content or b"")
        if count == _BATCH_MAX or (count and size > _BATCH_BYTES_MAX):
            break
        end = one.offset + 1
    return end
