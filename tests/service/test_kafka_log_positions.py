"""Where the partitions are read that have fallen to a connection point, or of which Kafka has lost something; while
nobody says it, all others are read.
"""

import asyncio
import itertools
from collections.abc import Iterable
from math import inf

import pytest

from braid.selector import hash64
from services.connpoint.committed import Committed
from services.connpoint.ingress_topic import Unavailable
from tests.service.fake_topic import Logs
from tests.service.kafka_points import ONE, OTHER, PARTITIONS, Point, point, until
from tests.service.waiting import TIMEOUT_S

BOTH = (ONE, OTHER)
LOST, KEPT = 0, 1


def publisher_of(partitions: Iterable[int]) -> str:
    asked = set(partitions)
    return next(name for name in (f"p{n}" for n in range(999)) if hash64(name) % PARTITIONS in asked)


def ours(here: Point) -> set[int]:
    assert here.log._core is not None
    return set(here.log._core.claims())


async def is_read_on(here: Point, publisher: str, ids: list[str]) -> None:
    for id in ids:
        await here.publish(publisher, id)
        await asyncio.wait_for(until(lambda id=id: id in here.ids()), 1.0)  # type: ignore[misc]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.connpoint.kafka_log._PAUSE_S", 0.01)
    monkeypatch.setattr("services.connpoint.kafka_log._PAUSE_S_MAX", 0.04)
    monkeypatch.setattr("services.connpoint.kafka_log._BACKLOG_S", inf)  # nothing else asks what is committed


# What is committed


async def test_where_nobody_says_what_is_committed_what_was_ours_before_is_read_on() -> None:
    logs = Logs(PARTITIONS)
    async with point(logs, ONE, BOTH) as here:
        before = publisher_of(ours(here))
        fallen = publisher_of(set(range(PARTITIONS)) - ours(here))
        await is_read_on(here, before, ["a"])
        logs.tells_committed = False
        here.log.on_connpoints((ONE,))
        await here.publish(fallen, "waits")
        await is_read_on(here, before, ["b", "c", "d"])
        assert "waits" not in here.ids()
        logs.tells_committed = True
        await here.until_sent("a", "b", "c", "d", "waits")


async def test_nor_does_reading_wait_for_the_answer_and_nobody_who_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(PARTITIONS)
    cancelled: list[bool] = []

    async def hanging() -> dict[int, Committed]:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)
        raise AssertionError("nobody answers")

    async with point(logs, ONE, BOTH) as here:
        before = publisher_of(ours(here))
        await is_read_on(here, before, ["a"])
        monkeypatch.setattr(here.topic, "committed", hanging)
        here.log.on_connpoints((ONE,))
        await is_read_on(here, before, ["b", "c"])
        assert here.log._finding is not None
    assert cancelled == [True]


async def test_it_is_asked_again_after_a_pause_that_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(PARTITIONS)
    pauses: list[float] = []
    async with point(logs, connpoints=()) as here:

        async def failing() -> dict[int, Committed]:
            pauses.append(here.log._ask_pause_s)
            raise Unavailable("no coordinator")

        committed = here.topic.committed
        monkeypatch.setattr(here.topic, "committed", failing)
        here.log.on_connpoints((ONE,))
        await until(lambda: len(pauses) >= 5)
        assert pauses[:5] == [0.0, 0.01, 0.02, 0.04, 0.04]
        monkeypatch.setattr(here.topic, "committed", committed)
        await until(lambda: len(here.log._claims) == PARTITIONS)
        assert here.log._ask_pause_s == 0.0


async def test_a_mistake_while_it_is_asked_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(PARTITIONS)
    async with point(logs, connpoints=()) as here:
        committed, failures = here.topic.committed, [ValueError("no idea")]

        async def failing() -> dict[int, Committed]:
            if failures:
                raise failures.pop()
            return await committed()

        monkeypatch.setattr(here.topic, "committed", failing)
        here.log.on_connpoints((ONE,))
        await is_read_on(here, "p", ["a"])
        assert not failures


# What is lost


async def lose_the_tail(here: Point) -> tuple[str, str]:
    """Of one partition; returns a publisher of it, and one of all others."""
    lost, kept = publisher_of([LOST]), publisher_of([KEPT])
    for id in ("a", "b"):
        await here.publish(lost, id)
    await here.until_sent("a", "b")
    here.confirm(*here.sent)
    await until(lambda: here.topic.logs.committed.get(LOST, (0, ""))[0] == 2)
    here.topic.logs.cut_off(LOST, behind=1)
    return lost, kept


