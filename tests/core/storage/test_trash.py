"""What went is gone at once; its space is given back beside everything else, and counts until it really is."""

import os
import random
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from services.matcher.storage.dual import DualDB
from services.matcher.storage.keys import list_id
from services.matcher.storage.records import Filed, StorageFullError, Stored
from tests.core.storage.cases import NOW_S, SMALL, A, maintain_fully, publication, subscription

pytestmark = pytest.mark.slow

PASSED_S = NOW_S + 2


def with_a_window(root: Path, records: int = 200) -> DualDB:
    storage = DualDB(root, SMALL, NOW_S)
    chance = random.Random(1)
    filed = [
        Filed(publication(f"p{n}", expires_s=NOW_S + 1, body=chance.randbytes(1000)), (A,)) for n in range(records)
    ]
    storage.put(filed, NOW_S)
    return storage


def on_disk(root: Path) -> int:
    parts = [path for part in ("dual", "trash") for path in (root / part).rglob("*")]
    return sum(path.stat().st_size for path in parts if path.is_file())


@pytest.fixture
def closing(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Nothing is closed before this is set."""
    free = threading.Event()
    monkeypatch.setattr("services.matcher.storage.closing._close", lambda database: (free.wait(), database.close()))
    return free


def test_a_window_is_gone_before_its_space_is_given_back(tmp_path: Path, closing: threading.Event) -> None:
    storage = with_a_window(tmp_path)
    assert storage.maintain(PASSED_S)
    assert list((tmp_path / "dual").iterdir()) == []
    assert storage.usage().trash_bytes >= 200_000
    closing.set()
    maintain_fully(storage, PASSED_S)
    assert storage.usage().trash_bytes == 0
    assert on_disk(tmp_path) == 0
    storage.close()


def test_what_is_thrown_away_is_counted_once_until_it_is_removed(tmp_path: Path, closing: threading.Event) -> None:
    storage = with_a_window(tmp_path)
    storage.maintain(NOW_S + 1.5)
    measured = storage.usage().disk_bytes
    storage.maintain(PASSED_S)
    assert measured <= storage.usage().disk_bytes < 1.1 * measured
    closing.set()
    maintain_fully(storage, PASSED_S)
    assert storage.usage().disk_bytes == 0
    storage.close()


def test_there_is_room_as_soon_as_the_space_is_given_back(tmp_path: Path) -> None:
    """Without another look at the disk: the time does not go on."""
    storage = DualDB(tmp_path, replace(SMALL, disk_bytes_max=300_000, evict_from=2.0), NOW_S)
    chance = random.Random(1)

    def fill() -> None:
        for number in range(1000):
            storage.publish(publication(f"p{number}", expires_s=NOW_S + 1, body=chance.randbytes(1000)), [A], NOW_S)

    with pytest.raises(StorageFullError):
        fill()
    storage.maintain(PASSED_S - 0.5)
    maintain_fully(storage, PASSED_S)
    storage.publish(publication("new", PASSED_S, expires_s=PASSED_S + 1), [A], PASSED_S)
    storage.close()


def test_what_was_left_in_the_trash_is_found_again_and_removed(tmp_path: Path, closing: threading.Event) -> None:
    storage = with_a_window(tmp_path)
    storage.maintain(PASSED_S)
    threading.Timer(0.05, closing.set).start()
    storage.close()  # waits for what is being closed, and removes no more
    left = on_disk(tmp_path)
    assert left >= 200_000
    storage = DualDB(tmp_path, SMALL, PASSED_S)
    assert storage.usage().trash_bytes <= left
    maintain_fully(storage, PASSED_S)
    assert on_disk(tmp_path) == storage.usage().disk_bytes == 0
    assert storage.damages == []
    storage.close()


def test_what_cannot_be_removed_counts_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = with_a_window(tmp_path)

    def fail(_path: str) -> None:
        raise PermissionError("no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fail)
        with pytest.raises(PermissionError):
            maintain_fully(storage, PASSED_S)
        assert storage.usage().trash_bytes >= 200_000
    maintain_fully(storage, PASSED_S + 2)
    assert on_disk(tmp_path) == 0
    storage.close()


def test_a_window_that_could_not_be_thrown_away_goes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = with_a_window(tmp_path)
    told: list[Stored] = []
    storage.listen(told.extend)
    storage.put([Filed(subscription("s", until_s=NOW_S + 1), (A,))], NOW_S)

    def fail(_path: Path, **_: object) -> None:
        raise OSError("no room for another directory")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", fail)
        for _ in range(2):
            with pytest.raises(OSError, match="no room"):
                storage.maintain(PASSED_S)
        assert storage.usage().disk_bytes >= 200_000
    maintain_fully(storage, PASSED_S)
    assert (on_disk(tmp_path), storage.usage().disk_bytes) == (0, 0)
    assert [one.id for one in told] == ["s"]
    assert storage.usage().windows_dropped == 1
    storage.close()


def test_subscriptions_that_expired_are_told_without_a_look_at_publications(tmp_path: Path) -> None:
    storage = with_a_window(tmp_path)
    told: list[Stored] = []
    storage.listen(told.extend)
    storage.put([Filed(subscription(f"s{n}", until_s=NOW_S + 1), (A, list_id("b"))) for n in range(3)], NOW_S)
    storage.unsubscribe(["s1"], NOW_S)
    storage.maintain(PASSED_S, 4)
    assert sorted(one.id for one in told) == ["s0", "s2"]
    maintain_fully(storage, PASSED_S)
    assert on_disk(tmp_path) == 0
    storage.close()
