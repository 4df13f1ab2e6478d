"""The matcher's store at work: publications are kept and found, long work waits for writes, failures are told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from braid.messages import KeptBatch
from services.matcher import store as store_module
from services.matcher.operations import Put
from services.matcher.storage.records import StorageFullError
from tests.core.kept_cases import batch, on_topic, question
from tests.core.matching_cases import content, record
from tests.service.matcher_stores import Clock, Store, all_kept, found, keep, opened, put, reopened
from tests.service.waiting import until
from tests.service.watched_database import ignore, written

NOW_S = 1000.0


def at(seconds: float, sequence: int, *contents: bytes) -> KeptBatch:
    return batch(sequence, *(contents or (b"{}",)), published_s=NOW_S + seconds)


async def until_upkeep(store: Store, condition: Callable[[], object]) -> None:
    def is_so() -> object:
        store.flush()
        return condition()

    await until(is_so)


# Publications


async def test_what_is_kept_is_found_also_after_a_start(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await keep(store, at(-2, 1, on_topic("a", n=1), content({"n": 2})), at(-1, 2, on_topic("a", n=3)))
    assert await found(store, question(1, record("s-1", topic="a"))) == [(2, 0), (1, 0)]
    store = await reopened(store)
    assert await found(store, question(1, record("s-1", topic="a"))) == [(2, 0), (1, 0)]
    assert await found(store, question(1, record("s-1", "n = 2"))) == [(1, 1)]
    assert store.recovered == []
    await store.close()


async def test_what_is_kept_twice_is_found_once(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    for _ in range(2):
        await keep(store, at(-1, 1, on_topic("a"), b"{}"))
    assert sorted(await found(store)) == [(1, 0), (1, 1)]
    assert sum(len(one.contents) for piece in await all_kept(store) for one in piece) == 2
    await store.close()


async def test_what_has_expired_is_not_found_and_goes_from_the_disk(tmp_path: Path) -> None:
    clock = Clock()
    store = await opened(tmp_path, clock)
    await keep(store, at(-1, 1, content(expires="1970-01-01T00:16:45Z")), at(-1, 2))
    clock.now_s = NOW_S + 6
    assert await found(store) == [(2, 0)]
    clock.now_s = NOW_S + 9000
    assert await found(store) == [] == [one for piece in await all_kept(store) for one in piece]
    await until_upkeep(store, lambda: store.usage.windows_dropped == 2)
    await store.close()


async def test_nothing_of_the_future_keeps_others_from_being_written(tmp_path: Path) -> None:
    """A connection point whose clock is far ahead."""
    store = await opened(tmp_path)
    store.keep([at(10_000, 1)], ignore)
    store.put(record("s-1"), is_new=True, done=ignore)
    await put(store, record("s-2", created_s=NOW_S + 10_000))
    assert await found(store) == [(1, 0)]
    store = await reopened(store)
    assert [known.id for known in store.recovered] == ["s-1", "s-2"]
    await store.close()


async def test_large_batches_are_read_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gets a piece looks at every publication of it at once."""
    monkeypatch.setattr(store_module, "_READ_PUBLICATIONS", 20)
    store = await opened(tmp_path)
    for sequence in range(1, 31):
        store.keep([at(-sequence / 10, sequence, *[b"{}"] * 10)], ignore)
    sizes = [sum(len(one.contents) for one in piece) for piece in await all_kept(store)]
    assert sum(sizes) == 300
    assert max(sizes[1:]) <= 20
    await store.close()


async def test_all_that_is_kept_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_READ_AT_ONCE", 4)
    store = await opened(tmp_path)
    await put(store, *(record(f"s-{number}", until_s=NOW_S + 50) for number in range(9)))
    batches = [at(-sequence / 10, sequence, on_topic(f"t{sequence % 3}"), b"{}") for sequence in range(1, 11)]
    for each in batches:
        store.keep([each], ignore)
    pieces = await all_kept(store)
    assert len(pieces) >= 5
    assert max(map(len, pieces)) <= 4
    again = [(one.sequence, place) for piece in pieces for one in piece for place in one.places]
    assert sorted(again) == [(sequence, place) for sequence in range(1, 11) for place in (0, 1)]
    await store.close()


