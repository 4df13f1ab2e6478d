"""What connection points and matchers keep on disk, and find again after a start."""

from pathlib import Path

import msgspec
import pytest

from braid.config import Ingress
from braid.subscription import SubscriptionRecord
from services.connpoint.ingress import Batch
from services.connpoint.ingress_log import IngressLog
from services.matcher import store as store_module
from services.matcher.store import Mark, Put, Remove
from tests.core.matching_cases import record
from tests.service.matcher_stores import Clock, opened, put, reopened
from tests.service.waiting import until
from tests.service.watched_database import ignore, written
from tests.service.watched_database import opened as opened_database

# The ingress log of connection points


def batch(origin: str, sequence: int, publisher: int, *contents: bytes) -> Batch:
    return Batch(origin, sequence, publisher, list(contents), sum(map(len, contents)), sequence + 0.5)


async def test_the_ingress_log_gives_back_what_is_not_confirmed_in_order(tmp_path: Path) -> None:
    log = IngressLog(tmp_path, Ingress())
    assert await log.open() == []
    batches = [batch("connpoint-1.a", n, 2**64 - 1, b"\x00\xff", b"{}") for n in (1, 2, 255, 256, 2**40)]
    batches += [batch("connpoint-1.ab", 1, 0), batch("connpoint-1.9", 3, 5, b"x")]
    for each in batches:
        assert await written(lambda done, each=each: log.append(each, done)) is None  # type: ignore[misc]  # bound now
    log.forget(batches[1:2])
    log.flush()
    await log.close()
    again = IngressLog(tmp_path, Ingress())
    assert await again.open() == [
        ("connpoint-1.9", 3, 5, [b"x"], 3.5),
        *[("connpoint-1.a", n, 2**64 - 1, [b"\x00\xff", b"{}"], n + 0.5) for n in (1, 255, 256, 2**40)],
        ("connpoint-1.ab", 1, 0, [], 1.5),
    ]
    await again.close()


async def test_a_log_of_the_first_version_is_read_too(tmp_path: Path) -> None:
    """It did not say when something was accepted."""
    database = await opened_database(tmp_path)
    value = msgspec.msgpack.encode((5, [b"x"]))
    assert await written(lambda done: database.put(b"p/connpoint-1.a/%016x" % 7, value, done)) is None
    await database.close()
    log = IngressLog(tmp_path, Ingress())
    assert await log.open() == [("connpoint-1.a", 7, 5, [b"x"], 0.0)]
    await log.close()


# The subscriptions of matchers

FIRST, SECOND = record("s-1", "n = 1"), record("s-2", topic="a/b", subscriber="ännå", temporary=True)
ZONE = {"type": "circle", "lat": 40.4, "lon": -3.7, "radius_m": 500}


async def test_subscriptions_are_there_after_a_start(tmp_path: Path) -> None:
    store = await opened(tmp_path / "made" / "when needed")
    assert (store.recovered, store.is_foreign) == ([], False)
    third = record("s-3", zone=ZONE, words=("tax",), from_s=900.0, until_s=1010.0, distinct=True)
    await put(store, FIRST, SECOND, third)
    again = await reopened(store)
    assert (again.recovered, again.is_foreign) == ([FIRST, SECOND, third], False)
    assert again.damages == []
    await again.close()


@pytest.mark.parametrize(
    "changed",
    [
        record("s-1", "n = 2"),
        record("s-1", topic="a/b"),
        record("s-1", zone=ZONE),
        record("s-1", until_s=1010.0),
        record("s-1", until_s=100_000.0, home="connpoint-2"),
    ],
    ids=["filter", "topic", "zone", "another window", "home"],
)
async def test_one_that_was_changed_is_there_once(tmp_path: Path, changed: SubscriptionRecord) -> None:
    store = await opened(tmp_path)
    await put(store, FIRST, SECOND)
    await put(store, changed, is_new=False)
    store = await reopened(store)
    assert store.recovered == [changed, SECOND]
    await put(store, FIRST, is_new=False)
    store = await reopened(store)
    assert store.recovered == [FIRST, SECOND]
    await store.close()


