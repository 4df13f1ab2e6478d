"""What waits for topics of Kafka, on disk: a line of blocks for each topic, and what was received shortly before.

| key                    | value                                                                        |
|------------------------|------------------------------------------------------------------------------|
| `i`                    | the name of this outbox, made when it was: positions in Kafka are told by it |
| `e/TOPIC/NUMBER/COUNT` | a block; the number of its first entry, and how many it has                  |
| `n/TOPIC`              | the last number that was given                                               |
| `s/ORIGIN/SEQUENCE`    | what was received, see `seen.py`                                             |

Entries and the batch that they came with are written together, so that a batch that comes again is known, also behind a
crash. Numbers have 16 hexadecimal digits. Those of a topic grow, without gaps within a block. A line begins at the
time, so that they grow also where the disk was set back: what was written to it last before a power cut may be gone
from it, and be in Kafka.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from braid.config import Ingress
from braid.leveldb import GroupCommit, Pair
from services.connpoint.delivery import Addressed
from services.connpoint.sinks.entries import Block, Entry, decode_block, encode_block, in_blocks
from services.connpoint.sinks.seen import PREFIX as SEEN
from services.connpoint.sinks.seen import Seen, pairs_of
from services.connpoint.unconfirmed import Batch

_NAME, _BLOCK, _LAST = b"i", b"e/", b"n/"
_NUMBERS_PER_MS = 1 << 20  # more than can be given in that time


class Line:
    """What waits for one topic, as far as it is written."""

    def __init__(self, last: int, now_ms: int) -> None:
        self.last = max(last, now_ms * _NUMBERS_PER_MS)  # the last number that was given
        self.first = self.last + 1  # nothing waits before it
        self.waiting = 0  # entries
        self.bytes = 0


class Page(msgspec.Struct, frozen=True):
    """Blocks that wait, the first ones."""

    blocks: list[tuple[int, Block]]  # with the number of their first entry
    keys: list[bytes]
    bytes: int

    @property
    def count(self) -> int:
        return sum(len(block.entries) for _, block in self.blocks)

    @property
    def last(self) -> int:
        number, block = self.blocks[-1]
        return number + len(block.entries) - 1


class SinkOutbox:
    def __init__(self, path: Path, settings: Ingress, clock: Callable[[], float] = time.time) -> None:
        # What it keeps has left the ingress log, so it is as safe as that.
        self._database = GroupCommit(path, settings.fsync, settings.fsync_interval_s)
        self._clock = clock
        self.name = ""
        self.lines: dict[str, Line] = {}
        self.seen = Seen()
        self._appending: set[str] = set()  # topics of what is being written

    async def open(self) -> None:
        await self._database.open()
        found = dict(await self._database.read_all(_NAME))
        self.name = found.get(_NAME, uuid.uuid4().hex.encode()).decode()
        if not found:
            self._database.queue([(_NAME, self.name.encode())], None)
        now_ms = self._now_ms()
        for key, value in await self._database.read_all(_LAST):
            self.lines[key[len(_LAST) :].decode()] = Line(int(value, 16), now_ms)
        for key, size in await self._database.read_sizes(_BLOCK):
            topic, number, count = _split(key)
            line = self.lines[topic]
            line.first = min(line.first, number)
            line.waiting += count
            line.bytes += size
        self.seen.load(await self._database.read_all(SEEN))

    def line(self, topic: str) -> Line:
        line = self.lines.get(topic)
        if line is None:
            line = self.lines[topic] = Line(0, self._now_ms())
        return line

    def append(
        self,
        entries: Mapping[str, Sequence[Entry]],
        batches: Iterable[Batch],
        given: Iterable[Addressed],
        done: Callable[[Exception | None], None],
    ) -> None:
        """By topic. One call at a time: numbers are given when it is written."""
        now_ms = self._now_ms()
        lasts: dict[str, int] = {}
        sizes: dict[str, int] = {}
        operations: list[Pair] = []
        for topic, of_topic in entries.items():
            last, size = self.line(topic).last, 0
            for block in in_blocks(of_topic, now_ms):
                encoded = encode_block(block)
                operations.append((_key(topic, last + 1, len(block.entries)), encoded))
                last += len(block.entries)
                size += len(encoded)
            operations.append((_LAST + topic.encode(), b"%x" % last))
            lasts[topic], sizes[topic] = last, size
        notes = self.seen.merged(batches, given)
        operations += pairs_of(notes)

        self._appending = set(lasts)

        def written(failure: Exception | None) -> None:
            self._appending = set()
            if failure is None:
                for topic, last in lasts.items():
                    line = self.lines[topic]
                    line.waiting += last - line.last
                    line.last = last
                    line.bytes += sizes[topic]
                self._database.queue(self.seen.note(notes), None)
            done(failure)

        self._database.queue(operations, written)

    async def read(self, topic: str, blocks_max: int, bytes_max: int) -> Page:
        """The first ones that wait."""
        line = self.lines[topic]
        start, stop = _key(topic, line.first, 0), _key(topic, line.last + 1, 0)
        found = await self._database.read_some(start, stop, blocks_max, bytes_max)
        blocks = [(_split(key)[1], decode_block(value)) for key, value in found]
        return Page(blocks, [key for key, _ in found], sum(len(value) for _, value in found))

    def forget(self, topic: str, page: Page) -> None:
        """What was read last."""
        line = self.lines[topic]
        assert page.blocks[0][0] >= line.first, "it was forgotten before"
        line.first = page.last + 1
        line.waiting -= page.count
        line.bytes -= page.bytes
        self._database.queue([(key, None) for key in page.keys], None)

    def is_empty(self, topic: str) -> bool:
        """Nothing waits for it, and nothing is being written that would."""
        line = self.lines.get(topic)
        return topic not in self._appending and (line is None or not line.waiting)

    def close_line(self, topic: str) -> None:
        """One that is empty. One that begins later begins behind it, because time goes on."""
        assert self.is_empty(topic), "something waits"
        if self.lines.pop(topic, None) is not None:
            self._database.queue([(_LAST + topic.encode(), None)], None)

    def forget_seen(self, watermark_of: Callable[[str], int]) -> None:
        self._database.queue(self.seen.forget(watermark_of), None)

    def flush(self) -> None:
        self._database.flush()

    async def close(self) -> None:
        await self._database.close()

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _key(topic: str, number: int, count: int) -> bytes:
    return b"%b%b/%016x/%04x" % (_BLOCK, topic.encode(), number, count)


def _split(key: bytes) -> tuple[str, int, int]:
    topic, number, count = key[len(_BLOCK) :].decode().rsplit("/", 2)
    return topic, int(number, 16), int(count, 16)
