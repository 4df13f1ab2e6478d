"""What is done in slices, so that nobody waits for it: emptying the trash, moving what must stay, counting the dead.

Each job takes a number of entries and returns how many it has used up; `is_done` says whether it has come to its end. A
job that a crash interrupts is begun again: moving the same entry twice writes the same bytes.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from services.matcher.storage import keys
from services.matcher.storage.closing import Closing
from services.matcher.storage.database import DamagedError, Database, Write
from services.matcher.storage.keys import ENTRIES_BEGIN
from services.matcher.storage.records import Kind, Stored, StoredSubscription

_ENTRIES_PER_FILE = 100  # removing a file counts as so many

Tell = Callable[[list[Stored]], None]


class Empty:
    """Tells of what has expired, where somebody listens, then moves a database to the trash, has it closed, and removes
    it file by file.
    """

    def __init__(self, trash: Path, database: Database | None, path: Path, tell_kinds: int, tell: Tell) -> None:
        self._trash = trash
        self.database = database
        self.path = path
        self._kinds = tell_kinds if database is not None and database.kinds & tell_kinds else 0
        self._tell = tell
        self._at = ENTRIES_BEGIN
        self._closing: Closing | None = None
        self.is_done = False

    def step(self, entries_max: int, now_s: float) -> int:
        if self._kinds:
            return self._tell_some(entries_max)
        if self.database is not None:
            self.set_aside()
            return _ENTRIES_PER_FILE
        files = list(self.path.iterdir()) if self.path.exists() else []
        fitting = files[: max(1, entries_max // _ENTRIES_PER_FILE)]
        for file in fitting:
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        if len(fitting) == len(files):
            shutil.rmtree(self.path, ignore_errors=True)
            self.is_done = True
        return max(1, len(fitting)) * _ENTRIES_PER_FILE

    def set_aside(self) -> None:
        """It is in the trash from here on. Its name is free again when it is closed."""
        assert self.database is not None
        self._trash.mkdir(exist_ok=True)
        number = 0
        while (aside := self._trash / f"{self.database.name.replace('/', '_')}.{number}").exists():
            number += 1
        self.path = self.database.path.rename(aside)
        self._closing = self.database.give_away()
        self.database = None

    def must_wait(self, timeout_s: float | None = 0.0) -> bool:
        """Whether it is still being closed, after so long."""
        if self._closing is not None and self._closing.wait(timeout_s):
            self._closing = None
        return self._closing is not None

    def _tell_some(self, entries_max: int) -> int:
        assert self.database is not None
        told: list[Stored] = []
        used = 0
        try:
            for key, value in self.database.entries(self._at):
                if used == entries_max:
                    self._at = key
                    break
                used += 1
                if keys.split_key(key)[1] & self._kinds:
                    record, lists = keys.decode_entry(key, value)
                    if lists:
                        told.append(record)
            else:
                self._kinds = 0
        except (DamagedError, ValueError):
            self._kinds = 0  # it has expired; nobody can miss it
        if told:
            self._tell(told)
        return max(used, 1)


class Move:
    """Copies the subscriptions of one database into another; the rest is left to go with it.

    A subscription is copied whole when its first entry is met, with what it is filed by: whoever removes it between two
    steps then finds all of it in either database. `forgotten` says which subscriptions need not be kept; `done` takes
    the emptied database out.
    """

    def __init__(
        self,
        source: Database,
        target: Callable[[], Database],
        forgotten: Callable[[StoredSubscription, float], bool],
        tell: Tell,
        done: Callable[["Move"], None],
    ) -> None:
        self.source = source
        self._target = target
        self._forgotten = forgotten
        self._tell = tell
        self._done = done
        self._at = ENTRIES_BEGIN
        self.publications_left = 0
        self.is_done = False

    def step(self, entries_max: int, now_s: float) -> int:
        used = 0
        copied: list[tuple[bytes, bytes]] = []
        by_id: list[tuple[bytes, bytes]] = []
        expired: list[Stored] = []
        for key, value in self.source.entries(self._at):
            if used == entries_max:
                self._at = key
                break
            used += 1
            if keys.split_key(key)[1] == Kind.PUBLICATION:
                self.publications_left += 1
                continue
            record, lists = keys.decode_entry(key, value)
            assert isinstance(record, StoredSubscription)
            if not lists:
                continue
            if self._forgotten(record, now_s):
                expired.append(record)
            else:
                copied += keys.entries_of(record, lists)
                by_id.append(keys.by_id_entry(record, lists))
        else:
            self.is_done = True
        if copied:
            self._target().write(Write(entries=copied, others=by_id, kinds=Kind.SUBSCRIPTION))
        if expired:
            self._tell(expired)
        if self.is_done:
            self._move_notes()
            self._done(self)
        return max(used, 1)

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
        self.dead = 0
        self.is_done = False

    def step(self, entries_max: int, now_s: float) -> int:
        used = 0
        for key, value in self.source.entries(self._at):
            if used == entries_max:
                self._at = key
                return used
            used += 1
            self.dead += self._forgotten(keys.decode_subscription(value), now_s)
        self.is_done = True
        self._done(self)
        return max(used, 1)
