"""The subscriptions of a matcher: the index, when they end, and which of them count in which epoch."""

from collections.abc import Iterable, Iterator

from sortedcontainers import SortedList

from braid.matching.index import IndexFullError, MatchIndex
from braid.messages import FindSubscriptions
from braid.selector import Selector
from braid.subscription import SubscriptionRecord
from services.matcher.announcing import Announcing
from services.matcher.endings import Endings
from services.matcher.shares import Hidden, Shares

_PAGE_BYTES_MAX = 1024 * 1024
_PAGE_LOOKS_MAX = 5_000  # a page must not hold up matching
_PUT_OFF_S = 10.0  # until it is looked again whether a subscription that has ended counts


class Holdings:
    def __init__(self) -> None:
        self.index = MatchIndex()
        self.shares = Shares()
        self.announcing = Announcing(self.index.walk_ids, self.index.get)
        self._endings = Endings()
        self._sorted_ids: SortedList | None = None  # made when a page is asked for, kept sorted from then on

    def recover(self, records: Iterable[SubscriptionRecord]) -> None:
        known = list(records)
        self.index.add_many(known)
        self._endings.note_many(known)
        self._sorted_ids = None

    def get(self, id: str, hidden: Hidden) -> SubscriptionRecord | None:
        return None if _is_hidden(id, hidden) else self.index.get(id)

    def put(self, record: SubscriptionRecord) -> SubscriptionRecord | None:
        """What it replaces. Raises `IndexFullError`, `ValueError`."""
        self._throw_out(record.id)
        before = self.index.get(record.id)
        self.index.add(record)
        self.announcing.on_put(record, before)
        self._endings.note(record)
        if before is None and self._sorted_ids is not None:
            self._sorted_ids.add(record.id)
        return before

    def has_arrived(self, record: SubscriptionRecord) -> bool:
        """Just like this, in this scaling."""
        return record.id in self.shares.arrived and self.index.get(record.id) == record

    def put_arrived(self, records: list[SubscriptionRecord]) -> set[str]:
        """Counts in the new epoch only. Returns the ids of which there was another record, in the index or as refuse.

        Raises `IndexFullError`, `ValueError`; then some of them may be there.
        """
        ids = [record.id for record in records]
        known = {id for id in ids if id in self.index}
        for id in ids:
            self._throw_out(id)
        new = [id for id in ids if id not in self.index]
        self.shares.arrived.update(ids)
        if self._sorted_ids is not None:
            self._sorted_ids.update(new)
        before = [self.index.get(id) for id in ids] if self.announcing.is_on else [None] * len(ids)
        there = list(zip(records, before, strict=True))
        try:
            self.index.add_many(records)
        except (IndexFullError, ValueError):
            # Those that are there are removed one day, so they must have been counted.
            there = [(record, replaced) for record, replaced in there if self.index.get(record.id) == record]
            raise
        finally:
            for record, replaced in there:
                self.announcing.on_put(record, replaced)
                self._endings.note(record)
        return known

    def remove_arrived(self, ids: list[str]) -> None:
        """They were ended where they still count."""
        for id in ids:
            if id in self.shares.arrived:
                self._remove(id)
                self.shares.discard(id)

    def remove(self, id: str, hidden: Hidden) -> SubscriptionRecord | None:
        """None also when it does not count."""
        if _is_hidden(id, hidden):
            return None
        return self._remove(id)

    def passed(self, now_s: float, most: int, hidden: Hidden) -> list[tuple[SubscriptionRecord, bool]]:
        """Removes those whose window has passed, some of them at a time; and whether each of them counted.

        One that has arrived and does not count yet ends when it does. Its home is told where it counts, and when that
        changes in between, nobody else would tell it.
        """
        removed: list[tuple[SubscriptionRecord, bool]] = []
        for id in self._endings.passed(now_s, most):
            counted = not _is_hidden(id, hidden)
            if not counted and id in self.shares.arrived:
                self._endings.put_off(id, now_s + _PUT_OFF_S)
                continue
            record = self._remove(id)
            self.shares.discard(id)
            if record is not None:
                removed.append((record, counted))
        return removed

    def has_passed(self, now_s: float) -> bool:
        return self._endings.has_passed(now_s)

    def remove_refuse(self, most: int) -> list[str]:
        ids = self.shares.some_refuse(most)
        for id in ids:
            self._remove(id)
            self.shares.discard(id)
        return ids

    def throw_out_foreign(self, name: str, selector: Selector) -> None:
        """What the selector gives to others does not count any more."""
        if len(self.index):
            self.shares.sweep(self.index.walk_ids(), lambda id: selector.matcher_of(id) != name)

    def throw_out_all(self) -> None:
        if len(self.index):
            self.shares.sweep(self.index.walk_ids(), lambda _id: True)

    def own_ids(self) -> Iterator[str]:
        """What counts in the old epoch. There may be very many, so they are looked at when the next ones are taken.

        One that comes meanwhile may be missing.
        """
        return (id for id in self.index.walk_ids() if self._is_own(id))

    def get_own(self, id: str) -> SubscriptionRecord | None:
        """If it counts in the old epoch."""
        return self.index.get(id) if self._is_own(id) else None

    def _is_own(self, id: str) -> bool:
        return id not in self.shares.arrived and not self.shares.is_refuse(id)

    def page(self, asked: FindSubscriptions, hidden: Hidden) -> tuple[list[SubscriptionRecord], str]:
        """Records in the order of their ids, and where to go on; looks at a bounded number of them.

        One whose window has passed is among them until it ends: a `distinct` one counts what it was given, all along.
        """
        if asked.id:
            record = self.get(asked.id, hidden)
            return ([] if record is None else [record]), ""
        if asked.subscriber:
            ids = SortedList(self.index.ids_of(asked.subscriber))
        else:
            if self._sorted_ids is None:
                self._sorted_ids = SortedList(self.index.ids())
            ids = self._sorted_ids
        found: list[SubscriptionRecord] = []
        size = 0
        start = ids.bisect_right(asked.after)
        for id in ids.islice(start, start + _PAGE_LOOKS_MAX):
            record = self.get(id, hidden)
            if record is not None and (not asked.home or record.home == asked.home):
                found.append(record)
                size += len(record.filter) + 200
                if len(found) >= asked.limit or size > _PAGE_BYTES_MAX:
                    return found, id
        return found, ids[start + _PAGE_LOOKS_MAX - 1] if start + _PAGE_LOOKS_MAX < len(ids) else ""

    def _throw_out(self, id: str) -> None:
        """One that left comes back before it was removed: the old record says nothing any more."""
        if self.shares.is_refuse(id):
            self._remove(id)
            self.shares.discard(id)

    def _remove(self, id: str) -> SubscriptionRecord | None:
        removed = self.index.remove(id)
        self._endings.forget(id)
        if removed is not None:
            self.announcing.on_removed(removed)
            if self._sorted_ids is not None:
                self._sorted_ids.discard(id)
        return removed


def _is_hidden(id: str, hidden: Hidden) -> bool:
    return any(id in ids for ids in hidden)
