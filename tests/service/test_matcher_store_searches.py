"""Searches in the matcher's store: behind what was to be written, in turns, and never in the way of a write."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from braid.messages import KeptBatch
from services.matcher import searching
from services.matcher import store as store_module
from services.matcher.searching import Search
from tests.core.kept_cases import batch, question
from tests.core.matching_cases import record
from tests.service.matcher_stores import found, keep, opened, put, search
from tests.service.waiting import until
from tests.service.watched_database import ignore, written

NOW_S = 1000.0


def at(seconds: float, sequence: int) -> KeptBatch:
    return batch(sequence, b"{}", published_s=NOW_S + seconds)


async def test_a_search_finds_whatever_was_to_be_kept_before_it(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    for sequence in range(1, 20):
        store.keep([at(-sequence, sequence)], ignore)
    assert await found(store) == [(sequence, 0) for sequence in range(1, 20)]
    await store.close()


async def test_a_search_that_fails_is_told_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(tmp_path)
    await keep(store, at(-1, 1))
    step = Search.step

    def failing(self: Search, *given: Any) -> None:
        if self.question.ref == 13:
            raise OSError("too many open files")
        step(self, *given)

    monkeypatch.setattr(Search, "step", failing)
    assert await search(store, question(13)) is None
    assert await found(store, question(1)) == [(1, 0)]
    await put(store, record("s-1"))
    await store.close()


async def test_for_one_search_too_many_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "SEARCHES_MAX", 2)
    store = await opened(tmp_path)
    over: list[tuple[int, bool]] = []
    for number in range(4):
        store.search(question(number), lambda done, number=number: over.append((number, done is None)))  # type: ignore[misc]  # bound now
    assert over == [(2, True), (3, True)]
    await until(lambda: len(over) == 4)
    assert over[2:] == [(0, False), (1, False)]
    assert await found(store) == []
    await store.close()


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "RECORDS_AT_ONCE", 2)
    monkeypatch.setattr(searching, "PUBLICATIONS_AT_ONCE", 1)


@pytest.mark.usefixtures("small_slices")
async def test_a_short_search_does_not_wait_for_a_long_one(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await keep(store, *(at(-sequence, sequence) for sequence in range(1, 60)))
    over: list[str] = []
    store.search(question(1), lambda _: over.append("long"))
    store.search(question(2, from_s=NOW_S - 3), lambda _: over.append("short"))
    await until(lambda: len(over) == 2)
    assert over == ["short", "long"]
    await store.close()


@pytest.mark.usefixtures("small_slices")
async def test_writes_go_between_the_slices_of_a_search(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await keep(store, *(at(-sequence, sequence) for sequence in range(1, 60)))
    over: list[str] = []
    store.search(question(), lambda _: over.append("search"))
    for id in ("s-1", "s-2", "s-3"):
        await written(lambda done, id=id: store.put(record(id), is_new=True, done=done))  # type: ignore[misc]  # bound now
        over.append(id)
    await until(lambda: "search" in over)
    assert over == ["s-1", "s-2", "s-3", "search"]
    await store.close()


async def test_what_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await keep(store, batch(1, b"{}", published_s=NOW_S - 2), batch(2, b'{"text":3}', published_s=NOW_S - 1))
    done = await search(store)
    assert done is not None
    assert [one.sequence for one in done.found] == [1]
    await store.close()


async def test_kept_publications_that_cannot_be_read_hold_up_neither_writes_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_AGAIN_S", 60.0)
    store = await opened(tmp_path)
    tries: list[Any] = []

    def failing(after: Any) -> Any:
        tries.append(after)
        raise OSError("too many open files")

    monkeypatch.setattr(store, "_read_kept", failing)
    store.read_kept(None, lambda _batches, _after: None)
    await until(lambda: tries)
    async with asyncio.timeout(20):
        await put(store, record("s-1"))
        await store.close()
    assert len(tries) == 1
