"""Closing: LevelDB may be busy with another database, and nobody but the one that closes waits for it."""

import random
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import plyvel
import pytest

from braid.leveldb import settle
from services.matcher.storage.closing import Closing
from services.matcher.storage.database import Database
from services.matcher.storage.dual import DualDB
from services.matcher.storage.keys import list_id
from services.matcher.storage.records import Filed, Kind
from services.matcher.storage.settings import StorageSettings
from tests.core.storage.cases import NOW_S, SMALL, everything, maintain_fully, publication

pytestmark = pytest.mark.slow

HELD_S_MAX = 0.010


class Timed:
    """Knows how long closing held the interpreter."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self.held_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def close(self) -> None:
        began_s = time.perf_counter()
        self._database.close()
        self.held_s = time.perf_counter() - began_s


def filled(path: Path, megabytes: int) -> Any:
    database = plyvel.DB(str(path), create_if_missing=True, write_buffer_size=1024 * 1024)
    chance = random.Random(str(path))
    for _ in range(megabytes):
        with database.write_batch() as batch:
            for _ in range(1000):
                batch.put(chance.randbytes(16), chance.randbytes(1000))
    return database


@pytest.fixture
def busy(tmp_path: Path) -> Any:
    """Makes LevelDB compact something large in the background."""
    large: list[Any] = []
    threads: list[threading.Thread] = []

    def begin() -> None:
        large.append(filled(tmp_path / f"large-{len(large)}", 25))
        compact = partial(large[-1].compact_range, start=b"\x00", stop=b"\xff" * 20)
        threads.append(threading.Thread(target=compact))
        threads[-1].start()

    yield begin
    for thread, database in zip(threads, large, strict=True):
        thread.join()
        database.close()


def shortest_s(path: Path, busy: Any, close: Any) -> float:
    """Of three, because whoever holds the interpreter may be interrupted himself."""
    held_s = []
    for number in range(3):
        timed = Timed(filled(path / f"small-{number}", 3))
        settle(timed)
        busy()
        timed.put(b"\x00", bytes(2 * 1024 * 1024))
        timed.put(b"\x01", b"")  # the buffer is full, so a table is to be written
        close(timed, path / f"small-{number}")
        held_s.append(timed.held_s)
    return min(held_s)


def test_a_database_that_goes_is_closed_when_nothing_is_planned_for_it(tmp_path: Path, busy: Any) -> None:
    def close(timed: Timed, path: Path) -> None:
        path.rename(path.with_suffix(".aside"))
        Closing(timed).wait()

    assert shortest_s(tmp_path, busy, close) < HELD_S_MAX


def test_a_damaged_database_is_closed_when_nothing_is_planned_for_it(tmp_path: Path, busy: Any) -> None:
    def close(timed: Timed, path: Path) -> None:
        database = Database("small", path, 0.0, SMALL)
        database._database = timed
        database.abandon()

    assert shortest_s(tmp_path, busy, close) < HELD_S_MAX


def test_what_is_settled_is_as_it_was(tmp_path: Path) -> None:
    database = filled(tmp_path / "one", 2)
    before = list(database)
    settle(database)
    assert list(database) == before
    database.close()


def test_nobody_waits_for_a_window_that_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else is to be done is done meanwhile, also by other windows."""
    free = threading.Event()
    monkeypatch.setattr("services.matcher.storage.closing._close", lambda database: (free.wait(), database.close()))
    storage = DualDB(tmp_path, SMALL, NOW_S)
    for life_s in (1, 3, 7):
        storage.put([Filed(publication("p", expires_s=NOW_S + life_s), (list_id("a"),))], NOW_S)
    assert storage.maintain(NOW_S + 4)
    assert {path.name for path in (tmp_path / "dual").iterdir()} == {"2-500003"}
    assert len(list((tmp_path / "trash").iterdir())) == 2
    assert [one.record.id for one in everything(storage, Kind.PUBLICATION, NOW_S + 4)] == ["p"]
    assert storage.maintain(NOW_S + 4)
    free.set()
    maintain_fully(storage, NOW_S + 4)
    assert list((tmp_path / "trash").iterdir()) == []
    storage.close()


def test_a_storage_that_is_closed_waits_for_windows_that_go(tmp_path: Path) -> None:
    settings = StorageSettings()
    storage = DualDB(tmp_path, settings, NOW_S)
    storage.put([Filed(publication("p", expires_s=NOW_S + 1), (list_id("a"),))], NOW_S)
    storage.maintain(NOW_S + 20)
    storage.close()
    storage = DualDB(tmp_path, settings, NOW_S + 20)
    maintain_fully(storage, NOW_S + 20)
    assert storage.damages == []
    assert list((tmp_path / "trash").iterdir()) == []
    storage.close()
