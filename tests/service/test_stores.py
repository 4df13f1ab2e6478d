"""What connection points and matchers keep on disk, and find again after a start."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from braid.config import Ingress
from braid.matching.previous import ChainChanges
from braid.subscription import SubscriptionRecord
from services.connpoint.ingress_log import IngressLog
from services.connpoint.retrying import Batch
from services.matcher import store as store_module
from services.matcher.operations import Forget, Mark, Operation, Put, Remove
from tests.core.kept_cases import batch as kept_batch
from tests.core.matching_cases import record
from tests.service.matcher_stores import Clock, Store, opened, put, reopened, search
from tests.service.ticking import ticked
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
    store.erase(["s-3"], None)
    store.erase([], None)
    store = await reopened(store)
    assert store.recovered == [SECOND]
    await store.close()


async def test_changes_of_one_group_keep_their_order(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    store.put(FIRST, is_new=True, done=ignore)
    store.put(SECOND, is_new=True, done=ignore)
    store.erase(["s-1"], ignore)
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


def written_by(store: Store) -> list[list[Operation]]:
    """Groups in which there was something."""
    return [group for group in store.groups if group]


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
    assert await written(lambda done: store.take_chunk([FIRST], [], ["s-2", "s-3"], done)) is None
    assert written_by(store) == [[Mark(True), Put(FIRST, True), Remove(["s-2", "s-3"])]]
    assert await written(lambda done: store.take_chunk([], [], [], done)) is None
    assert written_by(store)[1] == [Mark(True)]
    store = await reopened(store)
    assert (store.recovered, store.is_foreign) == ([FIRST], True)
    await store.close()


async def test_what_a_later_chunk_says_counts(tmp_path: Path) -> None:
    changed = record("s-2", "n = 2")
    store = await opened(tmp_path)
    store.take_chunk([FIRST, SECOND], [], [], ignore)
    assert await written(lambda done: store.take_chunk([changed], ["s-2"], ["s-1", "s-9"], done)) is None
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


# Failures


class BadDisk:
    """Of one subscription nothing can be removed, because a block of a table cannot be read."""

    def __init__(self, store: Store, id: str) -> None:
        self.is_bad = True
        unsubscribe = store._storage.unsubscribe

        def failing(ids: Sequence[str], now_s: float) -> int:
            if self.is_bad and id in ids:
                raise OSError("Input/output error")
            return unsubscribe(ids, now_s)

        store._storage.unsubscribe = failing  # type: ignore[method-assign]  # a disk that fails


async def test_a_removal_that_keeps_failing_stops_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_AGAIN_S", 0.01)
    store = await opened(tmp_path)
    await put(store, FIRST, SECOND)
    disk = BadDisk(store, "s-1")
    told: list[tuple[str, Exception | None]] = []
    store.group_s = 0.02  # the others come into one group
    store.put(record("s-3"), is_new=True, done=lambda failure: told.append(("s-3", failure)))
    store.erase(["s-1"], lambda failure: told.append(("s-1", failure)))
    store.keep([kept_batch(1, b"{}", published_s=999.0)], lambda failure: told.append(("kept", failure)))
    await until(lambda: len(told) == 3)
    assert [who for who, failure in told if failure is not None] == ["s-1"]
    for number in range(3):  # while it is tried again and again
        await put(store, record(f"t-{number}"))
        await asyncio.sleep(0.02)
    assert store.not_kept == 0
    disk.is_bad = False
    async with ticked(lambda _now_s: store.flush(), time.time):
        await until(lambda: store.in_bulk == 0)
    store = await reopened(store)
    assert [one.id for one in store.recovered] == ["s-2", "s-3", "t-0", "t-1", "t-2"]
    found = await search(store)
    assert found is not None
    assert len(found.found) == 1
    await store.close()


async def test_publications_that_a_failure_cost_are_counted(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    store.failing = True
    assert await written(lambda done: store.keep([kept_batch(1, b"{}", b"{}"), kept_batch(2, b"{}")], done)) is not None
    assert store.not_kept == 3
    store.failing = False
    await store.close()


async def test_what_is_remembered_for_prev_does_not_depend_on_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(tmp_path)
    await store.read_previous()

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store._storage, "put", fail)
        store.keep([kept_batch(1, b"{}")], ignore)
        assert await written(lambda done: store.keep_previous(ChainChanges({"a": b"1"}), done)) is not None
    store = await reopened(store)
    assert await store.read_previous() == {"a": b"1"}
    await store.close()


# In bulk


async def test_whoever_waits_does_not_wait_for_what_is_written_in_bulk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_BULK_AT_ONCE", 10)
    monkeypatch.setattr(store_module, "_BULK_AT_ONCE_MAX", 10)
    store = await opened(tmp_path)
    store.group_s = 0.01  # a fast disk would have written all of them before anybody looks
    several = [record(f"s-{number:03}") for number in range(200)]
    stored: list[Exception | None] = []
    store.take_chunk(several, [], [], stored.append)
    await until(lambda: len(written_by(store)) > 1)
    await put(store, record("t-1"))
    assert stored == []
    assert 0 < store.in_bulk <= len(several)
    await until(lambda: stored == [None])
    assert max(map(len, written_by(store))) == 10
    assert store.in_bulk == 0
    store = await reopened(store)
    assert store.recovered == [*several, record("t-1")]
    await store.close()


async def test_small_loads_are_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop of a busy matcher hears of the end of a slice late: with a chunk in each, none would move."""
    store = await opened(tmp_path)
    write, slices = store._write_loads, []

    def noting(loads: list[list[Operation]]) -> list[Exception | None]:
        slices.append(len(loads))
        return write(loads)

    monkeypatch.setattr(store, "_write_loads", noting)
    several = [record(f"s-{number}") for number in range(8)]
    stored: list[Exception | None] = []
    for one in several:
        store.take_chunk([one], [], [], stored.append)
    await until(lambda: len(stored) == len(several))
    assert slices == [8]
    store = await reopened(store)
    assert store.recovered == several
    await store.close()


