"""Writes that fail in the middle: what was acknowledged before and after is there, whoever wrote."""

import contextlib
import errno
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import plyvel
import pytest

from services.matcher.storage.database import Database, Write
from services.matcher.storage.disk_use import DiskUse
from services.matcher.storage.dual import DualDB
from services.matcher.storage.keys import list_id
from services.matcher.storage.ledger import Ledger
from services.matcher.storage.records import Filed, Kind, Stored
from services.matcher.storage.settings import StorageSettings
from services.matcher.storage.trash import Trash
from tests.core.storage.cases import NOW_S, SMALL, A, everything, maintain_fully, publication, subscription
from tests.core.storage.failing import FailingWrite
from tests.core.storage.test_damage import SETTINGS

AFTER = 50
SHORT_WRITE = """
import os, resource, signal, sys
from pathlib import Path
import plyvel
from services.matcher.storage.dual import DualDB
from services.matcher.storage.records import Filed
from tests.core.storage.cases import NOW_S, A, subscription
from tests.core.storage.test_damage import SETTINGS

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
root, after = Path(sys.argv[1]), int(sys.argv[2])
storage = DualDB(root, SETTINGS, NOW_S)
storage.put([Filed(subscription("before"), (A,))], NOW_S)
size = next((root / "dual" / "base-0").glob("*.log")).stat().st_size
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, unlimited[1]))
try:
    storage.maintain(NOW_S + 5)
except plyvel.Error as error:
    print(error, flush=True)  # the end below does not wait for it
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
for number in range(after):
    storage.put([Filed(subscription(f"s{number}"), (A,))], NOW_S + 6)
os._exit(0)  # as `kill -9` does, at a moment that is known
"""


def ids(storage: DualDB, kind: Kind, now_s: float) -> set[str]:
    return {one.record.id for one in everything(storage, kind, now_s, 1000)}


def test_counters_that_are_written_by_half_lose_nothing_that_is_written_behind_them(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SHORT_WRITE, str(tmp_path), str(AFTER)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "File too large" in told
    storage = DualDB(tmp_path, SETTINGS, NOW_S + 10)
    assert ids(storage, Kind.SUBSCRIPTION, NOW_S + 10) == {"before", *(f"s{number}" for number in range(AFTER))}
    assert storage.damages == []
    storage.close()


def fail_once(monkeypatch: pytest.MonkeyPatch, name: str, nth: int) -> None:
    """The nth write of entries to this database finds no room."""
    real, calls = Database.write, 0

    def write(self: Database, write: Write) -> None:
        nonlocal calls
        if self.name == name and write.entries:
            calls += 1
            if calls == nth:
                raise plyvel.IOError(b"IO error: 000003.log: No space left on device")
        real(self, write)

    monkeypatch.setattr(Database, "write", write)


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, "no space left on device")


@pytest.mark.parametrize("nth", [1, 2, 10], ids=["first", "second", "last"])
def test_a_slice_that_could_not_be_copied_is_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    storage = DualDB(tmp_path, StorageSettings(), NOW_S)
    storage.put([Filed(subscription(f"s{number}"), (A,)) for number in range(100)], NOW_S)
    windows = storage._subscriptions
    storage._upkeep._rewrite(windows, windows.base)
    fail_once(monkeypatch, "dual/base-1", nth)
    with pytest.raises(plyvel.IOError, match="No space"):
        maintain_fully(storage, NOW_S, 10)
    maintain_fully(storage, NOW_S, 10)
    assert [base.name for base in windows.bases()] == ["dual/base-1"]
    assert len(ids(storage, Kind.SUBSCRIPTION, NOW_S)) == 100
    storage.close()


@pytest.mark.parametrize("nth", [1, 2])
def test_a_window_that_is_given_up_loses_no_subscription_and_counts_each_publication_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    storage = DualDB(tmp_path, SMALL, NOW_S)
    for number in range(10):
        ends_s = NOW_S + 1
        storage.put([Filed(subscription(f"s{number}", until_s=ends_s), (A,))], NOW_S)
        storage.put([Filed(publication(f"p{number}", expires_s=ends_s), (A,))], NOW_S)
    windows = storage._subscriptions
    (window,) = windows.publication_windows()
    storage._upkeep._evict(windows, window)
    fail_once(monkeypatch, "dual/base-0", nth)
    with pytest.raises(plyvel.IOError, match="No space"):
        maintain_fully(storage, NOW_S, 7)
    maintain_fully(storage, NOW_S, 7)
    assert len(ids(storage, Kind.SUBSCRIPTION, NOW_S)) == 10
    assert ids(storage, Kind.PUBLICATION, NOW_S) == set()
    assert (storage.usage().windows_evicted, storage.usage().publications_evicted) == (1, 10)
    storage.close()


