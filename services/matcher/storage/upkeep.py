"""The upkeep of a storage: windows that have passed go, the disk stays below its bound, a base that is mostly dead is
rewritten.

Whatever can take long is a job, done in slices. When the disk is nearly full, the window of publications that would
expire first goes first; subscriptions in it move to the base.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from services.matcher.storage.database import DamagedError, Database
from services.matcher.storage.jobs import Count, Empty, Move
from services.matcher.storage.ledger import Ledger, Line, Lines
from services.matcher.storage.records import Kind, Stored, StoredSubscription, Usage
from services.matcher.storage.settings import StorageSettings
from services.matcher.storage.windows import Windows

OnExpire = Callable[[Sequence[Stored]], None]
_MEASURE_S = 1.0  # between two measurements of the disk and lines of the ledger
_WAIT_S = 0.001  # in a slice that has nothing to do but to wait
_EVICT_TO = 0.9  # of the level from which publications are given up


class Upkeep:
    def __init__(self, root: Path, parts: Sequence[Windows], settings: StorageSettings, ledger: Ledger) -> None:
        self._trash = root / "trash"
        self._damaged = root / "damaged"
        self._parts = parts
        self._settings = settings
        self._ledger = ledger
        self._listeners: list[tuple[OnExpire, int]] = []
        self._jobs: list[Empty | Move | Count] = []
        self._measured_s = -math.inf
        self._counted_s = -math.inf
        self._bytes_since = 0  # written since the disk was measured
        self.usage = Usage(disk_bytes_max=settings.disk_bytes_max)

    def open(self, now_s: float) -> None:
        self._counted_s = now_s
        if self._trash.exists():
            self._jobs = [Empty(self._trash, None, path, 0, self._tell) for path in sorted(self._trash.iterdir())]
        self.measure(now_s)

    def listen(self, on_expire: OnExpire, kinds: int) -> None:
        self._listeners.append((on_expire, kinds))

    # Bounds

    def note_written(self, size: int) -> None:
        self._bytes_since += size

    @property
    def is_full(self) -> bool:
        return self.usage.disk_bytes + self._bytes_since >= self._settings.disk_bytes_max

    @property
    def is_nearly_full(self) -> bool:
        level = self._settings.disk_bytes_max * self._settings.evict_from
        return self.usage.disk_bytes + self._bytes_since >= level

    def measure(self, now_s: float) -> None:
        self._measured_s = now_s
        self._bytes_since = 0
        databases = [database for part in self._parts for database in part.all()]
        for database in databases:
            database.checkpoint()
        self.usage.disk_bytes = sum(database.disk_bytes() for database in databases)
        self.usage.disk_bytes += sum(_size(job.path) for job in self._jobs if isinstance(job, Empty))
        self.usage.damaged_bytes = sum(_size(path) for path in self._damaged.iterdir()) if self._damaged.exists() else 0
        self.usage.disk_bytes += self.usage.damaged_bytes
        self.usage.databases = len(databases)
        self.usage.entries = sum(database.entries_left for database in databases)
        self.write_ledger()

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
        if not self._measured_s <= now_s < self._measured_s + _MEASURE_S or self.is_nearly_full:
            self.measure(now_s)
            self._plan(now_s)
        left = entries_max
        while left > 0 and (job := self._next_job()) is not None:
            left -= self._step(job, left, now_s)
            if job.is_done:
                self._jobs.remove(job)
        return bool(self._jobs)

    def _next_job(self) -> "Empty | Move | Count | None":
        """The first that need not wait. Where all must, one is waited for, a little: a slice with nothing in it would
        only be followed by the next one.
        """
        for job in self._jobs:
            if not isinstance(job, Empty) or not job.must_wait():
                return job
        first = self._jobs[0] if self._jobs else None
        return first if isinstance(first, Empty) and not first.must_wait(_WAIT_S) else None

    def _step(self, job: Empty | Move | Count, entries_max: int, now_s: float) -> int:
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
        self._jobs = [job for job in self._jobs if isinstance(job, Empty) or job.source is not database]
        kinds = 0
        for _, wanted in self._listeners:
            kinds |= wanted
        self._jobs.append(Empty(self._trash, database, database.path, kinds, self._tell))
        self.usage.windows_dropped += 1

    def _give_up(self, part: Windows, database: Database) -> None:
        """Before its time: the name of a window must be free at once, because it may come again."""
        part.take_out(database)
        self.write_ledger()
        job = Empty(self._trash, database, database.path, 0, self._tell)
        job.set_aside()
        if not database.is_base:
            job.must_wait(None)
        self._jobs.append(job)

    # Plans

    def _plan(self, now_s: float) -> None:
        moving = any(isinstance(job, Move | Count) for job in self._jobs)
        if self.is_nearly_full:
            self._plan_eviction()
        for part in self._parts:
            bases = part.bases()
            if not bases or moving:
                continue
            oldest = bases[0]
            if len(bases) > 1 or self._is_worth_rewriting(oldest, 0):
                self._rewrite(part, oldest)
            elif now_s >= self._counted_s + self._settings.rewrite_check_s and oldest.entries_left:
                self._counted_s = now_s
                self._jobs.append(Count(oldest, self.is_forgotten, partial(self._counted, part)))

    def _is_worth_rewriting(self, base: Database, dead: int) -> bool:
        return base.removed + dead >= max(self._settings.rewrite_from, base.written / 2)

    def _counted(self, part: Windows, count: Count) -> None:
        if self._is_worth_rewriting(count.source, count.dead):
            self._rewrite(part, count.source)

    def _rewrite(self, part: Windows, base: Database) -> None:
        target = part.bases()[-1] if len(part.bases()) > 1 else part.new_base()
        self._jobs.append(Move(base, lambda: target, self.is_forgotten, self._tell, partial(self._rewritten, part)))

    def _rewritten(self, part: Windows, move: Move) -> None:
        self._give_up(part, move.source)

    def _plan_eviction(self) -> None:
        level = self._settings.disk_bytes_max * self._settings.evict_from * _EVICT_TO
        waiting = sum(_size(job.path) for job in self._jobs if isinstance(job, Empty))
        waiting += sum(job.source.disk_bytes() for job in self._jobs if isinstance(job, Move))
        for part in self._parts:
            for database in part.publication_windows():
                if self.usage.disk_bytes - waiting <= level:
                    return
                waiting += database.disk_bytes()
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
        self.usage.windows_evicted += 1
        self.usage.publications_evicted += publications
        self._give_up(part, database)

    def close(self) -> None:
        """What was still to be emptied has its name as before, or lies in the trash already."""
        for job in self._jobs:
            if isinstance(job, Empty):
                job.must_wait(None)
                if job.database is not None:
                    job.database.close()

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


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.iterdir()) if path.exists() else 0
