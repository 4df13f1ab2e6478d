"""Finds the subscriptions that publications match.

`MatchIndex` is the library: add, remove, match, explain. It joins the compiled engine, which decides nearly
everything, with what is left to Python. One thread at a time may use it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from braid.filters import FilterError, Value
from braid.filters.literals import literal_problem
from braid.instants import format_instant
from braid.matching.batches import batches
from braid.matching.chains import Position
from braid.matching.changes import Changes
from braid.matching.checking import Checks
from braid.matching.compiling import NOTHING_GIVEN, Given, compile_parts, compile_whole
from braid.matching.engine import changing, counts, gathering, program_slots, programs
from braid.matching.engine.hashing import SECRET_WORDS, new_secret
from braid.matching.engine.memory import COUNTS, MATCHED, SUBSCRIPTIONS, SUBSCRIPTIONS_MAX, Memory
from braid.matching.engine.programs import CHECKED, ZONED
from braid.matching.explanation import Explanation
from braid.matching.handing_out import in_lists
from braid.matching.matches import Matches
from braid.matching.meaning import read_publication
from braid.matching.pair_explanation import explain_pair
from braid.matching.previous import PreviousPublications
from braid.matching.publications import ExtraKeys, in_canonical_form
from braid.matching.records import Records
from braid.matching.relations import Relations
from braid.matching.room import IndexFullError, Room
from braid.matching.row_writing import RowWriter
from braid.matching.search import Search, chunks
from braid.matching.topic_shapes import TopicShapes
from braid.subscription import SubscriptionRecord

Integers = np.ndarray[Any, np.dtype[np.int64]]


__all__ = ["Explained", "IndexFullError", "MatchIndex"]


class Explained(NamedTuple):
    ids: list[str]
    explanation: Explanation | None


class MatchIndex:
    def __init__(self) -> None:
        self._memory = Memory()
        self._counts = self._memory.view(COUNTS, counts.COUNTS_WORDS)
        self._counts[counts.POOL_USED] = 8
        for mask in (counts.KEY_SLOTS_MASK, counts.ATTRIBUTE_SLOTS_MASK):
            self._counts[mask] = counts.SLOTS_FIRST
        first = counts.PROGRAM_MASKS_FIRST
        self._counts[first : first + program_slots.TABLES] = program_slots.TABLE_MASK_FIRST
        self._counts[counts.SECRET : counts.SECRET + SECRET_WORDS] = new_secret()
        changing.start(self._memory.addresses)
        self._changes = Changes(self._memory)
        self._room = Room(self._memory)
        self._records = Records(self._memory)
        self._writer = RowWriter(self._memory)
        self._shapes = TopicShapes(self._memory)
        self._relations = Relations()
        self._checks = Checks(self._memory, self._relations)
        self.previous = PreviousPublications()
        extra_keys = ExtraKeys(self._memory, self._writer)
        self._search = Search(self._memory, extra_keys, self._checks, self.previous, self._relations)
        self._homes: dict[str, int] = {}
        self._home_names: list[str] = []

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, id: str) -> bool:
        return id in self._records

    def __iter__(self) -> Iterator[SubscriptionRecord]:
        return iter(self._records)

    def ids(self) -> Iterator[str]:
        """In no order."""
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
        self._room.check(1, len(record.filter), len(self._records), len(self._home_names))
        number, parts = self._prepare(record)
        home = self._home(record.home)
        try:
            if not self._changes.add(record, number, home, parts.flags, parts.rows):
                parts = self._add_compiled(record, number, home, parts)
        except ValueError:
            self._give_up(record, number)
            raise
        self._keep(record, number, parts)

    def add_many(self, records: Iterable[SubscriptionRecord]) -> None:
        """The same as adding each, some times faster.

        Those that cannot be added are left out: what `add` raises for the first of them is raised when all others are
        there. Only a full index ends it at once.
        """
        refusals: list[ValueError] = []
        for batch in batches(records):
            refusals += self._add_batch(batch)
        if refusals:
            raise refusals[0]

    def remove(self, id: str) -> SubscriptionRecord | None:
        record = self._remove(id)
        if not self._checks.looked_back_to:
            self.previous.clear()
        return record

    def match(
        self,
        contents: Sequence[bytes],
        now_s: float,
        *,
        remember: bool = True,
        positions: Sequence[Position] | None = None,
    ) -> Matches:
        """Which subscriptions each content matches. Without `remember` it is as if they had never been published.

        `positions` say which publications these are, where some may come again; `on_confirmed` says which do not.

        Contents are expected as connection points write them. What looks different is written anew and then matched, or
        counted as unreadable; only `data`, which must be the last member, is not looked at. `in_canonical_form` brings
        anything into this form.
        """
        several = len(self._home_names) > 1
        ids: list[list[str]] = []
        homes: list[list[str]] = []
        unreadable = 0
        now = format_instant(now_s).encode()
        for chunk in chunks(contents):
            these = None if positions is None else positions[len(ids) : len(ids) + len(chunk)]
            ends, numbers, bad = self._search.search(chunk, now_s, now, remember, these)
            ids += in_lists(self._records.ids, ends, numbers)
            unreadable += bad
            if several:
                words = self._memory.view(SUBSCRIPTIONS, self._records.numbers_end * programs.SUBSCRIPTION)
                of_each = words[numbers * programs.SUBSCRIPTION + programs.HOME] & programs.HOME_MASK
                homes += in_lists(np.array(self._home_names, dtype=object), ends, of_each)
        if self._counts[counts.HOT]:
            self._changes.adapt()
        only = self._home_names[0] if self._home_names else ""
        return Matches(list(contents), ids, homes if several else only, unreadable)

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

    @property
    def looks_back(self) -> bool:
        """Whether some subscription says `prev`."""
        return bool(self._checks.looked_back_to)

    def on_confirmed(self, origin: str, watermark: int) -> None:
        """Nothing up to there comes again from this origin."""
        self.previous.on_confirmed(origin, watermark)

    def previous_of(self, topic: str) -> Mapping[str, Value] | None:
        """The attributes of the latest publication on a topic, as far as subscriptions say `prev` of them."""
        return self.previous.attributes_of(topic)

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
            "topics_remembered": len(self.previous),
            "topics_forgotten": self.previous.forgotten,
            "previous_bytes": self.previous.bytes,
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

    def _home(self, name: str) -> int:
        number = self._homes.get(name)
        if number is None:
            number = self._homes[name] = len(self._home_names)
            self._home_names.append(name)
        return number

    def _add_batch(self, records: list[SubscriptionRecord]) -> list[ValueError]:
        """Of distinct ids; what was raised for those that cannot be added."""
        filter_bytes = sum([len(record.filter) for record in records])
        self._room.check(len(records), filter_bytes, len(self._records), len(self._home_names))
        # Most have nothing but a filter, which the engine reads itself. Only the others are looked at one by one.
        together = [record for record in records if _is_only_filter(record)]
        numbers = self._records.reserve_many(len(together))
        parts = [NOTHING_GIVEN] * len(together)
        refusals: list[ValueError] = []
        for record in records if len(together) < len(records) else ():
            if _is_only_filter(record):
                continue
            try:
                number, given = self._prepare(record)
            except ValueError as error:
                refusals.append(error)
                continue
            together.append(record)
            numbers.append(number)
            parts.append(given)
        left = self._add_together(together, numbers, parts) if together else []
        for record in left:
            try:
                self.add(record)
            except ValueError as error:
                refusals.append(error)
        return refusals

    def _add_together(
        self, records: list[SubscriptionRecord], numbers: list[int], parts: list[Given]
    ) -> list[SubscriptionRecord]:
        """Returns those whose filters the engine does not read itself."""
        homes = {name: self._home(name) for name in dict.fromkeys([record.home for record in records])}
        done = self._changes.add_many(
            records,
            numbers,
            [homes[record.home] for record in records],
            [given.flags for given in parts],
            [given.rows for given in parts],
        )
        if all(done):
            self._keep_many(records, numbers, parts)
            return []
        self._keep_many(list(compress(records, done)), list(compress(numbers, done)), list(compress(parts, done)))
        left = [(record, number) for record, number, is_done in zip(records, numbers, done, strict=True) if not is_done]
        for record, number in left:
            self._give_up(record, number)
        return [record for record, _ in left]

    def _prepare(self, record: SubscriptionRecord) -> tuple[int, Given]:
        """A number for what is on its way in, and all of it but its filter."""
        if not record.filter.isascii() and (problem := literal_problem(record.filter)) is not None:
            raise FilterError(problem)
        parts = compile_parts(record, self._writer, self._shapes)
        number = self._records.reserve()
        if parts.topic is not None:
            self._shapes.add(number, parts.topic)
        return number, parts

    def _add_compiled(self, record: SubscriptionRecord, number: int, home: int, parts: Given) -> Given:
        """One whose filter the engine does not read itself."""
        whole = compile_whole(record, parts, self._writer, self._relations)
        self._changes.add_rows(record, number, home, whole.flags, whole.rows)
        return whole

    def _give_up(self, record: SubscriptionRecord, number: int) -> None:
        """What was prepared does not come, or comes again."""
        if record.topic:
            self._shapes.remove(number, record)
        self._records.release(number)

    def _keep(self, record: SubscriptionRecord, number: int, parts: Given) -> None:
        """What the engine was told, everybody else is told, in the place of what has the same id."""
        if record.id in self._records:
            self._remove(record.id)
        self._records.put(number, record)
        self._check_later(record, number, parts)
        if not self._checks.looked_back_to:
            self.previous.clear()

    def _keep_many(self, records: list[SubscriptionRecord], numbers: list[int], parts: list[Given]) -> None:
        self._records.put_many(numbers, records, self._remove)
        for record, number, given in zip(records, numbers, parts, strict=True):
            if given is not NOTHING_GIVEN:
                self._check_later(record, number, given)
        if not self._checks.looked_back_to:
            self.previous.clear()

    def _check_later(self, record: SubscriptionRecord, number: int, parts: Given) -> None:
        """What the engine leaves to Python."""
        if parts.flags & (CHECKED | ZONED):
            self._checks.add(number, record, parts.flags, parts.relations)

    def _remove(self, id: str) -> SubscriptionRecord | None:
        number = self._records.number_of(id)
        if number is None:
            return None
        self._changes.remove(number)
        record = self._records.take(id)
        if record.topic:
            self._shapes.remove(number, record)
        self._checks.remove(number)
        return record


def _is_only_filter(record: SubscriptionRecord) -> bool:
    return not record.words and not record.topic and record.zone is None and record.filter.isascii()