def test_what_was_copied_is_not_copied_again_when_the_old_one_cannot_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may have ended it since."""
    storage = DualDB(tmp_path, StorageSettings(), NOW_S)
    storage.put([Filed(subscription(f"s{number}"), (A,)) for number in range(20)], NOW_S)
    windows, upkeep = storage._subscriptions, storage._upkeep
    upkeep._rewrite(windows, windows.base)

    with monkeypatch.context() as patch:
        patch.setattr(Trash, "take", no_room)
        with pytest.raises(OSError, match="no space"):
            upkeep._jobs[0].step(50, NOW_S)
        assert storage.unsubscribe(["s7"], NOW_S) == 1
    copied = shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-killed"))
    killed = DualDB(copied, StorageSettings(), NOW_S)
    assert ids(killed, Kind.SUBSCRIPTION, NOW_S) == {f"s{number}" for number in range(20)} - {"s7"}
    killed.close()
    maintain_fully(storage, NOW_S)
    assert ids(storage, Kind.SUBSCRIPTION, NOW_S) == {f"s{number}" for number in range(20)} - {"s7"}
    storage.close()


def test_publications_that_come_while_their_window_goes_are_counted(tmp_path: Path) -> None:
    storage = DualDB(tmp_path, SMALL, NOW_S)
    ends_s = NOW_S + 1
    storage.put([Filed(subscription(f"s{number}", until_s=ends_s), (A,)) for number in range(20)], NOW_S)
    storage.put([Filed(publication(f"p{number}", expires_s=ends_s), (A,)) for number in range(20)], NOW_S)
    windows = storage._subscriptions
    (window,) = windows.publication_windows()
    storage._upkeep._evict(windows, window)
    storage.maintain(NOW_S, 35)
    for number in range(20, 40):  # newer ones lie before those that were looked at last
        storage.put([Filed(publication(f"p{number}", NOW_S + 0.5, expires_s=ends_s), (A,))], NOW_S + 0.5)
    maintain_fully(storage, NOW_S + 0.5)
    left = ids(storage, Kind.PUBLICATION, NOW_S + 0.5)
    assert storage.usage().publications_evicted + len(left) == 40
    assert len(ids(storage, Kind.SUBSCRIPTION, NOW_S + 0.5)) == 20
    storage.close()


def test_a_window_without_subscriptions_that_cannot_go_yet_is_counted_when_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = DualDB(tmp_path, SMALL, NOW_S)
    storage.put([Filed(publication(f"p{number}", expires_s=NOW_S + 1), (A,)) for number in range(20)], NOW_S)
    windows, upkeep = storage._publications, storage._upkeep
    (window,) = windows.publication_windows()

    with monkeypatch.context() as patch:
        patch.setattr(Trash, "take", no_room)
        with pytest.raises(OSError, match="no space"):
            upkeep._evict(windows, window)
    assert len(ids(storage, Kind.PUBLICATION, NOW_S)) == 20
    assert storage.usage().publications_evicted == 0
    upkeep._evict(windows, window)
    assert (ids(storage, Kind.PUBLICATION, NOW_S), storage.usage().publications_evicted) == (set(), 20)
    storage.close()


def test_while_the_ledger_cannot_be_written_room_is_made_nevertheless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full for good, and held by what has passed, or may go before its time."""
    storage = DualDB(tmp_path, SMALL, NOW_S)
    for after_s in (1, 100):
        publications = [publication(f"p{after_s}-{number}", expires_s=NOW_S + after_s) for number in range(20)]
        storage.put([Filed(one, (A,)) for one in publications], NOW_S)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "write", no_room)
        patch.setattr(DiskUse, "is_nearly_full", True)
        for step in range(5):
            with pytest.raises(OSError, match="no space"):
                storage.maintain(NOW_S + 10 + step)
            storage._upkeep._trash.is_busy(None)
        assert storage.usage().windows_dropped == 1
        assert [path.name for path in (tmp_path / "dual").iterdir()] != []
        patch.setattr(DiskUse, "bytes", math.inf)
        for step in range(5):
            with pytest.raises(OSError, match="no space"):
                storage.maintain(NOW_S + 20 + step)
            storage._upkeep._trash.is_busy(None)
        assert storage.usage().windows_evicted == 1
    assert [path.name for path in (tmp_path / "dual").iterdir()] == []
    storage.close()


