"""What is done in slices, so that nobody waits for it: telling what expired, moving what must stay, counting the dead.

Each job takes a number of entries and returns how many it has used up; `is_done` says whether it has come to its end. A
job that a crash interrupts is begun again: moving the same entry twice writes the same bytes.
"""

from collections.abc import Callable

import plyvel

from services.matcher.storage import keys
from services.matcher.storage.database import DamagedError, Database, Write
from services.matcher.storage.keys import ENTRIES_BEGIN
from services.matcher.storage.records import Kind, Stored, StoredSubscription

OnTold = Callable[[list[Stored]], None]
_UNREADABLE_MAX = 5  # attempts to read what has expired


class Tell:
    """Tells whoever listens of what has expired in a database; `done` takes it to the trash then. Where that fails, it
    is tried again, and nobody is told twice.

    Subscriptions are found by their ids, so that the publications among which they lie, which may be many more, are
    looked at only where somebody wants to hear of these too.

    What cannot be read, as where a full disk has no room for LevelDB to open it, goes untold after some attempts: it
    has expired, nobody finds it any more, and its space is what is wanting.
    """

    def __init__(self, database: Database, kinds: int, tell: OnTold, done: Callable[["Tell"], None]) -> None:
        self.source = database
        self._kinds = kinds & database.kinds
        self._tell = tell
        self._done = done
        self._at = ENTRIES_BEGIN if kinds & Kind.PUBLICATION else keys.BY_ID_BEGIN
        self._end = None if kinds & Kind.PUBLICATION else keys.BY_ID_END
        self._is_told = not self._kinds
        self._unreadable = 0
        self.is_done = False

    def step(self, entries_max: int, now_s: float) -> int:
        used = 0 if self._is_told else self._tell_some(entries_max)
        if self._is_told:
            self._done(self)
            self.is_done = True
        return max(used, 1)

    def _tell_some(self, entries_max: int) -> int:
        told: list[Stored] = []
        used = 0
        try:
            for key, value in self.source.entries(self._at, self._end):
                if used == entries_max:
                    self._at = key
                    break
                used += 1
                told += self._by_id(key, value) if self._end is not None else self._entry(key, value)
            else:
                self._is_told = True
        except (DamagedError, ValueError):
            self._is_told = True  # it has expired; nobody can miss it
        except plyvel.Error:
            self._unreadable += 1
            self._is_told = self._unreadable == _UNREADABLE_MAX
            if not self._is_told:
                raise
        if told:
            self._tell(told)
        return used

    def _entry(self, key: bytes, value: bytes) -> list[Stored]:
        if not keys.split_key(key)[1] & self._kinds:
            return []
        record, lists = keys.decode_entry(key, value)
        return [record] if lists else []

    def _by_id(self, key: bytes, value: bytes) -> list[Stored]:
        by_id = keys.decode_by_id(key[len(keys.BY_ID_BEGIN) :].decode(), keys.opened(key, value))
        payload = self.source.get(by_id.keys[0])
        return [] if payload is None else [keys.subscription_in(payload)]


class Move:
    """Copies the subscriptions of one database into another; the rest is left to go with it.

    A subscription is copied whole when its first entry is met, with what it is filed by: whoever removes it between two
    steps then finds all of it in either database. `forgotten` says which subscriptions need not be kept; `done` takes
    the emptied database out.

    A step counts when the target has what it copied: one that fails is done again. What was copied is not copied again
    when only `done` fails, because somebody may have removed it from the target since.
    """

    def __init__(
        self,
        source: Database,
        target: Callable[[], Database],
        forgotten: Callable[[StoredSubscription, float], bool],
        tell: OnTold,
        done: Callable[["Move"], None],
    ) -> None:
        self.source = source
        self._target = target
        self._forgotten = forgotten
        self._tell = tell
        self._done = done
        self._at: bytes | None = ENTRIES_BEGIN  # nothing: all is copied
        self.publications_left = 0
        self.is_done = False

    def step(self, entries_max: int, now_s: float) -> int:
        used = 0 if self._at is None else self._copy_some(self._at, entries_max, now_s)
        if self._at is None:
            self._move_notes()
            self._done(self)
            self.is_done = True
        return max(used, 1)

    def _copy_some(self, at: bytes, entries_max: int, now_s: float) -> int:
        used = publications = 0
        following: bytes | None = None
        copied: list[tuple[bytes, bytes]] = []
        by_id: list[tuple[bytes, bytes]] = []
        expired: list[Stored] = []
        for key, value in self.source.entries(at):
            if used == entries_max:
                following = key
                break
            used += 1
            if keys.split_key(key)[1] == Kind.PUBLICATION:
                publications += 1
                continue
            try:
                record, lists = keys.decode_entry(key, value)
            except ValueError as error:
                raise DamagedError(self.source, str(error)) from None
            assert isinstance(record, StoredSubscription)
            if not lists:
                continue
            if self._forgotten(record, now_s):
                expired.append(record)
            else:
                copied += keys.entries_of(record, lists)
                by_id.append(keys.by_id_entry(record, lists))
        if copied:
            self._target().write(Write(entries=copied, others=by_id, kinds=Kind.SUBSCRIPTION))
        self._at = following
        self.publications_left += publications
        if expired:
            self._tell(expired)
        return used

    def _move_notes(self) -> None:
        target = self._target()
        notes = self.source.entries(keys.NOTES_BEGIN, keys.NOTES_END)
        newer = [(key, value) for key, value in notes if target.get(key) is None]
        if newer:
            target.write(Write(others=newer))


class Count:
    """Counts the dead of a base database, to see whether it is worth rewriting."""

    def __init__(
        self,
        database: Database,
        forgotten: Callable[[StoredSubscription, float], bool],
        done: Callable[["Count"], None],
    ) -> None:
        self.source = database
        self._forgotten = forgotten
        self._done = done
        self._at = ENTRIES_BEGIN
        self.seen = 0
        self.dead = 0
        self.is_done = False

    def step(self, entries_max: int, now_s: float) -> int:
        used = dead = 0
        for key, value in self.source.entries(self._at):
            if used == entries_max:
                self._at = key
                break
            used += 1
            try:
                dead += self._forgotten(keys.decode_subscription(value), now_s)
            except ValueError as error:
                raise DamagedError(self.source, str(error)) from None
        else:
            self.is_done = True
        self.seen += used
        self.dead += dead
        if self.is_done:
            self._done(self)
        return max(used, 1)
