"""Damage that is met while the volume is full: nothing is given up for want of room."""

import shutil
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import plyvel
import pytest

from services.matcher.storage.database import Database
from services.matcher.storage.dual import DualDB
from services.matcher.storage.ledger import Ledger
from services.matcher.storage.records import Kind
from tests.core.storage.cases import NOW_S, everything
from tests.core.storage.test_damage import (
    COUNT,
    SETTINGS,
    fill,
    fill_with_tables,
    flip,
    largest,
    no_room,
    reopened,
    shortened,
)

pytestmark = pytest.mark.slow


def ids(storage: DualDB) -> set[str]:
    return {one.record.id for one in everything(storage, Kind.SUBSCRIPTION, NOW_S, 1000)}


def with_free(monkeypatch: pytest.MonkeyPatch, *free: int) -> None:
    """Bytes on the volume, each time that somebody asks; at last always as many."""
    answers = chain(free[:-1], repeat(free[-1]))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=next(answers)))


def test_without_room_for_a_copy_none_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the last room from everybody else on the volume for a moment, again and again."""
    manifest = fill_with_tables(tmp_path, is_closed=True)
    manifest.write_bytes(shortened(manifest.read_bytes(), 3))
    size = sum(file.stat().st_size for file in manifest.parent.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copytree", lambda *_: pytest.fail("it was copied"))
        with_free(patch, size)
        with pytest.raises(OSError, match="No space left on device to repair it"):
            DualDB(tmp_path, SETTINGS, NOW_S)
    storage, found, _ = reopened(tmp_path)
    assert len(found) == 801
    storage.close()


def test_a_table_that_leveldb_found_no_room_to_save_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it can read of a damaged table goes to a new one. Without room it removes that one, and says nothing."""
    table = largest(fill(tmp_path, in_tables=True), ".ldb")
    storage = DualDB(tmp_path, SETTINGS, NOW_S)
    flip(table, table.stat().st_size // 2)
    really_repair = plyvel.repair_db

    def repair_without_room(copy: str, **options: Any) -> None:
        really_repair(copy, **options)
        assert Path(copy, "lost", table.name).exists()
        Path(copy, table.name).unlink()

    with monkeypatch.context() as patch:
        patch.setattr(plyvel, "repair_db", repair_without_room)
        with_free(patch, 10**9, table.stat().st_size - 1)
        with pytest.raises(OSError, match="No space left on device to repair it"):
            ids(storage)
    assert len(ids(storage)) > 0.9 * COUNT
    (damage,) = storage.damages
    assert damage.lost_at_most < 0.1 * COUNT
    storage.close()


def test_a_start_that_fails_leaves_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It alone knows what is missing at the next one."""
    fill_with_tables(tmp_path, is_closed=True)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "write", no_room)
        patch.setattr(Database, "_connect", no_room)
        with pytest.raises(plyvel.IOError):
            DualDB(tmp_path, SETTINGS, NOW_S)
    shutil.rmtree(tmp_path / "dual" / "base-0")
    storage, found, damages = reopened(tmp_path)
    assert (len(found), [damage.database for damage in damages]) == (0, ["dual/base-0"])
    storage.close()