async def test_what_is_behind_a_load_that_fails_is_not_done_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_AGAIN_S", 0.05)
    store = await opened(tmp_path)
    await put(store, FIRST)
    store.failing = True
    outcomes: list[str] = []
    store.forget([FIRST.id])
    store.take_chunk([FIRST], [], [], lambda failure: outcomes.append(f"chunk {failure}"))
    async with ticked(lambda _now_s: store.flush(), time.time):
        await until(lambda: [Forget([FIRST.id])] in store.groups)
        store.failing = False
        await until(lambda: outcomes)
    assert outcomes == ["chunk None"]
    store = await reopened(store)
    assert store.recovered == [FIRST]
    await store.close()


async def test_what_is_written_in_bulk_has_its_turn_however_much_upkeep_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_UPKEEP_S", 0.0)  # as where every write takes longer than its pause
    store = await opened(tmp_path)
    assert await written(lambda done: store.take_chunk([FIRST, SECOND], [], [], done)) is None
    await store.close()


async def test_no_write_waits_until_the_event_loop_has_heard_of_long_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, begun = asyncio.Event(), asyncio.Event()

    async def maintain() -> None:
        begun.set()
        await heard.wait()

    store = await opened(tmp_path)
    monkeypatch.setattr(store, "_maintain", maintain)
    store.flush()
    await begun.wait()
    await put(store, FIRST)
    await put(store, SECOND)
    heard.set()
    monkeypatch.undo()
    store = await reopened(store)
    assert store.recovered == [FIRST, SECOND]
    await store.close()


async def test_what_is_about_the_same_subscription_keeps_its_order(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await put(store, FIRST)
    store.forget(["s-1"])
    store.put(record("s-1", "n = 5"), is_new=True, done=ignore)  # waits for the one before it
    store.put(SECOND, is_new=True, done=ignore)
    store.forget(["s-2"])  # waits for the one before it
    store.take_chunk([record("s-3")], [], [], ignore)
    assert await written(lambda done: store.erase(["s-3"], done)) is None
    store = await reopened(store)
    assert store.recovered == [record("s-1", "n = 5")]
    await store.close()


async def test_nothing_of_a_forgotten_one_is_remembered(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await put(store, record("s-1", distinct=True), record("s-3", distinct=True, until_s=1005.0), SECOND)
    store.forget(["s-1", "s-3", "never there"])
    assert await written(store.when_forgotten) is None
    store = await reopened(store)
    assert (store.recovered, await store.read_ended()) == ([SECOND], [])
    await store.close()


async def test_the_mark_of_the_next_scaling_is_not_taken_away_by_the_end_of_the_last(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    store.forget(["s-1"])
    store.expect_foreign(False)
    store.expect_foreign(True)
    assert await written(store.when_forgotten) is None
    store = await reopened(store)
    assert store.is_foreign
    await store.close()


async def test_what_could_not_be_forgotten_is_forgotten_later_and_then_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_AGAIN_S", 0.01)
    store = await opened(tmp_path)
    await put(store, FIRST, SECOND)
    store.failing = True
    failures: list[Exception | None] = []
    store.forget(["s-1"])
    store.take_chunk([record("s-3")], [], [], failures.append)
    store.when_forgotten(failures.append)

    def after_a_flush(condition: Callable[[], bool]) -> Callable[[], bool]:
        def holds() -> bool:
            store.flush()
            return condition()

        return holds

    await until(after_a_flush(lambda: len(store.groups) > 5))
    assert failures == []
    store.failing = False
    await until(after_a_flush(lambda: len(failures) == 2))
    assert failures == [None, None]
    store = await reopened(store)
    assert store.recovered == [SECOND, record("s-3")]
    await store.close()
