"""A damaged database: repaired in a copy, the damaged one kept aside, the loss counted.

LevelDB's own repair keeps records of a log whose bits have flipped, under a new checksum, and gives up what lies behind
them. So logs are read once more (`log_reading.py`), what is missing is taken from there, every record is held against
its own checksum, and what fails is removed. Whatever step a crash interrupts, the damaged database
or the repaired one is there: `finish_interrupted` takes up what was left.
"""

import math
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import plyvel

from services.matcher.storage import keys
from services.matcher.storage.database import DamagedError, Database, Write
from services.matcher.storage.ledger import free_name
from services.matcher.storage.log_reading import changes_in, is_broken
from services.matcher.storage.records import Damage, Kind, Stored, StoredSubscription
from services.matcher.storage.settings import StorageSettings

_UNFINISHED, _REPAIRED = ".repairing", ".repaired"
_BATCH = 1000


def repair(database: Database, reason: str, damaged: Path, settings: StorageSettings, known: int) -> Damage:
    """Leaves the database open. `known` is how many entries it is known to have held."""
    known = max(known, database.entries_left)
    database.abandon()
    path = database.path
    logs = [file.read_bytes() for file in sorted(path.glob("*.log"))] if path.exists() else []
    copy = path.with_name(path.name + _UNFINISHED)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    check = _Check(Database(database.name, copy, math.inf, settings), logs)
    try:
        plyvel.repair_db(str(copy), paranoid_checks=True)
        check.run()
    except (plyvel.Error, DamagedError):
        # Not even that much can be read: it begins anew, and says so.
        check.abandon()
        shutil.rmtree(copy)
        check = _Check(Database(database.name, copy, math.inf, settings), logs)
        check.run()
    hurt = sorted({*re.findall(r"\d+\.(?:ldb|log)", reason), *(file.name for file in copy.glob("lost/*.ldb"))})
    shutil.rmtree(copy / "lost", ignore_errors=True)
    repaired = copy.rename(path.with_name(path.name + _REPAIRED))
    kept_at = free_name(damaged, database.name)
    path.rename(kept_at)
    repaired.rename(path)
    database.open()
    lost_at_most = max(known - check.found, check.wrong)
    # Whether something is lost, or had only been written twice, cannot be told of what is simply not there.
    return Damage(database.name, tuple(hurt), reason, check.wrong, lost_at_most, str(kept_at))


def what_is_broken(directory: Path) -> str:
    """A log that LevelDB would take for one that ends in the middle, and whose rest it would throw away."""
    for file in sorted(directory.glob("*.log")):
        if is_broken(file.read_bytes()):
            return f"{file.name} has something behind a record that cannot be read"
    return ""


def finish_interrupted(directory: Path) -> None:
    """What a crash left of a repair."""
    for path in list(directory.glob("*" + _UNFINISHED)):
        shutil.rmtree(path)
    for path in list(directory.glob("*" + _REPAIRED)):
        target = path.with_name(path.name.removesuffix(_REPAIRED))
        if target.exists():
            shutil.rmtree(path)  # it is repaired again
        else:
            path.rename(target)


class _Check:
    """Goes through all of a repaired copy: removes what is not what was written, and files the rest anew."""

    def __init__(self, database: Database, logs: Sequence[bytes]) -> None:
        self._database = database
        self._logs = logs
        # What lies in several lists, and all subscriptions: in which lists they were found.
        self._filed: dict[tuple[Kind, str], tuple[Stored, list[bytes]]] = {}
        self.found = 0
        self.wrong = 0
        self._kinds = 0
        self._newest_s = -math.inf

    def run(self) -> None:
        database = self._database
        database.open()
        self._take_from_logs()
        obsolete = [key for key, _ in database.entries(keys.BY_ID_BEGIN, keys.BY_ID_END)]
        for key, value in database.entries():
            try:
                record, lists = keys.decode_entry(key, value)
            except ValueError:  # also what the decoder of a record says
                obsolete.append(key)
                self.wrong += 1
            else:
                self._note(key, record, lists)
        for begin in range(0, len(obsolete), _BATCH):
            database.write(Write(others_removed=obsolete[begin : begin + _BATCH]))
        for record, found_in in self._filed.values():
            by_id = [keys.by_id_entry(record, found_in)] if isinstance(record, StoredSubscription) else []
            database.write(Write(entries=keys.entries_of(record, found_in), others=by_id))
        database.reset_counters(self.found, self._kinds, self._newest_s)
        database.close()

    def abandon(self) -> None:
        self._database.abandon()

    def _take_from_logs(self) -> None:
        """What is missing, or not what was written. What a log does not delete may have been deleted elsewhere."""
        latest = {key: value for log in self._logs for key, value in changes_in(log)}
        missing = [(key, value) for key, value in latest.items() if value is not None and self._is_wanted(key, value)]
        for begin in range(0, len(missing), _BATCH):
            self._database.write(Write(others=missing[begin : begin + _BATCH]))

    def _is_wanted(self, key: bytes, value: bytes) -> bool:
        if key == keys.COUNTERS_KEY or keys.BY_ID_BEGIN <= key < keys.BY_ID_END:
            return False  # these are made anew
        try:
            keys.opened(key, value)
        except ValueError:
            return False
        try:
            return self._database.get(key) is None
        except DamagedError:
            return True

    def _note(self, key: bytes, record: Stored, lists: tuple[bytes, ...]) -> None:
        kind = keys.kind_of(record)
        self.found += 1
        self._kinds |= kind
        if kind is Kind.PUBLICATION:
            self._newest_s = max(self._newest_s, record.made_s)
        if kind is Kind.SUBSCRIPTION or len(lists) != 1:
            self._filed.setdefault((kind, record.id), (record, []))[1].append(keys.split_key(key)[0])