def test_a_ledger_that_cannot_be_written_at_the_start_is_no_damage_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = DualDB(tmp_path, SETTINGS, NOW_S)
    storage.put([Filed(subscription("s"), (A,))], NOW_S)
    storage.close()
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "write", no_room)
        storage = DualDB(tmp_path, SETTINGS, NOW_S)
        storage.put([Filed(subscription("t"), (A,))], NOW_S)
    copied = shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-killed"))
    killed = DualDB(copied, SETTINGS, NOW_S)
    assert (ids(killed, Kind.SUBSCRIPTION, NOW_S), killed.damages) == ({"s", "t"}, [])
    killed.close()
    storage.close()


def test_a_window_that_cannot_be_read_goes_untold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LevelDB needs room to open a database again; and this one is the room."""
    storage = DualDB(tmp_path, SMALL, NOW_S)
    told: list[Stored] = []
    storage.listen(told.extend)
    storage.put([Filed(subscription("s", until_s=NOW_S + 1), (A,))], NOW_S)

    def fail(self: Database, *_: object) -> Iterator[tuple[bytes, bytes]]:
        raise plyvel.IOError(b"IO error: 000007.ldb: No space left on device")

    monkeypatch.setattr(Database, "entries", fail)
    failed = 0
    while storage.usage().windows_dropped == 0 or storage._upkeep._jobs:
        try:
            storage.maintain(NOW_S + 10)
        except plyvel.IOError:
            failed += 1
    assert (failed, told) == (4, [])
    maintain_fully(storage, NOW_S + 10)
    assert [path.name for path in (tmp_path / "dual").iterdir()] == []
    storage.close()


# Replacing


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("until_s", [NOW_S + 5, math.inf], ids=["to a window", "within the base"])
@pytest.mark.parametrize("distinct", [False, True])
def test_what_could_not_be_replaced_and_has_ended_does_not_come_back(
    tmp_path: Path, number: int, until_s: float, distinct: bool
) -> None:
    storage = DualDB(tmp_path, StorageSettings(), NOW_S)
    storage.put([Filed(subscription("s", distinct=distinct), (A,))], NOW_S)
    storage.put([Filed(subscription("o", until_s=NOW_S + 5), (A,))], NOW_S)  # so that the window is there
    with FailingWrite(storage, number), contextlib.suppress(plyvel.IOError):
        storage.replace(subscription("s", until_s=until_s, distinct=distinct), (list_id("b"),), NOW_S + 1)
    assert storage.unsubscribe(["s"], NOW_S + 2) == 1
    for _ in range(2):
        assert ids(storage, Kind.SUBSCRIPTION, NOW_S + 3) == {"o"}
        storage.close()
        storage = DualDB(tmp_path, StorageSettings(), NOW_S + 3)
    storage.close()


def test_what_was_intended_in_an_older_base_replaces_nothing_newer(tmp_path: Path) -> None:
    storage = DualDB(tmp_path, StorageSettings(), NOW_S)
    storage.put([Filed(subscription("s"), (A,))], NOW_S)
    with FailingWrite(storage, 2), pytest.raises(plyvel.IOError):
        storage.replace(subscription("s", body=b"first"), (A,), NOW_S)
    windows = storage._subscriptions
    storage._upkeep._rewrite(windows, windows.base)
    storage.replace(subscription("s", body=b"second"), (A,), NOW_S)
    maintain_fully(storage, NOW_S)
    storage.close()
    storage = DualDB(tmp_path, StorageSettings(), NOW_S)
    (found,) = everything(storage, Kind.SUBSCRIPTION, NOW_S)
    assert found.record.body == b"second"
    storage.close()
