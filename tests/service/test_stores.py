"""What connection points and matchers keep on disk, and find again after a start."""

from pathlib import Path

from braid.config import Ingress, Matching
from braid.subscription import SubscriptionRecord
from services.connpoint.ingress import Batch
from services.connpoint.ingress_log import IngressLog
from services.matcher.store import SubscriptionStore
from tests.service.waiting import until
from tests.service.watched_database import ignore, opened, written


def batch(origin: str, sequence: int, publisher: int, *contents: bytes) -> Batch:
    return Batch(origin, sequence, publisher, list(contents), sum(map(len, contents)), 0.0)


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
        ("connpoint-1.9", 3, 5, [b"x"]),
        *[("connpoint-1.a", n, 2**64 - 1, [b"\x00\xff", b"{}"]) for n in (1, 255, 256, 2**40)],
        ("connpoint-1.ab", 1, 0, []),
    ]
    await again.close()


async def test_the_subscription_store(tmp_path: Path) -> None:
    store = SubscriptionStore(tmp_path, Matching())
    assert await store.open() == ([], False)
    first = SubscriptionRecord("s-1", "ännå", "connpoint-1", "n = 1", 1.5, None, 2.5, True)
    changed = SubscriptionRecord("s-1", "ännå", "connpoint-2", "n = 2", 1.5)
    second = SubscriptionRecord("s-2", "bert", "connpoint-1", "", 0.0)
    store.put(first, ignore)
    store.put(second, ignore)
    assert store.queued == 2
    store.put(changed, ignore)
    assert await written(lambda done: store.erase(["s-2"], done)) is None
    store.erase(["s-9"], None)
    await store.close()
    again = SubscriptionStore(tmp_path, Matching())
    assert await again.open() == ([changed], False)
    await again.close()


async def test_the_store_knows_whether_subscriptions_of_others_may_be_in_it(tmp_path: Path) -> None:
    store = SubscriptionStore(tmp_path, Matching())
    await store.open()
    record = SubscriptionRecord("s-1", "anna", "connpoint-1", "", 0.0)
    store.expect_foreign(True)
    assert await written(lambda done: store.take_chunk([record], [], done)) is None
    await store.close()
    store = SubscriptionStore(tmp_path, Matching())
    assert await store.open() == ([record], True)
    store.erase([], None)
    store.expect_foreign(False)
    await store.close()
    store = SubscriptionStore(tmp_path, Matching())
    assert await store.open() == ([record], False)
    await store.close()


async def test_the_mark_of_others_is_written_again_when_the_disk_was_full(tmp_path: Path) -> None:
    store = SubscriptionStore(tmp_path, Matching())
    database = store._database = await opened(tmp_path)
    database.failing = True
    store.expect_foreign(True)
    await until(lambda: database.groups)
    database.failing = False
    store.flush()
    await until(lambda: len(database.groups) == 2)
    assert await written(lambda done: store.put(SubscriptionRecord("s-1", "a", "c", "", 0.0), done)) is None
    assert await database.has(b"foreign")
    database.failing = True
    store.expect_foreign(True)
    store.expect_foreign(False)
    await until(lambda: len(database.groups) == 4)
    database.failing = False
    store.flush()
    await until(lambda: len(database.groups) == 5)
    assert not await database.has(b"foreign")
    await store.close()


async def test_a_chunk_of_another_is_never_on_disk_without_the_mark(tmp_path: Path) -> None:
    store = SubscriptionStore(tmp_path, Matching())
    database = store._database = await opened(tmp_path)
    record = SubscriptionRecord("s-1", "a", "c", "", 0.0)
    assert await written(lambda done: store.take_chunk([record], ["s-2", "s-3"], done)) is None
    assert [(key, value is None) for key, value in database.groups[0]] == [
        (b"foreign", False),
        (b"s/s-1", False),
        (b"s/s-2", True),
        (b"s/s-3", True),
    ]
    assert await written(lambda done: store.take_chunk([], [], done)) is None
    assert [key for key, _ in database.groups[1]] == [b"foreign"]
    await store.close()


async def test_what_a_later_chunk_removes_is_not_there_after_a_start(tmp_path: Path) -> None:
    first, second = (SubscriptionRecord(id, "anna", "connpoint-1", "", 0.0) for id in ("s-1", "s-2"))
    changed = SubscriptionRecord("s-2", "anna", "connpoint-1", "n = 2", 0.0)
    store = SubscriptionStore(tmp_path, Matching())
    await store.open()
    store.take_chunk([first, second], [], ignore)
    assert await written(lambda done: store.take_chunk([changed], ["s-1", "s-9"], done)) is None
    await store.close()
    again = SubscriptionStore(tmp_path, Matching())
    assert await again.open() == ([changed], True)
    await again.close()
