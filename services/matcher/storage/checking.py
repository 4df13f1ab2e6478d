"""Goes through all of a repaired copy: removes what is not what was written, files anew what is not filed as it was.

Two know in which lists a record lies: its first entry, and the entry by id of a subscription. Both are written together
with all its entries. Where they agree and every entry is there, nothing is done. Where the damage hit a removal, there
are entries of an older version too; then the entry by id says which one counts, unless it was hit itself and is the
older one (`versions.py`).

No record is kept in memory. Of a publication in several lists there is a number, until the last of its entries is met;
of a record that is not as it should be there are the keys of its entries, and it is read again.
"""

import math
from collections.abc import Collection, Iterable, Sequence

from services.matcher.storage import keys
from services.matcher.storage.database import DamagedError, Database, Write
from services.matcher.storage.log_reading import changes_in
from services.matcher.storage.records import Kind, StoredSubscription
from services.matcher.storage.versions import Entries, Entry, lists_of, record_of, version_of

_BATCH = 1000


class Check:
    def __init__(self, database: Database, logs: Sequence[bytes]) -> None:
        """`logs` are those of the damaged database, as LevelDB wrote them."""
        self._database = database
        self._logs = logs
        self._wrong: set[bytes] = set()  # keys of entries
        self._doubtful: dict[str, set[bytes]] = {}  # ids of subscriptions, with the entries that are there
        # By a hash of each publication: how many of its entries were named and not met, or, below zero, the reverse.
        self._uneven: dict[int, int] = {}
        self.found = 0  # entries
        self._restored = 0  # of these, those that were written again
        self.missing = 0  # entries of subscriptions of which only the filing by id is left
        self._kinds = 0
        self._newest_s = -math.inf

    @property
    def lost(self) -> int:
        """Entries that were found, are not what was written, and could not be written again."""
        return max(len(self._wrong) - self._restored, 0)

    def run(self) -> None:
        """Raises `DamagedError` and `plyvel.Error`."""
        self._forget_counters()
        self._database.open()
        self._take_from_logs()
        self._check_others()
        self._check_entries()
        for id, entries in self._doubtful.items():
            self._file_subscription(id, entries)
        for entries in self._find_uneven():
            self._file_publication(entries)
        self._database.reset_counters(self.found, self._kinds, self._newest_s)
        self._database.close()

    def abandon(self) -> None:
        self._database.abandon()

    def _forget_counters(self) -> None:
        """They are made anew. Wrong ones would keep the database from being opened."""
        self._database.write(Write(others_removed=[keys.COUNTERS_KEY]))
        self._database.abandon()

    # Logs

    def _take_from_logs(self) -> None:
        """Their last word on every key: nothing that lies in tables is newer than it."""
        latest = {key: value for log in self._logs for key, value in changes_in(log)}
        latest.pop(keys.COUNTERS_KEY, None)
        others = [(key, value) for key, value in latest.items() if value is not None and self._is_newer(key, value)]
        removed = [key for key, value in latest.items() if value is None and self._payload(key) is not None]
        for begin in range(0, len(others), _BATCH):
            self._database.write(Write(others=others[begin : begin + _BATCH]))
        self._remove(removed)

    def _is_newer(self, key: bytes, value: bytes) -> bool:
        try:
            return keys.opened(key, value) != self._payload(key)
        except ValueError:
            return False

    # What is there

    def _check_others(self) -> None:
        """What lies before the entries. What was intended is left to whoever takes it up, and says so."""
        obsolete = []
        for key, value in self._database.entries(b"", keys.ENTRIES_BEGIN):
            if key == keys.COUNTERS_KEY or key.startswith(keys.INTENTS_BEGIN):
                continue
            try:
                payload = keys.opened(key, value)
            except ValueError:
                obsolete.append(key)
                continue
            if keys.BY_ID_BEGIN <= key < keys.BY_ID_END:
                id = key[len(keys.BY_ID_BEGIN) :].decode()
                if not self._is_as_filed(value, keys.decode_by_id(id, payload)):
                    self._doubtful[id] = set()
        self._remove(obsolete)

    def _is_as_filed(self, value: bytes, by_id: keys.ById) -> bool:
        """Whether all its entries are there, of one version, and this is what it would be filed by."""
        payloads = [self._payload(key) for key in by_id.keys]
        records = [keys.record_part(payload) for payload in payloads if payload is not None]
        if not records or len(records) < len(payloads) or any(record != records[0] for record in records):
            return False
        record, lists = self._entry(by_id.keys[0])
        assert isinstance(record, StoredSubscription)
        return keys.by_id_entry(record, lists)[1] == value

    def _check_entries(self) -> None:
        for key, value in self._database.entries():
            try:
                record, lists = keys.decode_entry(key, value)
            except ValueError:  # also what the decoder of a record says
                self._wrong.add(key)
                continue
            self.found += 1
            if isinstance(record, StoredSubscription):
                self._kinds |= Kind.SUBSCRIPTION
                self._note_subscription(key, record.id)
            else:
                self._kinds |= Kind.PUBLICATION
                self._newest_s = max(self._newest_s, record.made_s)
                self._note_publication(key, lists)
        self._remove(self._wrong)

    def _note_subscription(self, key: bytes, id: str) -> None:
        if id not in self._doubtful:
            payload = self._payload(keys.by_id_key(id))
            filed = [] if payload is None else keys.decode_by_id(id, payload).keys
            if key in filed:
                return
            self._doubtful[id] = set(filed)  # which are there, or it would have been doubtful before
        self._doubtful[id].add(key)

    def _note_publication(self, key: bytes, lists: Sequence[bytes]) -> None:
        if len(lists) == 1:
            return
        number = hash(keys.identity(key))
        left = self._uneven.get(number, 0) + (len(lists) - 1 if lists else -1)
        if left:
            self._uneven[number] = left
        else:
            del self._uneven[number]

    # What is filed anew

    def _find_uneven(self) -> Iterable[set[bytes]]:
        """The entries of each publication of which one is missing."""
        found: dict[bytes, set[bytes]] = {}
        if self._uneven:
            for key, _ in self._database.entries():
                end = keys.identity(key)
                if keys.split_key(key)[1] == Kind.PUBLICATION and hash(end) in self._uneven:
                    found.setdefault(end, set()).add(key)
        return found.values()

    def _file_subscription(self, id: str, entries: set[bytes]) -> None:
        payload = self._payload(keys.by_id_key(id))
        by_id = None if payload is None else keys.decode_by_id(id, payload).keys
        if entries:
            there = {key: self._entry(key) for key in entries}
            self._file(there, version_of(there, by_id))
        elif by_id is not None:
            self.missing += len([key for key in by_id if key not in self._wrong])
            self._remove([keys.by_id_key(id)])

    def _file_publication(self, entries: set[bytes]) -> None:
        there = {key: self._entry(key) for key in entries}
        version = version_of(there, None)
        self._file(there, [*version, *sorted(entries.difference(version))])  # it has no other version

    def _file(self, there: Entries, version: Sequence[bytes]) -> None:
        lists = lists_of(version)
        record = record_of(there, version)
        by_id = [keys.by_id_entry(record, lists)] if isinstance(record, StoredSubscription) else []
        stale = [key for key in there if key not in version]
        self._database.write(Write(entries=keys.entries_of(record, lists), others=by_id, others_removed=stale))
        restored = len([key for key in version if key not in there])
        self._restored += restored
        self.found += restored - len(stale)

    # Details

    def _payload(self, key: bytes) -> memoryview | None:
        """Nothing where it is not what was written."""
        try:
            return self._database.get(key)
        except DamagedError:
            return None

    def _entry(self, key: bytes) -> Entry:
        """Of one that is known to be there."""
        payload = self._payload(key)
        assert payload is not None
        return keys.entry_in(key, payload)

    def _remove(self, removed: Collection[bytes]) -> None:
        left = list(removed)
        for begin in range(0, len(left), _BATCH):
            self._database.write(Write(others_removed=left[begin : begin + _BATCH]))
