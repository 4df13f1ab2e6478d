"""One batch of publications through the engine, and through Python where the engine leaves something open."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from braid.content import DECODE_ERRORS
from braid.matching.chains import Attributes, Position
from braid.matching.checking import Checks
from braid.matching.engine import searching
from braid.matching.engine.memory import CARRIED, EVENTS, FACTS, INPUT, MATCHED, PENDING, Memory
from braid.matching.engine.programs import MEMBER_SHIFT
from braid.matching.engine.reading import EVENT, FACTS_END, MATCHED_END, PENDING_END, STATUS, UNUSUAL, read_batch
from braid.matching.engine.reporting import PENDING_WORDS
from braid.matching.previous import PreviousPublications, Published, read_published
from braid.matching.publications import ExtraKeys, in_canonical_form
from braid.matching.relations import Relations

AT_ONCE = 1024  # publications that are read before they are searched for
BYTES_AT_ONCE = 8 * 1024 * 1024
CONTENT_BYTES_MAX = 1024 * 1024  # what is longer is taken to be unreadable; connection points accept less
_SPARE = b'"' * 16  # behind what is read: every search for the end of a string stops there
_WORD_BYTES, _FACT_BYTES = 8, 16
_UNREADABLE = b"!"  # stands in a batch for what is no publication
_READ_ERRORS = (*DECODE_ERRORS, ValueError, KeyError, TypeError)

Integers = np.ndarray[Any, np.dtype[np.int64]]


def chunks(contents: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Parts of a batch that the engine takes at once."""
    sizes = list(map(len, contents))
    if len(sizes) <= AT_ONCE and sum(sizes) <= BYTES_AT_ONCE and max(sizes, default=0) <= CONTENT_BYTES_MAX:
        if contents:
            yield list(contents)
        return
    chunk: list[bytes] = []
    size = 0
    for content in contents:
        readable = content if len(content) <= CONTENT_BYTES_MAX else _UNREADABLE
        if len(chunk) == AT_ONCE or (chunk and size + len(readable) > BYTES_AT_ONCE):
            yield chunk
            chunk, size = [], 0
        chunk.append(readable)
        size += len(readable)
    if chunk:
        yield chunk


