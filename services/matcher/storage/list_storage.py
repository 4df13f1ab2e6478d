"""What the three layouts share: both operations of the paper on lists, whichever database holds which list.

Invariants: an append never reads what it appends to; what has expired at the given time is never returned; the time
that a storage believes in never goes back, because a window that has passed does not come again.
"""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from services.matcher.storage import keys, pieces, removing
from services.matcher.storage.database import Database, Write
from services.matcher.storage.ledger import Ledger
from services.matcher.storage.opening import open_parts
from services.matcher.storage.reading import BOTH, Found, Query, WasGiven, not_given_yet, read_from
from services.matcher.storage.records import (
    Cursor,
    Damage,
    Due,
    Filed,
    Kind,
    Matched,
    Piece,
    Reach,
    StorageFullError,
    Stored,
    StoredPublication,
    StoredSubscription,
    Usage,
)
from services.matcher.storage.settings import StorageSettings
from services.matcher.storage.upkeep import OnExpire, Upkeep
from services.matcher.storage.windows import Windows

_NOTHING: removing.Outdated = {}


class ListStorage:
    def __init__(self, root: Path, names: dict[Kind, str], settings: StorageSettings, now_s: float) -> None:
        """`names` says in which part the lists of a kind lie."""
        self.damages: list[Damage] = []
        self._settings = settings
        self._now_s = now_s
        ledger = Ledger(root / "ledger.json", root / "damaged")
        parts = {name: Windows(root, name, settings, self.damages.append) for name in dict.fromkeys(names.values())}
        self._subscriptions = parts[names[Kind.SUBSCRIPTION]]
        self._publications = parts[names[Kind.PUBLICATION]]
        self._parts = list(parts.values())
        open_parts(root, self._parts, ledger, self.damages, now_s)
        self._upkeep = Upkeep(root, self._parts, settings, ledger)
        self._upkeep.open(now_s)
        windows = self._subscriptions
        windows.reading(lambda: removing.finish_replacing(windows, self._write_filed, now_s, self.damages))

    # The paper's operations

    def subscribe(
        self,
        subscription: StoredSubscription,
        lists: Sequence[bytes],
        now_s: float,
        *,
        reach: Reach = Reach.SELF,
        was_given: WasGiven | None = None,
    ) -> list[StoredPublication]:
        now_s = self._at(now_s)
        past: list[StoredPublication] = []
        if subscription.from_s < now_s:
            wanted = BOTH if subscription.distinct else Kind.PUBLICATION
            query = Query(lists, reach, wanted, now_s, subscription.from_s, subscription.until_s)
            found = self._read(query)
            if subscription.distinct:
                found = not_given_yet(found, subscription, query, self._settings.remember_s, was_given)
            past = found.data()
        self._write([(subscription, lists)], now_s)
        return past

    def publish(
        self,
        publication: StoredPublication,
        lists: Sequence[bytes],
        now_s: float,
        *,
        reach: Reach = Reach.SELF,
        previous_from_s: float | None = None,
        previous_limit: int | None = None,
    ) -> Matched:
        now_s = self._at(now_s)
        if previous_from_s is None:
            found = self._read(Query(lists, reach, Kind.SUBSCRIPTION, now_s))
        else:
            found = self._read(Query(lists, reach, BOTH, now_s, previous_from_s, limit=previous_limit))
        self._write([(publication, lists)], now_s)
        return Matched(found.subscribers(publication.made_s, now_s), found.data(previous_limit))

    def get_data(
        self,
        lists: Sequence[bytes],
        now_s: float,
        *,
        from_s: float = -math.inf,
        until_s: float = math.inf,
        reach: Reach = Reach.SELF,
        limit: int | None = None,
        nodes_max: int | None = None,
    ) -> list[StoredPublication]:
        query = Query(lists, reach, Kind.PUBLICATION, self._at(now_s), from_s, until_s, limit, nodes_max)
        return self._read(query).data(limit)

    def get_subscribers(
        self, lists: Sequence[bytes], published_s: float, now_s: float, *, reach: Reach = Reach.SELF
    ) -> list[StoredSubscription]:
        now_s = self._at(now_s)
        return self._read(Query(lists, reach, Kind.SUBSCRIPTION, now_s)).subscribers(published_s, now_s)

    def get_data_and_subscribers(
        self,
        lists: Sequence[bytes],
        published_s: float,
        now_s: float,
        *,
        from_s: float = -math.inf,
        reach: Reach = Reach.SELF,
        limit: int | None = None,
    ) -> Matched:
        now_s = self._at(now_s)
        found = self._read(Query(lists, reach, BOTH, now_s, from_s, limit=limit))
        return Matched(found.subscribers(published_s, now_s), found.data(limit))

    def due(self, now_s: float) -> list[Due]:
        return []

    # Changes

    def unsubscribe(self, ids: Sequence[str], now_s: float) -> int:
        now_s = self._at(now_s)
        windows = self._subscriptions
        return sum(windows.reading(partial(removing.unsubscribe, windows, id, now_s)) for id in ids)

    def forget(self, ids: Sequence[str], now_s: float) -> int:
        now_s = self._at(now_s)
        windows = self._subscriptions
        return windows.reading(partial(removing.forget, windows, ids, now_s, self._settings.remember_s))

    def replace(self, subscription: StoredSubscription, lists: Sequence[bytes], now_s: float) -> None:
        windows = self._subscriptions
        filed = Filed(subscription, tuple(lists))
        self._check_room(1)
        windows.reading(lambda: removing.replace(windows, filed, self._write_filed, self._at(now_s)))

    # Scaling and recovery

    def put(self, filed: Sequence[Filed], now_s: float) -> int:
        before = self._upkeep.late
        self._write([(one.record, one.lists) for one in filed], self._at(now_s))
        return self._upkeep.late - before

    def remove_publications(self, filed: Sequence[Filed]) -> int:
        windows = self._publications
        return windows.reading(partial(removing.remove_publications, windows, filed, self._settings))

    def read_piece(
        self, kind: Kind, now_s: float, after: Cursor | None, limit: int, lists: Sequence[bytes] | None = None
    ) -> Piece:
        now_s = self._at(now_s)
        windows = self._subscriptions if kind is Kind.SUBSCRIPTION else self._publications
        return windows.reading(lambda: pieces.read_piece(windows, kind, now_s, after, limit, lists=lists))

    def remember(self, filed: Sequence[Filed], now_s: float) -> None:
        now_s = self._at(now_s)
        self._check_room(len(filed))
        writes: dict[Database, Write] = {}
        for one in filed:
            record = one.record
            assert isinstance(record, StoredSubscription)
            assert record.distinct
            if record.until_s + self._settings.remember_s > now_s:
                self._file_subscription(record, one.lists, now_s, writes)
        self._write_all(writes)

    def ended(self, now_s: float) -> list[StoredSubscription]:
        now_s = self._at(now_s)
        windows = self._subscriptions
        return windows.reading(lambda: pieces.read_ended(windows, now_s, self._settings.remember_s))

    # Upkeep

    def listen(self, on_expire: OnExpire, kinds: int = Kind.SUBSCRIPTION) -> None:
        self._upkeep.listen(on_expire, kinds)

    def maintain(self, now_s: float, entries_max: int = 500) -> bool:
        return self._upkeep.maintain(self._at(now_s), entries_max)

    def sync(self) -> None:
        for part in self._parts:
            for database in part.all():
                database.sync()

    def usage(self) -> Usage:
        return self._upkeep.usage

    def close(self) -> None:
        for part in self._parts:
            part.close()
        self._upkeep.write_ledger(closed=True)
        self._upkeep.close()

    # Details

    def _at(self, now_s: float) -> float:
        self._now_s = max(self._now_s, now_s)
        return self._now_s

    def _read(self, query: Query) -> Found:
        """Each kind from its own part."""
        found = Found()
        if query.wanted & Kind.SUBSCRIPTION:
            found.subscriptions = self._read_part(self._subscriptions, query, Kind.SUBSCRIPTION).subscriptions
        if query.wanted & Kind.PUBLICATION:
            found.publications = self._read_part(self._publications, query, Kind.PUBLICATION).publications
        return found

    def _read_part(self, windows: Windows, query: Query, wanted: int) -> Found:
        if query.wanted != wanted:
            query = replace(query, wanted=wanted)
        return windows.reading(partial(read_from, windows, query))

    def _write(self, filed: Sequence[tuple[Stored, Sequence[bytes]]], now_s: float) -> None:
        self._check_room(len(filed))
        self._write_filed(filed, now_s)

    def _check_room(self, records: int) -> None:
        if self._upkeep.disk.is_full:
            self._upkeep.usage.refused += records
            raise StorageFullError(f"the {self._settings.disk_bytes_max:,} bytes that may be used are used")

    def _write_filed(
        self, filed: Sequence[tuple[Stored, Sequence[bytes]]], now_s: float, outdated: removing.Outdated = _NOTHING
    ) -> list[Database]:
        """One write for each database, without the entries that are outdated in it. Returns where records went; those
        that have expired went nowhere.
        """
        writes: dict[Database, Write] = {}
        for record, lists in filed:
            if not isinstance(record, StoredSubscription):
                self._file_publication(record, lists, now_s, writes)
            elif record.until_s > now_s:
                self._file_subscription(record, lists, now_s, writes)
        for database, write in writes.items():
            write.removed += outdated.get(database, ())
        self._write_all(writes)
        return list(writes)

    def _write_all(self, writes: dict[Database, Write]) -> None:
        for database, write in writes.items():
            self._subscriptions.reading(partial(database.write, write))
            self._upkeep.disk.written(database, write.size)

    def _file_subscription(
        self, record: StoredSubscription, lists: Sequence[bytes], now_s: float, writes: dict[Database, Write]
    ) -> None:
        expires_s = record.until_s + self._settings.remember_s if record.distinct else record.until_s
        database = self._subscriptions.place(Kind.SUBSCRIPTION, record.made_s, expires_s, now_s)
        write = writes.get(database) or writes.setdefault(database, Write())
        write.kinds |= 1
        write.entries += keys.entries_of(record, lists)
        write.others.append(keys.by_id_entry(record, lists))

    def _file_publication(
        self, record: StoredPublication, lists: Sequence[bytes], now_s: float, writes: dict[Database, Write]
    ) -> None:
        expires_s = self._settings.expiry_s(record.made_s, record.expires_s)
        if expires_s <= now_s:
            return
        if expires_s != record.expires_s:
            record = replace(record, expires_s=expires_s)
        database = self._publications.place(Kind.PUBLICATION, record.made_s, expires_s, now_s)
        if database in self._publications.leaving:
            self._upkeep.came_too_late(len(lists))
            return
        write = writes.get(database) or writes.setdefault(database, Write())
        write.kinds |= 2
        write.newest_s = max(write.newest_s, record.made_s)
        write.entries += keys.entries_of(record, lists)
