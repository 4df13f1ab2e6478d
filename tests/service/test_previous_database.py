"""What a matcher remembers for `prev` is on its disk: it is there after a start, and damage costs only itself."""

import random
from pathlib import Path

import plyvel
import pytest

from braid.matching.previous import ChainChanges
from services.matcher import previous_database
from services.matcher.previous_database import PreviousDatabase
from tests.core.kept_cases import batch
from tests.core.matching_cases import record
from tests.core.storage.test_damage import flip
from tests.service.matcher_stores import Store, keep, opened, put
from tests.service.watched_database import ignore, written


async def remember(store: Store, changes: ChainChanges) -> None:
    assert await written(lambda done: store.keep_previous(changes, done)) is None


async def begun(path: Path) -> tuple[Store, dict[str, bytes]]:
    store = await opened(path)
    return store, await store.read_previous()


async def test_it_is_there_again_without_what_was_forgotten(tmp_path: Path) -> None:
    store, chains = await begun(tmp_path)
    assert chains == {}
    await remember(store, ChainChanges({"a": b"1", "b/ü": b"2", "c": b"3"}))
    await remember(store, ChainChanges({"a": None, "c": b"4", "never": None}))
    await store.close()
    store, chains = await begun(tmp_path)
    assert chains == {"b/ü": b"2", "c": b"4"}
    assert store.damages == []
    await remember(store, ChainChanges({"d": b"5"}, is_cleared=True))
    await store.close()
    store, chains = await begun(tmp_path)
    assert chains == {"d": b"5"}
    await store.close()


async def test_it_is_written_with_the_publications_that_wait_for_it(tmp_path: Path) -> None:
    store, _ = await begun(tmp_path)
    store.keep([batch(1, b"{}")], ignore)
    store.keep_previous(ChainChanges({"a": b"1"}), ignore)
    store.keep_previous(ChainChanges({"b": b"2"}, is_cleared=True), ignore)
    await remember(store, ChainChanges({"c": b"3"}))
    assert [len(group) for group in store.groups] == [4]
    await store.close()
    store, chains = await begun(tmp_path)
    assert chains == {"b": b"2", "c": b"3"}
    await store.close()


async def test_what_fails_is_told_and_is_written_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = await begun(tmp_path)
    with monkeypatch.context() as patch:

        def fail(*_: object) -> bytes:
            raise OSError("no space left on device")

        patch.setattr("services.matcher.previous_database.sealed", fail)
        failure = await written(lambda done: store.keep_previous(ChainChanges({"a": b"1"}), done))
        assert isinstance(failure, OSError)
    await remember(store, ChainChanges({"b": b"2"}))
    await store.close()
    store, chains = await begun(tmp_path)
    assert chains == {"a": b"1", "b": b"2"}
    await store.close()


@pytest.mark.parametrize("damage", ["a bit of its largest file", "its bookkeeping", "a file in its place"])
async def test_damage_costs_what_was_remembered_and_nothing_else(tmp_path: Path, damage: str) -> None:
    store, _ = await begun(tmp_path)
    await put(store, record("s-1", created_s=999.0))
    await keep(store, batch(1, b"{}", published_s=999.0))
    await remember(
        store, ChainChanges({f"topic-{number}": random.Random(number).randbytes(500) for number in range(99)})
    )
    await store.close()
    previous = tmp_path / "previous"
    match damage:
        case "a bit of its largest file":
            largest = max(previous.iterdir(), key=lambda file: file.stat().st_size)
            flip(largest, largest.stat().st_size // 2)
        case "its bookkeeping":
            (previous / "CURRENT").write_bytes(b"nothing")
        case _:
            previous.rename(tmp_path / "elsewhere")
            previous.write_bytes(b"nothing")
    store, chains = await begun(tmp_path)
    assert chains == {}
    (found,) = store.damages
    assert (found.database, Path(found.kept_at).parent) == ("previous", tmp_path / "damaged")
    assert found.reason
    assert [known.id for known in store.recovered] == ["s-1"]
    await remember(store, ChainChanges({"a": b"1"}))
    await store.close()
    store, chains = await begun(tmp_path)
    assert (chains, store.damages) == ({"a": b"1"}, [])
    await store.close()


def test_what_could_not_be_written_is_written_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where LevelDB could not even open it again: an older value that stayed would be compared with."""
    database = PreviousDatabase(tmp_path)
    database.open()
    database.write([ChainChanges({"a": b"1", "b": b"1", "c": b"1"})], sync=False)

    def fail(*_: object) -> None:
        raise plyvel.IOError(b"no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(database, "_write_owed", fail)
        with pytest.raises(plyvel.IOError):
            database.write([ChainChanges({"a": b"2"})], sync=False)
        patch.setattr(database, "_connect", fail)
        for changes in (ChainChanges({"b": b"2"}, is_cleared=True), ChainChanges({"d": b"2"})):
            with pytest.raises(plyvel.IOError):
                database.write([changes], sync=False)
    database.write([ChainChanges({"e": b"3"})], sync=False)
    database.close()
    assert PreviousDatabase(tmp_path).open() == {"b": b"2", "d": b"2", "e": b"3"}


def test_what_cannot_be_opened_for_want_of_room_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = PreviousDatabase(tmp_path)
    database.open()
    database.write([ChainChanges({"a": b"1"})], sync=False)
    database.close()

    def fail(*_: object) -> None:
        raise plyvel.IOError(b"IO error: /m/previous/MANIFEST-000004: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(PreviousDatabase, "_connect", fail)
        full = PreviousDatabase(tmp_path)
        with pytest.raises(plyvel.IOError):
            full.open()
        assert full.damages == []
    assert PreviousDatabase(tmp_path).open() == {"a": b"1"}


def test_what_is_owed_is_bounded_while_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of topics that come and go, only those that are still remembered; what has not changed on disk is given up."""
    monkeypatch.setattr(previous_database, "_OWED_MAX", 20)
    database = PreviousDatabase(tmp_path)
    database.open()
    database.write([ChainChanges({"old": b"1"})], sync=False)

    def fail(*_: object) -> None:
        raise plyvel.IOError(b"no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(database, "_write_owed", fail)
        patch.setattr(database, "_connect", fail)
        for number in range(100):
            with pytest.raises(plyvel.IOError):
                database.write([ChainChanges({f"t{number}": b"2", f"t{number - 2}": None})], sync=False)
            assert len(database._owed) <= 22
    database.write([ChainChanges({"new": b"3"})], sync=False)
    database.close()
    assert PreviousDatabase(tmp_path).open() == {"t98": b"2", "t99": b"2", "new": b"3"}