async def test_what_was_read_can_be_removed(tmp_path: Path) -> None:
    """Whichever lists it lies in, and whether it says when it expires or not."""
    store = await opened(tmp_path)
    zone = {"type": "point", "lat": 40.0, "lon": 3.0}
    expires = "1970-01-01T00:16:45Z"
    await keep(
        store,
        at(-1, 1, on_topic("a", n=1), b"{}", content(topic="b", zone=zone, expires=expires)),
        at(-2, 2, on_topic("a", n=2)),
        at(5, 3, on_topic("a", n=3)),
    )
    pieces = await all_kept(store)
    store.remove_kept([one for piece in pieces for one in piece if one.sequence != 2])
    assert [[one.sequence for one in piece] for piece in await all_kept(store)] == [[2]]
    assert await found(store, question(1, record("s-1", topic="b"))) == []
    await store.close()


RETENTIONS = [
    {"retention_s": 60.0},
    {"retention_s": 90_000.0},
    {"retention_s": 60.0, "retention_s_max": 60.0},
    {"window_s": 7},
]


@pytest.mark.parametrize("settings", RETENTIONS)
async def test_what_was_kept_under_another_retention_can_be_removed(tmp_path: Path, settings: dict[str, float]) -> None:
    """It lies where it was put, whatever the settings say now."""
    store = await opened(tmp_path)
    await keep(store, at(-1, 1, on_topic("a"), b"{}", content(expires="1970-01-01T05:16:45Z")), at(-2, 2))
    store = await reopened(store, **settings)
    pieces = await all_kept(store)
    store.remove_kept([one for piece in pieces for one in piece if one.sequence == 1])
    assert [[one.sequence for one in piece] for piece in await all_kept(store)] == [[2]]
    await store.close()


async def test_what_is_handed_over_expires_when_it_would_have_at_the_sender(tmp_path: Path) -> None:
    """Both have another retention since."""
    clock = Clock()
    sender = await opened(tmp_path / "sender", clock)
    await keep(sender, at(-1, 1, on_topic("a")), at(-1, 2, content(expires="1970-01-01T00:18:20Z")))
    clock.now_s += 90
    sender = await reopened(sender, retention_s=60.0)
    receiver = await opened(tmp_path / "receiver", clock, retention_s=60.0)
    for piece in await all_kept(sender):
        assert await written(lambda done, piece=piece: receiver.keep_foreign(piece, [], done)) is None  # type: ignore[misc]  # bound now
    assert sorted(await found(receiver)) == [(1, 0), (2, 0)]
    assert await all_kept(receiver) == await all_kept(sender)
    clock.now_s = NOW_S + 3598
    assert await found(receiver) == [(1, 0)]
    clock.now_s = NOW_S + 3599
    assert await found(receiver) == []
    await sender.close()
    await receiver.close()