class Search:
    def __init__(
        self,
        memory: Memory,
        extra_keys: ExtraKeys,
        checks: Checks,
        previous: PreviousPublications,
        relations: Relations,
    ) -> None:
        self._memory = memory
        self._input = memory.buffer(INPUT)
        self._extra_keys = extra_keys
        self._checks = checks
        self._previous = previous
        self._relations = relations

    def search(
        self, contents: list[bytes], now_s: float, now: bytes, remember: bool, positions: Sequence[Position] | None
    ) -> tuple[Integers, Integers, int]:
        """Where the matches of each content end, the numbers of the subscriptions, and how many are unreadable."""
        try:
            return self._search(contents, now_s, now, remember, positions)
        except _READ_ERRORS:
            # The engine looks only at what it needs. Where Python then finds something that no connection point would
            # have written, all are written anew, and what cannot be is left out.
            written = [in_canonical_form(content) or _UNREADABLE for content in contents]
            return self._search(written, now_s, now, remember, positions)

    def _search(
        self, contents: list[bytes], now_s: float, now: bytes, remember: bool, positions: Sequence[Position] | None
    ) -> tuple[Integers, Integers, int]:
        parts: list[tuple[Integers, Integers]] = []
        batch = self._batch(contents, positions)
        first, total, unreadable = 0, 0, 0
        while first < len(contents):
            read = self._read(batch, first, now)
            events = self._memory.view(EVENTS, (read - first) * EVENT).reshape(-1, EVENT)
            unusual = np.flatnonzero(events[:, STATUS] == UNUSUAL)
            if unusual.size:
                respelled = _respelled(batch.contents, unusual + first)
                if respelled != batch.contents:
                    batch = self._batch(respelled, positions)
                    continue
                unreadable += unusual.size
            extra_ends, extra = self._extra_keys.of(events, batch.joined, int(self._memory.addresses[INPUT]))
            searching.resolve(self._memory.addresses, read - first)
            searched = 0
            while searched < read - first:
                begun = searched
                searched = searching.search(
                    self._memory.addresses, begun, read - first, extra_ends, extra, now_s, int(remember)
                )
                ends, numbers = self._collect(batch, events, first, begun, searched)
                parts.append((ends + total, numbers))
                total += len(numbers)
            self._give_back(events)
            first = read
        if remember and self._checks.looked_back_to:
            self._previous.remember(batch.published(), self._checks.looked_back_to, positions)
        return np.concatenate([ends for ends, _ in parts]), np.concatenate([found for _, found in parts]), unreadable

    def _batch(self, contents: list[bytes], positions: Sequence[Position] | None) -> "_Batch":
        return _Batch(contents, positions, self._previous, self._relations)

    def _give_back(self, events: Integers) -> None:
        """What a few unusual publications needed much of must not stay for good."""
        facts, pairs = int(events[-1, FACTS_END]), int(events[:, PENDING_END].max())
        self._memory.give_back(FACTS, facts * _FACT_BYTES)
        self._memory.give_back(CARRIED, facts * _WORD_BYTES)
        self._memory.give_back(MATCHED, int(events[:, MATCHED_END].max()) * _WORD_BYTES)
        self._memory.give_back(PENDING, pairs * PENDING_WORDS * _WORD_BYTES)

    def _read(self, batch: "_Batch", first: int, now: bytes) -> int:
        size = len(batch.joined)
        self._input[:size] = batch.joined
        self._input[size : size + len(_SPARE)] = _SPARE
        size += len(_SPARE)
        self._input[size : size + len(now)] = now
        start = int(self._memory.addresses[INPUT])
        return read_batch(self._memory.addresses, start, batch.ends, first, len(batch.ends), start + size)

    def _collect(
        self, batch: "_Batch", events: Integers, first: int, begun: int, searched: int
    ) -> tuple[Integers, Integers]:
        """What the engine found, and of what it left open that which matches too."""
        ends = events[begun:searched, MATCHED_END].copy()
        numbers = self._memory.view(MATCHED, int(ends[-1])).copy()
        left = int(events[searched - 1, PENDING_END])
        if not left:
            return ends, numbers
        pairs = self._memory.view(PENDING, left * PENDING_WORDS).reshape(-1, PENDING_WORDS).copy()
        before = batch.before() if self._checks.looked_back_to else None
        matching = self._checks.settle(pairs[:, 0] + first, pairs[:, 1], batch.contents, before)
        pairs = pairs[matching]
        owners = np.concatenate((np.repeat(np.arange(begun, searched), np.diff(ends, prepend=0)), pairs[:, 0]))
        numbers = np.concatenate((numbers, pairs[:, 1] >> MEMBER_SHIFT))
        counted = np.bincount(owners - begun, minlength=searched - begun)
        return np.cumsum(counted, dtype=np.int64), numbers[np.argsort(owners, kind="stable")]


class _Batch:
    """`joined` is what the engine reads: the contents, with what relates them to those before."""

    def __init__(
        self,
        contents: list[bytes],
        positions: Sequence[Position] | None,
        previous: PreviousPublications,
        relations: Relations,
    ) -> None:
        self.contents = contents
        self._positions = positions
        self._previous = previous
        self._published: list[Published] | None = None
        self._before: list[Attributes | None] | None = None
        read = self._related(relations) if relations else contents
        self.joined = b"".join(read)
        self.ends: Integers = np.cumsum(np.fromiter(map(len, read), dtype=np.int64, count=len(read)))

    def published(self) -> list[Published]:
        if self._published is None:
            self._published = [
                Published() if content == _UNREADABLE else read_published(content) for content in self.contents
            ]
        return self._published

    def before(self) -> list[Attributes | None]:
        """What came before each; nothing of the batch itself is remembered yet."""
        if self._before is None:
            self._before = self._previous.before_each(self.published(), self._positions)
        return self._before

    def _related(self, relations: Relations) -> list[bytes]:
        return [
            relations.written_into(content, published.attributes, before)
            for content, published, before in zip(self.contents, self.published(), self.before(), strict=True)
        ]


def _respelled(contents: list[bytes], unusual: Integers) -> list[bytes]:
    """The contents with these written as a connection point would."""
    respelled = list(contents)
    for i in unusual.tolist():
        respelled[i] = in_canonical_form(contents[i]) or _UNREADABLE
    return respelled
