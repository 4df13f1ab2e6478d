"""LevelDB behind a thread: order, callbacks, failures, fsync, and what survives a kill."""

import asyncio
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from braid.leveldb import GroupCommit, Pages, SerialDatabase
from tests.service.waiting import TIMEOUT_S, until
from tests.service.watched_database import ignore, opened, written


async def test_everybody_has_a_turn_while_very_many_are_told(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    told: list[int] = []
    turns: list[int] = []
    for n in range(2000):
        database.put(b"k%d" % n, b"v", lambda _failure, n=n: told.append(n))  # type: ignore[misc]
    while len(told) < 2000:
        await asyncio.sleep(0)
        turns.append(len(told))
    assert told == list(range(2000))
    assert len({count for count in turns if 0 < count < 2000}) >= 5
    await database.close()


async def test_whatever_is_queued_in_one_turn_is_one_write(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    answers: list[str] = []
    for n in range(100):
        database.put(b"k%d" % n, b"v", lambda failure, n=n: answers.append(f"{n} {failure}"))  # type: ignore[misc]
    assert database.queued == 100
    assert await written(lambda done: database.put(b"last", b"v", done)) is None
    assert (len(database.groups), database.queued, database.writes) == (1, 0, 1)
    assert answers == [f"{n} None" for n in range(100)]
    await database.close()


async def test_what_is_queued_during_a_write_is_the_next_one(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    database.put(b"1", b"", ignore)
    await asyncio.sleep(0)
    database.put(b"2", b"", ignore)
    database.put(b"3", b"", ignore)
    await database.close()
    assert [[key for key, _ in group] for group in database.groups] == [[b"1"], [b"2", b"3"]]


async def test_puts_and_deletes_of_one_key_within_a_group_keep_their_order(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    database.put(b"kept", b"1", ignore)
    database.delete(b"kept")
    database.put(b"kept", b"2", ignore)
    database.put(b"erased", b"1", ignore)
    database.delete(b"erased")
    assert await written(lambda done: database.delete(b"never there", done)) is None
    assert len(database.groups) == 1
    assert await database.read_all(b"") == [(b"kept", b"2")]
    await database.close()


async def test_a_delete_without_a_callback_waits_for_company(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    await written(lambda done: database.put(b"1", b"", done))
    database.delete(b"1")
    await asyncio.sleep(0.02)
    assert (database.queued, await database.read_all(b"")) == (1, [(b"1", b"")])
    database.flush()
    while database.queued:
        await asyncio.sleep(0)
    assert await database.read_all(b"") == []
    await database.close()


async def test_callbacks_run_in_order_across_groups_and_on_the_loop(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    order: list[int] = []
    for n in range(30):
        database.put(b"k%d" % n, b"v", lambda _, n=n: order.append(n))  # type: ignore[misc]  # bound now
        if n % 7 == 0:
            await asyncio.sleep(0.001)
    await database.close()
    assert order == list(range(30))


async def test_a_failed_write_is_reported_to_all_of_its_group_and_to_no_other(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    failures: list[Any] = []
    database.failing = True
    database.put(b"1", b"", failures.append)
    database.put(b"2", b"", failures.append)
    assert str(await written(lambda done: database.put(b"3", b"", done))) == "no space left on device"
    assert [str(failure) for failure in failures] == ["no space left on device"] * 2
    database.failing = False
    assert await written(lambda done: database.put(b"4", b"", done)) is None
    assert await database.read_all(b"") == [(b"4", b"")]
    await database.close()


async def test_one_callback_that_fails_does_not_silence_the_others(tmp_path: Path) -> None:
    database = await opened(tmp_path)

    def fail(_failure: Exception | None) -> None:
        raise RuntimeError("our own mistake")

    database.put(b"1", b"", fail)
    assert await written(lambda done: database.put(b"2", b"", done)) is None
    assert await written(lambda done: database.put(b"3", b"", done)) is None
    await database.close()


@pytest.mark.parametrize(
    ("fsync", "interval_s", "synced"),
    [
        ("always", 1.0, [True, True, True]),
        ("never", 1.0, [False, False, False]),
        ("interval", 3600.0, [False, False, False]),
    ],
)
async def test_fsync(tmp_path: Path, fsync: Any, interval_s: float, synced: list[bool]) -> None:
    database = await opened(tmp_path, fsync=fsync, fsync_interval_s=interval_s)
    database._forced_at = time.monotonic()
    asked = observe(database)
    for n in range(3):
        await written(lambda done, n=n: database.put(b"%d" % n, b"", done))  # type: ignore[misc]  # bound now
    await database.close()
    assert asked == synced
    assert database.forced == 0


def observe(database: GroupCommit) -> list[bool]:
    """Whether each write asks for the disk."""
    asked: list[bool] = []
    plain = database._database

    class Observed:
        def write_batch(self, *, sync: bool) -> Any:
            asked.append(sync)
            return plain.write_batch(sync=sync)

        def __getattr__(self, name: str) -> Any:
            return getattr(plain, name)

    database._database = Observed()
    return asked


async def test_the_disk_has_its_turn_also_while_writes_never_stop(tmp_path: Path) -> None:
    database = await opened(tmp_path, fsync="interval", fsync_interval_s=0.02)
    asked = observe(database)
    began = time.monotonic()
    idle = asyncio.Event()

    def go_on(_failure: Exception | None) -> None:
        """The next one is queued before the writer looks whether there is more."""
        if database.forced < 5:
            database.put(b"k", b"v", go_on)
        else:
            idle.set()

    go_on(None)
    await asyncio.wait_for(idle.wait(), TIMEOUT_S)
    await database.close()
    assert database.forced <= (time.monotonic() - began) / 0.02 + 2
    assert len(asked) > database.forced
    assert not any(asked), "no write waits for the disk"


async def flushed_until(database: GroupCommit, condition: Callable[[], bool]) -> None:
    """As a slice does, in each tick."""

    def is_so() -> bool:
        database.flush()
        return condition()

    await until(is_so)


async def test_no_write_waits_while_the_disk_is_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forcing, may_end = threading.Event(), threading.Event()

    def slow(_file: int) -> None:
        forcing.set()
        assert may_end.wait(TIMEOUT_S)

    monkeypatch.setattr(os, "fdatasync", slow)
    database = await opened(tmp_path, fsync="interval", fsync_interval_s=0.01)
    await written(lambda done: database.put(b"1", b"", done))
    await flushed_until(database, forcing.is_set)
    for n in range(10):
        assert await written(lambda done, n=n: database.put(b"%d" % n, b"", done)) is None  # type: ignore[misc]  # bound now
    assert database.forced == 0
    may_end.set()
    await database.close()
    assert database.forced >= 1


async def test_a_disk_that_fails_is_forced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([OSError("input/output error"), None])

    def fails_once(_file: int) -> None:
        failure = next(failures, None)
        if failure is not None:
            raise failure

    monkeypatch.setattr(os, "fdatasync", fails_once)
    database = await opened(tmp_path, fsync="interval", fsync_interval_s=0.01)
    await written(lambda done: database.put(b"1", b"", done))
    await flushed_until(database, lambda: database.forced == 1)
    await database.close()


async def test_what_was_queued_during_a_failing_write_is_written_by_the_next_flush(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    await written(lambda done: database.put(b"old", b"", done))
    database.failing = True
    database.delete(b"old")
    answers: list[Any] = []
    database.put(b"1", b"", answers.append)
    await asyncio.sleep(0)
    database.put(b"2", b"", answers.append)
    while not answers:
        await asyncio.sleep(0.001)
    database.failing = False
    database.flush()
    while len(answers) < 2:
        await asyncio.sleep(0.001)
    assert (str(answers[0]), answers[1]) == ("no space left on device", None)
    assert await database.read_all(b"") == [(b"2", b"")]
    await database.close()


async def test_the_tail_of_a_burst_reaches_the_disk_too(tmp_path: Path) -> None:
    database = await opened(tmp_path, fsync="interval", fsync_interval_s=3600.0)
    database._forced_at = time.monotonic()
    await written(lambda done: database.put(b"1", b"", done))
    assert database.forced == 0
    for _ in range(2):
        database._forced_at -= 3600.0  # the interval is over
        database.flush()
        await until(lambda: database._forcing is None)
        assert database.forced == 1, "nothing was written since"
    await database.close()


async def test_after_a_failed_write_what_is_acknowledged_is_found_again(tmp_path: Path) -> None:
    """The disk was full and has room again. LevelDB itself would go on behind the broken record, out of sight."""
    limit, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    database = await opened(tmp_path)
    database.delete(b"never there")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, hard))
    try:
        failures = 0
        for n in range(10):
            failure = await written(lambda done, n=n: database.put(b"a%d" % n, b"x" * 20_000, done))  # type: ignore[misc]
            failures += failure is not None
        assert failures > 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    for n in range(20):
        assert await written(lambda done, n=n: database.put(b"b%02d" % n, b"y", done)) is None  # type: ignore[misc]
    await database.close()
    again = await opened(tmp_path)
    assert [key for key, _ in await again.read_all(b"b")] == [b"b%02d" % n for n in range(20)]
    await again.close()


async def test_close_writes_what_is_queued_and_the_next_one_finds_it(tmp_path: Path) -> None:
    database = await opened(tmp_path / "made" / "when needed")
    answers: list[Any] = []
    database.put(b"a/1", b"x", answers.append)
    database.put(b"b/1", b"y", answers.append)
    database.delete(b"b/1")
    await database.close()
    assert answers == [None, None]
    again = await opened(tmp_path / "made" / "when needed")
    assert await again.read_all(b"a/") == [(b"a/1", b"x")]
    assert await again.read_all(b"b/") == []
    await again.close()


async def test_after_close_a_write_fails_loudly(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    await database.close()
    assert isinstance(await written(lambda done: database.put(b"1", b"", done)), Exception)


async def test_a_database_has_one_owner(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    with pytest.raises(Exception, match="lock"):
        await opened(tmp_path)
    await database.close()


# What is kept in it


async def test_many_at_once_are_one_write_and_one_answer(tmp_path: Path) -> None:
    database = await opened(tmp_path)
    pairs: list[tuple[bytes, bytes | None]] = [(b"k%d" % n, b"v") for n in range(3)]
    assert await written(lambda done: database.queue(pairs, done)) is None
    assert database.groups == [pairs]
    assert await written(lambda done: database.queue([(b"k1", None), (b"k3", b"w"), (b"k9", None)], done)) is None
    assert len(database.groups) == 2
    assert await database.read_all(b"k") == [(b"k0", b"v"), (b"k2", b"v"), (b"k3", b"w")]
    await database.close()


async def test_nothing_at_all_is_answered_behind_whatever_was_queued_before(tmp_path: Path) -> None:
    """A chunk without records, which only says that there are no more, is acknowledged too."""
    database = await opened(tmp_path)
    answers: list[str] = []
    database.put(b"k", b"v", lambda _: answers.append("first"))
    assert await written(lambda done: database.queue([], done)) is None
    assert answers == ["first"]
    assert await written(lambda done: database.queue([], done)) is None
    await database.close()


_WRITER = """
import asyncio, sys
from pathlib import Path
from braid.leveldb import GroupCommit

async def main():
    database = GroupCommit(Path(sys.argv[1]), "interval", 0.05)
    await database.open()
    number = 0
    while True:
        for _ in range(20):
            number += 1
            key = b"k%08d" % number
            database.put(key, b"x" * 100, lambda failure, key=key: print(key.decode(), flush=True))
        await asyncio.sleep(0)

asyncio.run(main())
"""


async def test_what_was_reported_done_survives_a_kill(tmp_path: Path) -> None:
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WRITER, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert writer.stdout is not None
    reported = [(await writer.stdout.readline()).strip() for _ in range(2000)]
    writer.kill()
    rest = await writer.stdout.read()
    reported += rest[: rest.rfind(b"\n") + 1].split()
    assert await writer.wait() == -signal.SIGKILL
    database = await opened(tmp_path)
    found = [key for key, _ in await database.read_all(b"k")]
    await database.close()
    assert reported == found[: len(reported)]
    assert found == [b"k%08d" % n for n in range(1, len(found) + 1)]


async def test_a_scan_may_begin_behind_what_was_deleted(tmp_path: Path) -> None:
    database = SerialDatabase(tmp_path, "never", 1.0, lambda _pages: None)
    await database.open()
    found: list[list[bytes]] = []

    def work(pages: Pages) -> None:
        for key in (b"n/a/1", b"n/a/2", b"n/a/3", b"n/b/1", b"n/"):
            pages.put(key, b"")
        pages.delete(b"n/a/1")
        found.append([key for key, _ in pages.scan(b"n/a/")])
        found.append([key for key, _ in pages.scan(b"n/a/", b"n/a/3")])
        found.append([key for key, _ in pages.scan(b"n/a/", b"n/a/4")])

    database.do([work], None)
    await database.close()
    assert found == [[b"n/a/2", b"n/a/3"], [b"n/a/3"], []]