async def test_where_nobody_leads_what_was_lost_others_are_read_on() -> None:
    logs = Logs(PARTITIONS)
    async with point(logs) as here:
        await until(lambda: len(here.log._claims) == PARTITIONS)
        logs.leaderless[LOST] = asyncio.Event()
        logs.leaderless[LOST].set()  # it takes what is written
        lost, kept = await lose_the_tail(here)
        await is_read_on(here, kept, ["c", "d", "e"])
        del logs.leaderless[LOST]
        await until(lambda: logs.committed[LOST][0] == 1)
        await here.publish(lost, "f")
        await here.until_sent("a", "b", "c", "d", "e", "f")


@pytest.mark.parametrize("asked", ["bounds", "first_written_ms"])
async def test_nor_does_reading_wait_for_what_is_left(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    logs = Logs(PARTITIONS)
    answer = asyncio.Event()
    async with point(logs) as here:
        original = getattr(here.topic, asked)

        async def slow(of: object) -> object:
            await asyncio.wait_for(answer.wait(), TIMEOUT_S)
            return await original(of)

        answer.set()
        await until(lambda: len(here.log._claims) == PARTITIONS)
        monkeypatch.setattr(here.topic, asked, slow)
        answer.clear()
        lost, kept = await lose_the_tail(here)
        await is_read_on(here, kept, ["c", "d", "e"])
        assert list(here.log._looking) == [LOST]
        answer.set()
        await until(lambda: logs.committed[LOST][0] == 1)
        await here.publish(lost, "f")
        await here.until_sent("a", "b", "c", "d", "e", "f")


async def test_one_that_does_not_say_what_is_left_does_not_keep_another_from_going_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs = Logs(PARTITIONS)
    async with point(logs) as here:
        first_written_ms = here.topic.first_written_ms

        async def failing(partition: int) -> int | None:
            if partition == LOST:
                raise Unavailable("nobody leads it")
            return await first_written_ms(partition)

        monkeypatch.setattr(here.topic, "first_written_ms", failing)
        await here.publish(publisher_of([KEPT]), "c")
        await here.publish(publisher_of([KEPT]), "d")
        await here.until_sent("c", "d")
        here.confirm(*here.sent)
        here.sent.clear()
        _, kept = await lose_the_tail(here)
        logs.cut_off(KEPT, behind=1)
        await until(lambda: logs.committed[KEPT][0] == 1)
        await is_read_on(here, kept, ["e", "f"])
        assert logs.committed[LOST][0] == 2


async def test_an_answer_that_was_given_to_an_earlier_claim_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written and confirmed since lies behind the end that it tells."""
    logs = Logs(PARTITIONS)
    answer = asyncio.Event()
    async with point(logs) as here:
        core = here.log._core
        assert core is not None
        await until(lambda: len(here.log._claims) == PARTITIONS)
        bounds, calls = here.topic.bounds, itertools.count()

        async def first_is_late(partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
            found = await bounds(partitions)
            if not next(calls):
                await asyncio.wait_for(answer.wait(), TIMEOUT_S)
            return found

        monkeypatch.setattr(here.topic, "bounds", first_is_late)
        lost, _ = await lose_the_tail(here)
        await until(lambda: bool(here.log._looking))
        here.log.on_connpoints(())
        await here.publish(lost, "c")  # another one sends it, and writes down that it is confirmed
        here.log.on_connpoints((ONE,))
        await until(lambda: core.position(LOST) == 2)
        answer.set()
        await until(lambda: not here.log._looking)
        await here.publish(lost, "d")
        await here.until_sent("a", "b", "d")
        assert here.sent[2].origin == here.sent[0].origin


async def test_whoever_stops_does_not_wait_for_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(PARTITIONS)
    async with point(logs) as here:
        await until(lambda: len(here.log._claims) == PARTITIONS)

        async def hanging(_partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
            await asyncio.Event().wait()
            raise AssertionError("nobody answers")

        monkeypatch.setattr(here.topic, "bounds", hanging)
        await lose_the_tail(here)
        await until(lambda: bool(here.log._looking))
    assert here.log._looking == {}
