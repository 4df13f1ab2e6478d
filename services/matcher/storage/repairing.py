"""A damaged database: repaired in a copy, the damaged one kept aside, the loss counted.

LevelDB's own repair keeps records of a log whose bits have flipped, under a new checksum, and gives up what lies behind
them. So what it leaves is gone through once more (`checking.py`), with the logs (`log_reading.py`) beside it. Whatever
step a crash interrupts, the damaged database or the repaired one is there: `finish_interrupted` takes up what was left.

A repair needs room for the database once more, and for what is rewritten of it meanwhile. One that finds none, or fails
in another way that is not damage, has changed nothing: it is tried again by whoever meets the damage next.
"""

import errno
import math
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import plyvel

from services.matcher.storage import keys
from services.matcher.storage.checking import Check
from services.matcher.storage.database import DamagedError, Database, Write, is_damage
from services.matcher.storage.ledger import free_name
from services.matcher.storage.log_reading import is_broken, is_whole
from services.matcher.storage.records import Damage
from services.matcher.storage.settings import StorageSettings

_UNFINISHED, _REPAIRED = ".repairing", ".repaired"
_ROOM_TO_SPARE = 1024 * 1024  # for LevelDB's own books


def repair(database: Database, reason: str, damaged: Path, settings: StorageSettings, known: int) -> Damage:
    """Leaves the database open. `known` is how many entries it is known to have held. Raises `plyvel.Error` and
    `OSError` when it could not be repaired now.
    """
    known = max(known, database.entries_left)
    database.abandon()
    path = database.path
    kept_at = free_name(damaged, database.name)  # may make a directory, for which a copy may leave no room
    _take_up(path)
    files = {file: file.stat().st_size for file in path.iterdir()}
    logs = [file.read_bytes() for file in sorted(path.glob("*.log"))]
    _demand_room(path, sum(files.values()) + max(files.values(), default=0) + sum(map(len, logs)))
    copy = path.with_name(path.name + _UNFINISHED)
    check = Check(Database(database.name, copy, math.inf, settings), logs)
    try:
        shutil.copytree(path, copy)
        if not _is_repaired(check, copy):
            # Not even that much can be read: it begins anew, and says so.
            check.abandon()
            shutil.rmtree(copy)
            check = Check(Database(database.name, copy, math.inf, settings), logs)
            check.run()
    except BaseException:
        check.abandon()
        shutil.rmtree(copy, ignore_errors=True)  # it would keep the room that was wanting
        raise
    hurt = sorted(
        {*re.findall(r"\d+\.(?:ldb|log)|MANIFEST-\d+", reason), *(file.name for file in copy.glob("lost/*.ldb"))}
    )
    shutil.rmtree(copy / "lost", ignore_errors=True)
    _put_in_place(copy, database, kept_at)
    # Whether something is lost, or had only been written twice, cannot be told of what is simply not there.
    lost_at_most = max(known - check.found, check.lost + check.missing)
    return Damage(database.name, tuple(hurt), reason, check.lost, lost_at_most, str(kept_at))


def _demand_room(path: Path, size: int) -> None:
    free = shutil.disk_usage(path).free
    if free < size + _ROOM_TO_SPARE:
        wanting = (
            f"{os.strerror(errno.ENOSPC)} to repair it: {size + _ROOM_TO_SPARE:,} bytes are needed, {free:,} are free"
        )
        raise OSError(errno.ENOSPC, wanting, str(path))


def _put_in_place(copy: Path, database: Database, kept_at: Path) -> None:
    """Or nothing, where it cannot be opened there."""
    path = database.path
    repaired = copy.rename(path.with_name(path.name + _REPAIRED))
    path.rename(kept_at)
    repaired.rename(path)
    try:
        database.open()
    except BaseException:
        database.abandon()
        path.rename(repaired)
        kept_at.rename(path)
        shutil.rmtree(repaired, ignore_errors=True)
        raise


def _is_repaired(check: Check, copy: Path) -> bool:
    """Raises what is not damage: where there is no room, for example, all of it can still be read later."""
    try:
        plyvel.repair_db(str(copy), paranoid_checks=True)
        for table in copy.glob("lost/*.ldb"):
            if not (copy / table.name).exists():
                # LevelDB says nothing where it finds no room for what it saves of a damaged table.
                _demand_room(copy, table.stat().st_size)
        check.run()
    except (plyvel.Error, DamagedError) as error:
        if isinstance(error, plyvel.Error) and not is_damage(error):
            raise
        return False
    return True


def forget_moved(repaired: Database, others: Sequence[Database]) -> None:
    """A change can take a subscription from one database to another. When the damage hit its removal, the older version
    came back here. Raises `DamagedError`.
    """
    # The ids of windows are gone through, which have fewer than a base.
    gone_through, asked = (others, [repaired]) if repaired.is_base else ([repaired], others)
    for database in gone_through:
        for key, _ in database.entries(keys.BY_ID_BEGIN, keys.BY_ID_END):
            payload = repaired.get(key)
            if payload is not None and any(one.get(key) is not None for one in asked):
                entries = keys.decode_by_id(key[len(keys.BY_ID_BEGIN) :].decode(), payload).keys
                repaired.write(Write(removed=entries, others_removed=[key]))


def what_is_broken(directory: Path) -> str:
    """A log that LevelDB would take for one that ends in the middle, and whose rest it would throw away. With the rest
    of a MANIFEST it would throw away all tables that are named there; what a crash leaves of a record is taken for
    damage too, because a repair looks at every table and every log.
    """
    current = directory / "CURRENT"
    named = current.read_bytes().strip() if current.exists() else b""
    for file in directory.glob("MANIFEST-*"):
        if file.name.encode() == named and not is_whole(file.read_bytes()):
            return f"{file.name} does not end with a whole record"
    for file in sorted(directory.glob("*.log")):
        if is_broken(file.read_bytes()):
            return f"{file.name} has something behind a record that cannot be read"
    return ""


def finish_interrupted(directory: Path) -> None:
    """What a crash left of a repair."""
    left = [path for ending in (_UNFINISHED, _REPAIRED) for path in directory.glob("*" + ending)]
    for path in {path.with_suffix("") for path in left}:
        _take_up(path)


def _take_up(path: Path) -> None:
    unfinished, repaired = path.with_name(path.name + _UNFINISHED), path.with_name(path.name + _REPAIRED)
    if unfinished.exists():
        shutil.rmtree(unfinished)
    if repaired.exists() and path.exists():
        shutil.rmtree(repaired)  # it is repaired again
    elif repaired.exists():
        repaired.rename(path)