async def test_whoever_begins_to_read_finds_what_others_had_handed_over(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    store.keep_foreign([at(-1, 1)], [], ignore)
    assert [[one.sequence for one in piece] for piece in await all_kept(store)] == [[1]]
    await store.close()


async def test_a_piece_that_cannot_be_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_AGAIN_S", 0.0)
    store = await opened(tmp_path)
    await keep(store, at(-1, 1))
    read, failures = store._read_kept, iter([True, True])

    def failing(*given: Any) -> Any:
        if next(failures, False):
            raise OSError("too many open files")
        return read(*given)

    monkeypatch.setattr(store, "_read_kept", failing)
    assert [[one.sequence for one in piece] for piece in await all_kept(store)] == [[1]]
    await store.close()


# Failures


async def test_a_failed_write_is_told_and_what_was_to_be_erased_is_erased_behind_others(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await put(store, record("s-1"), record("s-2"))
    store.failing = True
    failures: list[Any] = []
    store.keep([at(-1, 1)], failures.append)
    store.erase(["s-1"], failures.append)
    store.erase(["s-2"], None)
    store.put(record("s-3"), is_new=True, done=failures.append)
    await until(lambda: len(failures) == 3)
    assert {str(failure) for failure in failures} == {"no space left on device"}
    store.failing = False
    await put(store, record("s-4"))
    assert [Put(record("s-4"), True)] in store.groups
    assert await found(store) == []
    store = await reopened(store)
    assert [known.id for known in store.recovered] == ["s-4"]
    await store.close()


async def test_an_upkeep_that_fails_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await opened(tmp_path)

    def failing(*_: Any) -> bool:
        raise OSError("too many open files")

    monkeypatch.setattr(store._storage, "maintain", failing)
    for number in range(3):
        store._upkeep_at_s = 0.0
        await put(store, record(f"s-{number}"))
    await until(lambda: store._writing is None)
    await store.close()


async def full(path: Path) -> Store:
    store = await opened(path)
    await put(store, record("s-1"), record("s-2"))
    await keep(store, at(-1, 1))
    await store.close()
    return await opened(path, disk_bytes_max=1)


async def test_on_a_full_disk_publications_are_given_up_and_counted(tmp_path: Path) -> None:
    store = await full(tmp_path)
    await keep(store, at(-2, 2, on_topic("a"), b"{}"), at(-3, 3))
    assert store.not_kept == 3
    assert all(sequence == 1 for sequence, _ in await found(store))
    await store.close()


async def test_on_a_full_disk_what_others_hand_over_is_refused(tmp_path: Path) -> None:
    """They still have it."""
    store = await full(tmp_path)
    ended = [record("s-9", distinct=True, until_s=NOW_S - 1)]
    failure = await written(lambda done: store.keep_foreign([at(-2, 2)], ended, done))
    assert isinstance(failure, StorageFullError)
    assert store.not_kept == 0
    assert await store.read_ended() == []
    await store.close()


async def test_what_others_hand_over_for_a_window_that_is_being_given_up_is_refused(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await keep(store, at(-1, 1))
    windows = store._storage._publications  # type: ignore[attr-defined]  # DualDB has it
    windows.leaving.update(windows.publication_windows())
    failure = await written(lambda done: store.keep_foreign([at(-1, 2)], [], done))
    assert isinstance(failure, StorageFullError)
    assert await found(store) == [(1, 0)]
    await store.close()


async def test_what_others_hand_over_is_kept_and_remembered_also_after_a_start(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    ended = [record(f"s-{number}", distinct=True, until_s=NOW_S - number) for number in (2, 1)]
    for _ in range(2):
        assert await written(lambda done: store.keep_foreign([at(-1, 1), at(-2, 2)], ended, done)) is None
    store = await reopened(store)
    assert store.recovered == []
    assert await store.read_ended() == ended
    assert await found(store) == [(1, 0), (2, 0)]
    await store.close()


async def test_on_a_full_disk_subscriptions_are_refused_and_can_be_erased(tmp_path: Path) -> None:
    store = await full(tmp_path)
    for is_new in (True, False):
        failure = await written(lambda done, is_new=is_new: store.put(record("s-3"), is_new=is_new, done=done))  # type: ignore[misc]  # bound now
        assert isinstance(failure, StorageFullError)
    assert await written(lambda done: store.erase(["s-1"], done)) is None
    store = await reopened(store)
    assert [known.id for known in store.recovered] == ["s-2"]
    await put(store, record("s-3"))
    await store.close()


# The end


async def test_close_writes_what_is_queued(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    answers: list[Any] = []
    store.put(record("s-1"), is_new=True, done=answers.append)
    store.keep([at(-1, 1)], answers.append)
    store.search(question(), ignore)  # type: ignore[arg-type]  # nobody is there to be told
    store = await reopened(store)
    assert answers == [None, None]
    assert (len(store.recovered), await found(store)) == (1, [(1, 0)])
    await store.close()


async def test_what_expires_is_told_when_its_space_is_reclaimed(tmp_path: Path) -> None:
    clock = Clock()
    store = await opened(tmp_path, clock)
    expired: list[str] = []
    store.on_expired = expired.extend
    ends = {"s-1": NOW_S + 5, "s-2": NOW_S + 5000, "s-3": None}
    await put(store, *(record(id, created_s=NOW_S, until_s=until_s) for id, until_s in ends.items()))
    clock.now_s = NOW_S + 100
    await until_upkeep(store, lambda: expired)
    assert expired == ["s-1"]
    await store.close()