async def test_one_that_was_erased_is_not_there(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await put(store, FIRST, SECOND, record("s-3"))
    assert await written(lambda done: store.erase(["s-1", "never there"], done)) is None
    store.erase(["s-3"], None)  # with the next write, or at the end
    store.erase([], None)
    store = await reopened(store)
    assert store.recovered == [SECOND]
    await store.close()


async def test_changes_of_one_group_keep_their_order(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    store.put(FIRST, is_new=True, done=ignore)
    store.put(SECOND, is_new=True, done=ignore)
    store.erase(["s-1"], None)
    store.put(record("s-1", "n = 3"), is_new=True, done=ignore)
    store.erase(["s-2"], ignore)
    assert await written(lambda done: store.put(record("s-1", "n = 4"), is_new=False, done=done)) is None
    assert len(store.groups) == 1
    store = await reopened(store)
    assert store.recovered == [record("s-1", "n = 4")]
    await store.close()


async def test_one_whose_window_is_over_is_not_there(tmp_path: Path) -> None:
    clock = Clock()
    store = await opened(tmp_path, clock)
    await put(store, FIRST, record("s-2", until_s=1005.0), record("s-3", until_s=1005.5))
    clock.now_s = 1005.0
    store = await reopened(store)
    assert [known.id for known in store.recovered] == ["s-1", "s-3"]
    await store.close()


async def test_very_many_are_handed_out_bit_by_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_RECOVERED_AT_ONCE", 7)
    store = await opened(tmp_path)
    several = [record(f"s-{number:02}", until_s=1010.0 if number % 2 else None) for number in range(40)]
    for each in several[:-1]:
        store.put(each, is_new=True, done=ignore)
    await put(store, several[-1])
    store = await reopened(store)
    assert store.recovered == several
    assert len(store.pieces) >= 6
    assert max(map(len, store.pieces)) <= 7
    await store.close()


async def test_distinct_ones_that_ended_are_remembered_for_a_while(tmp_path: Path) -> None:
    clock = Clock()
    store = await opened(tmp_path, clock)
    own = record("s-1", distinct=True)
    await put(store, own, record("s-2"), record("s-3", distinct=True, until_s=1001.0))
    clock.now_s = 1004.0
    assert await written(lambda done: store.erase(["s-1", "s-2"], done)) is None
    store = await reopened(store)
    assert store.recovered == []
    third = record("s-3", distinct=True, until_s=1001.0)
    assert await store.read_ended() == [third, msgspec.structs.replace(own, until_s=1004.0)]
    await store.close()
    clock.now_s = 1004.0 + 3600.0
    store = await opened(tmp_path, clock)
    assert await store.read_ended() == []
    await store.close()


# Subscriptions of others


async def test_the_store_knows_whether_subscriptions_of_others_may_be_in_it(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    store.expect_foreign(True)
    await put(store, FIRST)
    store = await reopened(store)
    assert (store.recovered, store.is_foreign) == ([FIRST], True)
    store.expect_foreign(False)
    store = await reopened(store)
    assert (store.recovered, store.is_foreign) == ([FIRST], False)
    store.expect_foreign(False)
    await store.close()


async def test_a_chunk_of_another_is_never_on_disk_without_the_mark(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    assert await written(lambda done: store.take_chunk([FIRST], ["s-2", "s-3"], done)) is None
    assert store.groups == [[Mark(True), Put(FIRST, False), Remove(["s-2", "s-3"])]]
    assert await written(lambda done: store.take_chunk([], [], done)) is None
    assert store.groups[1] == [Mark(True)]
    store = await reopened(store)
    assert (store.recovered, store.is_foreign) == ([FIRST], True)
    await store.close()


async def test_what_a_later_chunk_says_counts(tmp_path: Path) -> None:
    changed = record("s-2", "n = 2")
    store = await opened(tmp_path)
    store.take_chunk([FIRST, SECOND], [], ignore)
    assert await written(lambda done: store.take_chunk([changed], ["s-1", "s-9"], done)) is None
    store = await reopened(store)
    assert (store.recovered, store.is_foreign) == ([changed], True)
    await store.close()


async def test_the_mark_of_others_is_written_again_when_the_disk_was_full(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    store.failing = True
    store.expect_foreign(True)
    await until(lambda: store.groups)
    assert not (tmp_path / "foreign").exists()
    store.failing = False
    await put(store, FIRST)
    assert (tmp_path / "foreign").exists()
    assert store.groups[-1] == [Mark(True), Put(FIRST, True)]
    await store.close()
