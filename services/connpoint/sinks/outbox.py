"""What waits for topics of Kafka, on disk: a line for each topic, and what was received shortly before.

| key               | value                                                                      |
|-------------------|----------------------------------------------------------------------------|
| `i`               | the name of this outbox, made when it was: positions in Kafka are told by it |
| `e/TOPIC/NUMBER`  | an entry; numbers of a topic grow by one                                   |
| `n/TOPIC`         | the last number that was given                                             |
| `s/ORIGIN/SEQUENCE` | a batch of which something was received; until its origin's watermark passes it |

An entry and the batch that it came with are written together, so that a batch that comes again is known, also behind a
crash. Numbers have 16 hexadecimal digits.
"""

import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from braid.config import Ingress
from braid.leveldb import GroupCommit, Pair

SEEN_MAX = 200_000  # batches; beyond it those of the origin that was silent longest are forgotten

_NAME, _ENTRY, _LAST, _SEEN = b"i", b"e/", b"n/", b"s/"


class Line:
    """What waits for one topic, as far as it is written."""

    def __init__(self, last: int = 0) -> None:
        self.last = last  # the last number that was given
        self.first = last + 1  # the first that waits; behind the last when none does
        self.bytes = 0

    @property
    def waiting(self) -> int:
        return self.last + 1 - self.first


class SinkOutbox:
    def __init__(self, path: Path, settings: Ingress) -> None:
        # What it keeps has left the ingress log, so it is as safe as that.
        self._database = GroupCommit(path, settings.fsync, settings.fsync_interval_s)
        self.name = ""
        self.lines: dict[str, Line] = {}
        self._seen: dict[str, set[int]] = {}

    async def open(self) -> None:
        await self._database.open()
        found = dict(await self._database.read_all(_NAME))
        self.name = found.get(_NAME, uuid.uuid4().hex.encode()).decode()
        if not found:
            self._database.queue([(_NAME, self.name.encode())], None)
        for key, value in await self._database.read_all(_LAST):
            self.lines[key[len(_LAST) :].decode()] = Line(int(value, 16))
        for key, value in await self._database.read_all(_ENTRY):
            topic, number = _split(key, _ENTRY)
            line = self.lines[topic]
            line.first = min(line.first, number)
            line.bytes += len(value)
        for key, _ in await self._database.read_all(_SEEN):
            origin, sequence = _split(key, _SEEN)
            self._seen.setdefault(origin, set()).add(sequence)

    def has_seen(self, origin: str, sequence: int) -> bool:
        return sequence in self._seen.get(origin, ())

    def append(
        self,
        entries: Iterable[tuple[str, bytes]],
        seen: Iterable[tuple[str, int]],
        done: Callable[[Exception | None], None],
    ) -> None:
        """Topics and encoded entries. One call at a time: numbers are given when it is written."""
        lasts: dict[str, int] = {}
        sizes: dict[str, int] = {}
        operations: list[Pair] = []
        for topic, entry in entries:
            if topic not in lasts:
                lasts[topic] = self.lines.setdefault(topic, Line()).last
            lasts[topic] += 1
            sizes[topic] = sizes.get(topic, 0) + len(entry)
            operations.append((_key(_ENTRY, topic, lasts[topic]), entry))
        operations += [(_LAST + topic.encode(), b"%x" % last) for topic, last in lasts.items()]
        batches = set(seen)
        operations += [(_key(_SEEN, origin, sequence), b"") for origin, sequence in batches]

        def written(failure: Exception | None) -> None:
            if failure is None:
                for topic, last in lasts.items():
                    self.lines[topic].last = last
                    self.lines[topic].bytes += sizes[topic]
                self._note_seen(batches)
            done(failure)

        self._database.queue(operations, written)

    def _note_seen(self, batches: Iterable[tuple[str, int]]) -> None:
        for origin, sequence in batches:
            self._seen[origin] = self._seen.pop(origin, set())  # heard of last
            self._seen[origin].add(sequence)
        while sum(map(len, self._seen.values())) > SEEN_MAX:
            origin = next(iter(self._seen))
            self._database.queue([(_key(_SEEN, origin, sequence), None) for sequence in self._seen.pop(origin)], None)

    async def read(self, topic: str, most: int, bytes_max: int) -> list[tuple[int, bytes]]:
        """The first ones that wait, with their numbers."""
        line = self.lines[topic]
        start, stop = _key(_ENTRY, topic, line.first), _key(_ENTRY, topic, line.last + 1)
        found = await self._database.read_some(start, stop, most, bytes_max)
        return [(_split(key, _ENTRY)[1], value) for key, value in found]

    def forget(self, topic: str, sizes: dict[int, int]) -> None:
        """The first ones, by number, with the sizes of what they had."""
        line = self.lines[topic]
        assert min(sizes) == line.first, "not the first ones"
        line.first = max(sizes) + 1
        line.bytes -= sum(sizes.values())
        self._database.queue([(_key(_ENTRY, topic, number), None) for number in sizes], None)

    def forget_seen(self, watermark_of: Callable[[str], int]) -> None:
        """What is confirmed does not come again."""
        for origin, sequences in list(self._seen.items()):
            watermark = watermark_of(origin)
            over = [sequence for sequence in sequences if sequence <= watermark]
            if over:
                self._database.queue([(_key(_SEEN, origin, sequence), None) for sequence in over], None)
                sequences.difference_update(over)
                if not sequences:
                    del self._seen[origin]

    def flush(self) -> None:
        self._database.flush()

    async def close(self) -> None:
        await self._database.close()


def _key(prefix: bytes, name: str, number: int) -> bytes:
    return b"%b%b/%016x" % (prefix, name.encode(), number)


def _split(key: bytes, prefix: bytes) -> tuple[str, int]:
    name, _, number = key[len(prefix) :].decode().rpartition("/")
    return name, int(number, 16)
