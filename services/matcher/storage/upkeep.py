"""The upkeep of a storage: windows that have passed go, the disk stays below its bound, a base that is mostly dead is
rewritten.

Whatever can take long is a job, done in slices; only the files of what has gone are removed beside them (`trash.py`).
When the disk is nearly full, the window of publications that would
expire first goes first; subscriptions in it move to the base.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import plyvel

from services.matcher.storage.closing import Closing
from services.matcher.storage.database import DamagedError, Database
from services.matcher.storage.disk_use import DiskUse
from services.matcher.storage.jobs import Count, Move, Tell
from services.matcher.storage.ledger import Ledger, Line, Lines
from services.matcher.storage.records import Kind, Stored, StoredSubscription, Usage
from services.matcher.storage.settings import StorageSettings
from services.matcher.storage.trash import Trash, size_of
from services.matcher.storage.windows import Windows

OnExpire = Callable[[Sequence[Stored]], None]
_MEASURE_S = 1.0  # between two measurements of the disk and lines of the ledger
_WAIT_S = 0.001  # in a slice that has nothing to do but to wait
_EVICT_TO = 0.9  # of the level from which publications are given up


class Upkeep:
    def __init__(self, root: Path, parts: Sequence[Windows], settings: StorageSettings, ledger: Ledger) -> None:
        self._trash = Trash(root / "trash")
        self._damaged = root / "damaged"
        self._parts = parts
        self._settings = settings
        self._ledger = ledger
        self._listeners: list[tuple[OnExpire, int]] = []
        self._jobs: list[Tell | Move | Count] = []
        self._measured_s = -math.inf
        self._counted_s = -math.inf
        self.late = 0  # publications, since start
        self.disk = DiskUse(self._trash, settings)
        self._usage = Usage(disk_bytes_max=settings.disk_bytes_max)

    def open(self, now_s: float) -> None:
        self._counted_s = now_s
        self._trash.open()
        self.measure(now_s)  # where that fails it is tried again in a moment, and said

    def listen(self, on_expire: OnExpire, kinds: int) -> None:
        self._listeners.append((on_expire, kinds))

    # Bounds

    @property
    def usage(self) -> Usage:
        self._usage.trash_bytes = self._trash.bytes
        self._usage.disk_bytes = self.disk.bytes
        return self._usage

    def measure(self, now_s: float) -> Exception | None:
        """Also where it cannot be written down; returns why not."""
        self._measured_s = now_s
        databases = [database for part in self._parts for database in part.all()]
        failures = [failure for database in databases if (failure := _failure(database.checkpoint)) is not None]
        going = [job.source for job in self._jobs if isinstance(job, Tell)]
        damaged = sum(map(size_of, self._damaged.iterdir())) if self._damaged.exists() else 0
        self.disk.measured({database.name: database.disk_bytes() for database in (*databases, *going)}, damaged)
        self._usage.damaged_bytes = damaged
        self._usage.databases = len(databases)
        self._usage.entries = sum(database.entries_left for database in databases)
        failure = _failure(self.write_ledger)
        return next(iter(failures), failure)

    def write_ledger(self, *, closed: bool = False) -> None:
        """Only what the databases say of themselves already: theirs is never less, unless something is lost."""
        lines = {
            database.name: Line(*database.saved, database.data_files())
            for part in self._parts
            for database in part.all()
        }
        self._ledger.write(Lines(closed, lines))

    # Slices

    def maintain(self, now_s: float, entries_max: int) -> bool:
        for part in self._parts:
            for database in part.passed(now_s):
                self._drop(part, database)
        unwritten: Exception | None = None
        if not self._measured_s <= now_s < self._measured_s + _MEASURE_S or self.disk.is_nearly_full:
            unwritten = self.measure(now_s)  # as on a full disk, where what follows makes room
            self._plan(now_s)
            self._trash.go_on()
        left = entries_max
        while left > 0 and self._jobs:
            job = self._jobs[0]
            left -= self._step(job, left, now_s)
            if job.is_done:
                self._jobs.remove(job)
        # A slice with nothing to do but to wait would only be followed by the next one, so it waits a little.
        is_removing = self._trash.is_busy(_WAIT_S if left == entries_max else 0.0)
        if (failure := self._trash.failure() or unwritten) is not None:
            raise failure
        return bool(self._jobs) or is_removing

    def _step(self, job: Tell | Move | Count, entries_max: int, now_s: float) -> int:
        try:
            return job.step(entries_max, now_s)
        except DamagedError as error:
            # The next one to read it repairs it; the job goes on from where it was, or is planned again.
            for part in self._parts:
                if error.database in part.all():
                    part.repair(error)
            return entries_max

    def _drop(self, part: Windows, database: Database) -> None:
        part.take_out(database)
        self._jobs = [job for job in self._jobs if job.source is not database]
        self._usage.windows_dropped += 1
        kinds = 0
        for _, wanted in self._listeners:
            kinds |= wanted
        self._jobs.insert(0, Tell(database, kinds, self._tell, self._told))  # before what takes long

    def _told(self, job: Tell) -> None:
        self._throw_away(job.source)

    def _throw_away(self, database: Database) -> Closing | None:
        closing = self._trash.take(database, self.disk.of(database))
        self.disk.forget(database)
        return closing

    def _give_up(self, part: Windows, database: Database) -> None:
        """Before its time: the name of a window must be free at once, because it may come again.

        The ledger forgets it first, or a crash in between would have it say that the database is missing. Where that
        cannot be written, as on a full disk, it goes nevertheless: its room is what is wanting.
        """
        was_leaving = database in part.leaving
        part.take_out(database)
        with contextlib.suppress(OSError):
            self.write_ledger()
        try:
            closing = self._throw_away(database)
        except Exception:
            part.put_back(database, leaving=was_leaving)  # it is still there, so whoever removes something must find it
            raise
        if closing is not None and not database.is_base:
            closing.wait()

    # Plans

    def _plan(self, now_s: float) -> None:
        moving = any(isinstance(job, Move | Count) for job in self._jobs)
        if self.disk.is_nearly_full:
            self._plan_eviction()
        for part in self._parts:
            bases = part.bases()
            if not bases or moving:
                continue
            oldest = bases[0]
            if len(bases) > 1 or self._is_worth_rewriting(oldest.removed, oldest.written):
                self._rewrite(part, oldest)
            elif now_s >= self._counted_s + self._settings.rewrite_check_s and oldest.entries_left:
                self._counted_s = now_s
                self._jobs.append(Count(oldest, self.is_forgotten, partial(self._counted, part)))

    def _is_worth_rewriting(self, dead: int, entries: int) -> bool:
        return dead >= max(self._settings.rewrite_from, entries / 2)

    def _counted(self, part: Windows, count: Count) -> None:
        """Held against what is there: what was written counts entries that were written over, however often."""
        if self._is_worth_rewriting(count.dead, count.seen):
            self._rewrite(part, count.source)

    def _rewrite(self, part: Windows, base: Database) -> None:
        target = part.bases()[-1] if len(part.bases()) > 1 else part.new_base()
        self._jobs.append(Move(base, lambda: target, self.is_forgotten, self._tell, partial(self._rewritten, part)))

    def _rewritten(self, part: Windows, move: Move) -> None:
        self._give_up(part, move.source)

    def _plan_eviction(self) -> None:
        level = self._settings.disk_bytes_max * self._settings.evict_from * _EVICT_TO
        waiting = self._trash.bytes
        waiting += sum(self.disk.of(job.source) for job in self._jobs if isinstance(job, Tell | Move))
        for part in self._parts:
            for database in part.publication_windows():
                if self.disk.bytes - waiting <= level:
                    return
                waiting += self.disk.of(database)
                self._evict(part, database)

    def _evict(self, part: Windows, database: Database) -> None:
        if not database.has(Kind.SUBSCRIPTION):
            self._evicted(part, database, database.entries_left)
            return
        part.leaving.add(database)
        self._jobs.append(
            Move(database, lambda: part.base, self.is_forgotten, self._tell, partial(self._moved_out, part))
        )

    def _moved_out(self, part: Windows, move: Move) -> None:
        self._evicted(part, move.source, move.publications_left)

    def _evicted(self, part: Windows, database: Database, publications: int) -> None:
        self._give_up(part, database)
        self._usage.windows_evicted += 1
        self._usage.publications_evicted += publications

    def came_too_late(self, entries: int) -> None:
        """Of a publication whose window is being given up: it goes with it, and is counted with the others."""
        self._usage.publications_evicted += entries
        self.late += 1

    def close(self) -> None:
        """What was still to be told of has its name as before, what was thrown away lies in the trash."""
        for job in self._jobs:
            if isinstance(job, Tell):
                job.source.close()
        self._trash.close()

    # Listeners

    def is_forgotten(self, subscription: StoredSubscription, now_s: float) -> bool:
        remembered_s = self._settings.remember_s if subscription.distinct else 0.0
        return subscription.until_s + remembered_s <= now_s

    def _tell(self, records: list[Stored]) -> None:
        for on_expire, kinds in self._listeners:
            wanted = [
                record
                for record in records
                if kinds & (Kind.SUBSCRIPTION if isinstance(record, StoredSubscription) else Kind.PUBLICATION)
            ]
            if wanted:
                on_expire(wanted)


def _failure(write: Callable[[], None]) -> Exception | None:
    try:
        write()
    except (OSError, plyvel.Error) as error:
        return error
    return None
