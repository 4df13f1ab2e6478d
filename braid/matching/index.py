"""Finds the subscriptions that publications match.

`MatchIndex` is the library: add, remove, match, explain. It joins the compiled engine, which decides nearly
everything, with what is left to Python. One thread at a time may use it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from braid.filters import Value
from braid.instants import format_instant
from braid.matching.changes import Changes
from braid.matching.checking import Checks
from braid.matching.compiling import compile_subscription
from braid.matching.engine import changing, counts, gathering, programs
from braid.matching.engine.hashing import SECRET_WORDS, new_secret
from braid.matching.engine.keys import RECORD as KEY_RECORD
from braid.matching.engine.memory import (
    ATTRIBUTES_MAX,
    COUNTS,
    INPUT,
    KEY_SLOTS,
    KEYS,
    KEYS_MAX,
    MATCHED,
    PROGRAMS_MAX,
    SUBSCRIPTIONS,
    SUBSCRIPTIONS_MAX,
    WORDS,
    WORDS_MAX,
    Memory,
)
from braid.matching.explanation import Explanation
from braid.matching.matches import Matches
from braid.matching.meaning import read_publication
from braid.matching.pair_explanation import explain_pair
from braid.matching.places import Places, uses_of
from braid.matching.previous import PreviousPublications
from braid.matching.publications import ExtraKeys, in_canonical_form
from braid.matching.records import Records
from braid.matching.row_writing import RowWriter
from braid.matching.search import Search, chunks
from braid.subscription import SubscriptionRecord

_END_OF_FILTER = b"\0"  # a number must not run into the next filter
_ADDED_AT_ONCE = 4096
_KEYS_BESIDES_FILTER = 256  # words, nodes of topics and tiles of one subscription, and anchors split for it
_MARGIN = 1 << 18
_PROGRAMS_PER_KEY = 4  # what a subscription may have more than that, the table of programs has room for
_WORDS_PER_CHANGE = 1 << 26  # of the pool, at most

Integers = np.ndarray[Any, np.dtype[np.int64]]


class IndexFullError(Exception):
    """The index holds as much as its address space was reserved for."""


class Explained(NamedTuple):
    ids: list[str]
    explanation: Explanation | None


class MatchIndex:
    def __init__(self) -> None:
        self._memory = Memory()
        self._input = self._memory.buffer(INPUT)
        self._counts = self._memory.view(COUNTS, counts.COUNTS_WORDS)
        self._counts[counts.POOL_USED] = 8
        for mask in (counts.KEY_SLOTS_MASK, counts.ATTRIBUTE_SLOTS_MASK, counts.PROGRAM_SLOTS_MASK):
            self._counts[mask] = counts.SLOTS_FIRST
        self._counts[counts.SECRET : counts.SECRET + SECRET_WORDS] = new_secret()
        changing.start(self._memory.addresses)
        self._one = Changes(self._memory, 1)
        self._room = 0
        self._records = Records()
        self._writer = RowWriter(self._memory)
        self._places = Places(self._memory)
        self._extra_keys = ExtraKeys(self._memory, self._writer, self._places)
        self._checks = Checks()
        self._previous = PreviousPublications()
        self._search = Search(self._memory, self._extra_keys, self._checks, self._previous)
        self._homes: dict[str, int] = {}
        self._home_names: list[str] = []

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[SubscriptionRecord]:
        return iter(self._records)

    def ids(self) -> Iterator[str]:
        return self._records.known_ids()

    def walk_ids(self) -> Iterator[str]:
        """The same bit by bit: subscriptions may come and go meanwhile. One that comes may be missing."""
        return self._records.walk_ids()

    def get(self, id: str) -> SubscriptionRecord | None:
        return self._records.get(id)

    def ids_of(self, subscriber: str) -> list[str]:
        return self._records.ids_of(subscriber)

    def add(self, record: SubscriptionRecord) -> None:
        """Adds a subscription, or replaces the one of the same id."""
        self._check_room(1, len(record.filter))
        replaced = record.id in self._records
        if replaced or not self._is_plain(record):
            self._add_compiled(record)
            return
        text = record.filter.encode() + _END_OF_FILTER
        self._input[: len(text)] = text
        one = self._one.set(record, self._records.next_number(), self._home(record.home), len(text))
        if one.change(changing.ADD_PLAIN):
            self._records.put(record)
        else:
            self._add_compiled(record)

    def add_many(self, records: Iterable[SubscriptionRecord]) -> None:
        """The same as adding each, some times faster."""
        plain: dict[str, SubscriptionRecord] = {}
        size = 0
        for record in records:
            if not self._is_plain(record) or record.id in self._records or record.id in plain:
                self._add_plain(list(plain.values()))
                plain, size = {}, 0
                self.add(record)
                continue
            plain[record.id] = record
            size += len(record.filter)
            if len(plain) == _ADDED_AT_ONCE or size > _MARGIN:
                self._add_plain(list(plain.values()))
                plain, size = {}, 0
        self._add_plain(list(plain.values()))

    def remove(self, id: str) -> SubscriptionRecord | None:
        record = self._remove(id)
        if not self._checks.looking_back:
            self._previous.clear()
        return record

    def _remove(self, id: str) -> SubscriptionRecord | None:
        number = self._records.number_of(id)
        if number is None:
            return None
        self._one.numbers[0] = number
        self._one.change(changing.REMOVE)
        record = self._records.take(id)
        if not self._is_plain(record):
            self._places.remove(record.id, uses_of(record))
        self._checks.remove(number)
        return record

    def match(self, contents: Sequence[bytes], now_s: float, *, remember: bool = True) -> Matches:
        """Which subscriptions each content matches. Without `remember` it is as if they had never been published."""
        several = len(self._home_names) > 1
        ends: list[int] = []
        ids: list[str] = []
        homes: list[str] = []
        unreadable = 0
        self._counts[counts.IDS] = self._records.ids.ctypes.data
        now = format_instant(now_s).encode()
        for chunk in chunks(contents):
            chunk_ends, numbers, bad = self._search.search(chunk, now_s, now, remember)
            ends += (chunk_ends + len(ids)).tolist()
            ids += self._records.ids.take(numbers).tolist()
            unreadable += bad
            if several:
                words = self._memory.view(SUBSCRIPTIONS, len(self._records.ids) * programs.SUBSCRIPTION)
                of_each = (words[numbers * programs.SUBSCRIPTION + programs.HOME] & programs.HOME_MASK).tolist()
                homes += [self._home_names[home] for home in of_each]
        if self._counts[counts.HOT]:
            self._one.change(changing.ADAPT)
        only = self._home_names[0] if self._home_names else ""
        return Matches(list(contents), ends, ids, homes if several else only, unreadable)

    def explain(self, content: bytes, now_s: float, id: str = "") -> Explained | None:
        """Which subscriptions the content would match, and of the one with the id, if it is here, why or why not.

        None for what is no publication. Nothing is remembered, as if it had not been asked.
        """
        canonical = in_canonical_form(content)
        if canonical is None:
            return None
        ids = self.match([canonical], now_s, remember=False).ids()[0]
        record = self.get(id) if id else None
        if record is None:
            return Explained(ids, None)
        publication = read_publication(canonical)
        previous = self.previous_of(publication.topic)
        return Explained(ids, explain_pair(record, publication, previous, now_s))

    def previous_of(self, topic: str) -> Mapping[str, Value] | None:
        """The attributes of the latest publication on a topic, as `prev` sees them."""
        return self._previous.attributes_of(topic)

    def statistics(self) -> dict[str, int]:
        """What the index is made of."""
        count = self._counts
        return {
            "subscriptions": len(self._records),
            "programs": int(count[counts.PROGRAMS_LIVE]),
            "keys": int(count[counts.KEYS_LIVE]),
            "attributes": int(count[counts.ATTRIBUTES_LIVE]),
            "pool_bytes": 8 * int(count[counts.POOL_USED] - count[counts.POOL_FREE]),
            "candidates": int(count[counts.CANDIDATES]),
            "topics_remembered": len(self._previous),
        }

    def anchors(self) -> list[int]:
        """The anchors that subscriptions are kept under, for `under`; they change when subscriptions do."""
        found = gathering.anchors(self._memory.addresses)
        anchors: list[int] = self._memory.view(MATCHED, found).tolist()
        return anchors

    def anchors_of(self, id: str) -> list[int]:
        number = self._records.number_of(id)
        if number is None:
            return []
        found = gathering.anchors_of(self._memory.addresses, number)
        return sorted(set(self._memory.view(MATCHED, found).tolist()))

    def under(self, anchors: Iterable[int]) -> Iterator[SubscriptionRecord]:
        """The subscriptions kept under these anchors, each once. What changes meanwhile may be missing."""
        numbers: dict[int, None] = {}
        for anchor in anchors:
            found = gathering.under(self._memory.addresses, anchor, SUBSCRIPTIONS_MAX)
            numbers.update(dict.fromkeys(self._memory.view(MATCHED, found).tolist()))
        ids = [self._records.ids[number] for number in numbers]
        for id in ids:
            record = self._records.get(id)
            if record is not None:
                yield record

    def _is_plain(self, record: SubscriptionRecord) -> bool:
        return not record.words and not record.topic and record.zone is None

    def _home(self, name: str) -> int:
        number = self._homes.get(name)
        if number is None:
            number = self._homes[name] = len(self._home_names)
            self._home_names.append(name)
        return number

    def _check_room(self, added: int, filter_bytes: int) -> None:
        """A predicate takes at least four bytes of a filter, so no filter brings more keys or attributes than bytes.

        Looks at the counts only once in many changes; the margin is what may come meanwhile.
        """
        self._room -= filter_bytes + added * _KEYS_BESIDES_FILTER
        if self._room >= 0:
            return
        self._room = _MARGIN
        coming = _MARGIN + filter_bytes + added * _KEYS_BESIDES_FILTER
        count = self._counts
        if (
            len(self._records) + coming >= SUBSCRIPTIONS_MAX
            or len(self._home_names) >= programs.HOME_MASK
            or count[counts.KEYS_USED] + coming >= KEYS_MAX
            or count[counts.PROGRAMS_LIVE] + _PROGRAMS_PER_KEY * coming >= PROGRAMS_MAX
            or count[counts.ATTRIBUTES_USED] + coming // 4 >= ATTRIBUTES_MAX
            or count[counts.POOL_USED] * 9 // 8 + _WORDS_PER_CHANGE >= WORDS_MAX
        ):
            self._room = 0
            raise IndexFullError(f"the index is full with {len(self._records)} subscriptions; add matchers")
        self._memory.expect(KEYS, int(count[counts.KEYS_USED]) * KEY_RECORD * 8)
        self._memory.expect(KEY_SLOTS, int(count[counts.KEY_SLOTS_MASK]) * 8)
        self._memory.expect(WORDS, int(count[counts.POOL_USED]) * 8)

    def _add_compiled(self, record: SubscriptionRecord) -> None:
        compiled = compile_subscription(record, self._writer, self._places)
        prepared = self._checks.prepare(record, compiled.flags)
        self._writer.write(compiled.conjunctions)
        self._remove(record.id)
        one = self._one.set(record, self._records.next_number(), self._home(record.home), 0)
        one.flags[0] = compiled.flags
        one.change(changing.ADD_ROWS)
        number = self._records.put(record)
        if not self._is_plain(record):
            self._places.add(record.id, compiled.uses)
        self._checks.add(number, prepared)
        if not self._checks.looking_back:
            self._previous.clear()

    def _add_plain(self, records: list[SubscriptionRecord]) -> None:
        """New subscriptions of distinct ids with nothing but filters and windows."""
        if not records:
            return
        texts = [record.filter.encode() + _END_OF_FILTER for record in records]
        ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))
        self._check_room(len(records), int(ends[-1]))
        self._input[: ends[-1]] = b"".join(texts)
        batch = Changes(self._memory, len(records))
        batch.ends[:] = ends
        for i, record in enumerate(records):
            batch.homes[i] = self._home(record.home)
            batch.set_window(i, record)
        first = 0
        while first < len(records):
            batch.numbers[first:] = self._records.next_numbers(len(records) - first)
            done = batch.change(changing.ADD_PLAIN, first)
            for record in records[first:done]:
                self._records.put(record)
            if done < len(records):
                self._add_compiled(records[done])
                self._input[: ends[-1]] = b"".join(texts)  # compiling has written over it
            first = done + 1
