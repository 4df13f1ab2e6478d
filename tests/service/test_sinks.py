"""Topics that subscriptions are delivered to, on a real disk, with a Kafka that fails when it is told to."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from aiokafka.errors import KafkaConnectionError
from prometheus_client import generate_latest

from braid.config import Ingress, Kafka, Settings
from braid.deliver import Topic
from braid.leveldb import GroupCommit
from braid.problems import Problem
from braid.subscription import SubscriptionRecord
from services.connpoint.delivery import Addressed
from services.connpoint.sinks import lane
from services.connpoint.sinks.courier import TopicCourier
from services.connpoint.sinks.entries import Entry
from services.connpoint.sinks.outbox import Page, SinkOutbox
from services.connpoint.sinks.writing import TooLarge
from tests.service.ticking import ticked
from tests.service.waiting import until

KAFKA: dict[str, Any] = {"bootstrap": "nowhere:9", "sink_topics": ["out*"], "sources": [{"topic": "out-source"}]}


class FakeKafka:
    """What is in each topic, and how far it got; both change together."""

    def __init__(self) -> None:
        self.topics: dict[str, list[tuple[int, Entry]]] = {}
        self.positions: dict[str, int] = {}
        self.is_away = False
        self.refused: set[str] = set()  # topics
        self.fails: list[str] = []  # "before", "after": the next writes do, before Kafka has it or after
        self.size_max = 1_000_000
        self.opened = 0
        self.answers = asyncio.Event()  # else it has what is written, and does not say so
        self.answers.set()

    def writer(self, topic: str) -> "FakeWriter":
        return FakeWriter(self, topic)

    def ids(self, topic: str = "out") -> list[str]:
        return [msgspec.json.decode(entry.content)["id"] for _, entry in self.topics.get(topic, [])]


class FakeWriter:
    def __init__(self, kafka: FakeKafka, topic: str) -> None:
        self._kafka = kafka
        self._topic = topic

    async def open(self) -> int:
        self._kafka.opened += 1
        await self._round_trip()
        return self._kafka.positions.get(self._topic, 0)

    async def close(self) -> None:
        await asyncio.sleep(0)

    async def write(self, page: Page, left_out: set[int]) -> None:
        await self._round_trip()
        numbered = [one for first, block in page.blocks for one in enumerate(block.entries, first)]
        for number, entry in numbered:
            if len(entry.content) > self._kafka.size_max and number not in left_out:
                raise TooLarge(number)
        failure = self._kafka.fails.pop(0) if self._kafka.fails else ""
        if failure == "before":
            raise KafkaConnectionError("it was not written")
        self._kafka.topics.setdefault(self._topic, []).extend(one for one in numbered if one[0] not in left_out)
        self._kafka.positions[self._topic] = page.last
        await self._kafka.answers.wait()
        if failure == "after":
            raise KafkaConnectionError("nobody knows")

    async def _round_trip(self) -> None:
        await asyncio.sleep(0)
        if self._kafka.is_away or self._topic in self._kafka.refused:
            raise KafkaConnectionError("nobody there")


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    monkeypatch.setattr(lane, "_PAUSE_S", 0.01)
    monkeypatch.setattr(lane, "_PAUSE_S_MAX", 0.05)
    return FakeKafka()


@asynccontextmanager
async def couriering(
    directory: Path, kafka: FakeKafka, watermark_of: Callable[[str], int] = lambda _: 0, **settings: Any
) -> AsyncIterator[TopicCourier]:
    given = Settings(kafka=Kafka(**{**KAFKA, **settings}))
    courier = TopicCourier("connpoint-1", given, SinkOutbox(directory, given.ingress), watermark_of, kafka.writer)
    await courier.open()
    try:
        async with ticked(courier.on_tick, time.time):
            yield courier
    finally:
        await courier.close()


def record(topic: str = "out", id: str = "a-1", key: str = "") -> SubscriptionRecord:
    return SubscriptionRecord(id, "anna", "connpoint-1", "", 0.0, deliver=Topic(topic, key))


def addressed(number: int, id: str = "a-1", place: int = 0) -> Addressed:
    return Addressed(id, ("c.1", number, place), b'{"id":"p%d"}' % number)


async def deliver(courier: TopicCourier, *numbers: int, id: str = "a-1") -> None:
    received = asyncio.Event()
    courier.deliver([addressed(number, id) for number in numbers], received.set)
    async with asyncio.timeout(20):
        await received.wait()


def named(*numbers: int) -> list[str]:
    return [f"p{number}" for number in numbers]


async def test_notifications_are_written_in_their_order(tmp_path: Path, kafka: FakeKafka) -> None:
    async with couriering(tmp_path, kafka) as courier:
        courier.expect(record())
        for number in range(100):
            courier.deliver([addressed(2 * number), addressed(2 * number + 1)], lambda: None)
        await until(lambda: len(kafka.ids()) == 200)
        assert kafka.ids() == named(*range(200))
        numbers = [number for number, _ in kafka.topics["out"]]
        assert numbers == list(range(numbers[0], numbers[0] + 200))
        await until(lambda: courier.delivery_of("a-1").state == "idle")
        state = courier.delivery_of("a-1")
        assert (state.delivered, state.waiting, state.waiting_bytes, state.failures) == (200, 0, 0, 0)
        assert kafka.opened == 1


@pytest.mark.parametrize("failure", ["before", "after"])
async def test_a_failure_costs_nothing_and_doubles_nothing(tmp_path: Path, kafka: FakeKafka, failure: str) -> None:
    async with couriering(tmp_path, kafka) as courier:
        courier.expect(record())
        kafka.fails = [failure, failure]
        await deliver(courier, *range(700))
        await deliver(courier, *range(700, 710))
        await until(lambda: len(kafka.ids()) >= 710 and courier.delivery_of("a-1").state == "idle")
        assert kafka.ids() == named(*range(710))
        assert courier.delivery_of("a-1").waiting == 0


async def test_what_waits_is_written_after_the_next_start(tmp_path: Path, kafka: FakeKafka) -> None:
    kafka.is_away = True
    async with couriering(tmp_path, kafka) as courier:
        courier.expect(record())
        await deliver(courier, 1, 2)
        await deliver(courier, 3)
        await until(lambda: courier.delivery_of("a-1").state == "pausing")
        state = courier.delivery_of("a-1")
        assert (state.waiting, state.last_error) == (3, "KafkaConnectionError: nobody there")
        assert state.waiting_bytes > 0
    kafka.is_away = False
    async with couriering(tmp_path, kafka) as courier:  # also when its subscription is over meanwhile
        await until(lambda: len(kafka.ids()) == 3)
    assert kafka.ids() == named(1, 2, 3)


async def test_what_kafka_has_already_is_not_written_again_after_a_crash(tmp_path: Path, kafka: FakeKafka) -> None:
    """It was written, and the process ended before it knew."""
    async with couriering(tmp_path, kafka) as courier:
        courier.expect(record())
        kafka.fails = ["after"]
        await deliver(courier, 1, 2)
        await until(lambda: len(kafka.ids()) == 2)
        kafka.is_away = True
        await deliver(courier, 3)
    kafka.is_away = False
    async with couriering(tmp_path, kafka) as courier:
        await until(lambda: len(kafka.ids()) == 3)
    assert kafka.ids() == named(1, 2, 3)


async def test_a_batch_that_is_sent_again_after_a_crash_is_known(tmp_path: Path, kafka: FakeKafka) -> None:
    async with couriering(tmp_path, kafka) as courier:
        courier.expect(record())
        await deliver(courier, 1, 2)
    async with couriering(tmp_path, kafka) as courier:
        courier.expect(record())
        await deliver(courier, 1, 2, 3)
        await until(lambda: len(kafka.ids()) == 3)
    assert kafka.ids() == named(1, 2, 3)


async def test_what_was_given_with_a_past_is_known_when_it_comes_live_after_a_crash(
    tmp_path: Path, kafka: FakeKafka
) -> None:
    async with couriering(tmp_path, kafka) as courier:
        courier.expect(record())
        await courier.give([addressed(1), addressed(2)], {("c.1", 2, 0)})
    async with couriering(tmp_path, kafka) as courier:
        courier.expect(record())
        courier.expect(record("out-2", id="a-2"))
        await deliver(courier, 2)
        await deliver(courier, 2, id="a-2")  # it was never given it
        await deliver(courier, 3)
        await until(lambda: len(kafka.ids()) == 3 and len(kafka.ids("out-2")) == 1)
    assert kafka.ids() == named(1, 2, 3)
    assert kafka.ids("out-2") == named(2)


async def test_what_is_confirmed_is_forgotten(tmp_path: Path, kafka: FakeKafka) -> None:
    async with couriering(tmp_path, kafka, lambda _: 2) as courier:
        courier.expect(record())
        await deliver(courier, 1, 2, 3)
        await until(lambda: len(courier._outbox.seen) == 1)
    async with couriering(tmp_path, kafka) as courier:
        assert len(courier._outbox.seen) == 1


async def test_one_that_is_too_large_is_left_out(tmp_path: Path, kafka: FakeKafka) -> None:
    async with couriering(tmp_path, kafka) as courier:
        courier.expect(record())
        kafka.size_max = 12
        await deliver(courier, 1, 100, 2)
        await deliver(courier, 200, 3)
        await until(lambda: len(kafka.ids()) == 3 and courier.delivery_of("a-1").state == "idle")
        assert kafka.ids() == named(1, 2, 3)
        assert courier.delivery_of("a-1").delivered == 3


async def test_beyond_its_bound_what_comes_is_dropped_and_counted(tmp_path: Path, kafka: FakeKafka) -> None:
    kafka.is_away = True
    content = b'{"id":"p0","text":"%b"}' % (b"x" * 600_000)
    async with couriering(tmp_path, kafka, sink_bytes_max=1024 * 1024) as courier:
        courier.expect(record())
        courier.expect(record("out-2", id="a-2"))
        for number in range(4):
            received = asyncio.Event()
            courier.deliver([Addressed("a-1", ("c.1", number, 0), content)], received.set)
            await received.wait()
        assert (courier.delivery_of("a-1").waiting, courier.delivery_of("a-1").dropped) == (2, 2)
        await deliver(courier, 9, id="a-2")
        assert courier.delivery_of("a-2").waiting == 1, "another topic has its own bound"


async def test_one_topic_that_cannot_be_written_delays_no_other(tmp_path: Path, kafka: FakeKafka) -> None:
    async with couriering(tmp_path, kafka) as courier:
        courier.expect(record())
        courier.expect(record("out-2", id="a-2"))
        kafka.refused = {"out"}
        await deliver(courier, 1)
        await until(lambda: courier.delivery_of("a-1").state == "pausing")
        await deliver(courier, 2, id="a-2")
        await until(lambda: kafka.ids("out-2") == named(2))
        assert kafka.ids() == []
        kafka.refused = set()
        await until(lambda: kafka.ids() == named(1))


async def test_a_topic_that_nobody_needs_is_closed_and_numbers_go_on(tmp_path: Path, kafka: FakeKafka) -> None:
    async with couriering(tmp_path, kafka) as courier:
        courier.on_restored()
        courier.expect(record())
        await deliver(courier, 1)
        courier.end("a-1")
        await until(lambda: "out" not in courier._lanes)
        assert kafka.ids() == named(1)
        courier.expect(record())
        await deliver(courier, 2)
        await until(lambda: len(kafka.ids()) == 2)
    first, second = (number for number, _ in kafka.topics["out"])
    assert first < second


async def test_of_a_topic_that_is_closed_no_metrics_are_left(tmp_path: Path, kafka: FakeKafka) -> None:
    async with couriering(tmp_path, kafka) as courier:
        courier.on_restored()
        courier.expect(record("out-gone"))
        kafka.fails = ["before"]
        await deliver(courier, 1)
        await until(lambda: kafka.ids("out-gone") == named(1))
        assert b'topic="out-gone"' in generate_latest()
        courier.end("a-1")
        await until(lambda: "out-gone" not in courier._lanes)
        assert b'topic="out-gone"' not in generate_latest()


async def test_a_page_that_is_under_way_is_written_before_it_stops(tmp_path: Path, kafka: FakeKafka) -> None:
    """Without transactions Kafka does not say how far it got: it would be written again after the next start."""
    async with couriering(tmp_path, kafka) as courier:
        courier.expect(record())
        kafka.answers.clear()
        await deliver(courier, 1)
        await until(lambda: kafka.ids() == named(1))
        await deliver(courier, 2)
        asyncio.get_running_loop().call_later(0.05, kafka.answers.set)
    kafka.positions.clear()
    assert kafka.ids() == named(1), "no further one is begun"
    async with couriering(tmp_path, kafka) as courier:
        await until(lambda: len(kafka.ids()) == 2)
    assert kafka.ids() == named(1, 2)


async def test_but_for_so_long_and_no_longer(tmp_path: Path, kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "_LAST_PAGE_S", 0.02)
    async with couriering(tmp_path, kafka) as courier:
        courier.expect(record())
        kafka.answers.clear()
        await deliver(courier, 1)
        await until(lambda: kafka.ids() == named(1))
    kafka.answers.set()
    async with couriering(tmp_path, kafka) as courier:
        await until(lambda: courier._outbox.is_empty("out"))
    assert kafka.ids() == named(1), "Kafka says how far it got"


async def test_numbers_go_on_when_the_disk_was_set_back(tmp_path: Path, kafka: FakeKafka) -> None:
    """What was written last before a power cut is gone from the disk, and is in Kafka."""
    async with couriering(tmp_path / "one", kafka) as courier:
        courier.expect(record())
        await deliver(courier, 1)
        await until(lambda: len(kafka.ids()) == 1)
        name = courier._outbox.name
    database = GroupCommit(tmp_path / "two", "never", 1.0)
    await database.open()
    database.queue([(b"i", name.encode())], lambda _: None)
    await database.close()
    async with couriering(tmp_path / "two", kafka) as courier:
        assert courier._outbox.name == name
        courier.expect(record())
        await deliver(courier, 2)
        await until(lambda: len(kafka.ids()) == 2)
    assert kafka.ids() == named(1, 2)


async def test_no_receipt_is_sent_before_it_is_on_disk(tmp_path: Path, kafka: FakeKafka) -> None:
    async with couriering(tmp_path, kafka) as courier:
        courier.expect(record())
        told: list[str] = []
        write, failing = courier._outbox._database._write, True

        def refuse(operations: Any, sync: bool) -> None:
            if failing:
                raise OSError("no space left")
            write(operations, sync)

        courier._outbox._database._write = refuse  # type: ignore[method-assign]  # a disk that is full
        courier.deliver([addressed(1)], lambda: told.append("first"))
        courier.deliver([], lambda: told.append("of a repetition"))
        courier.deliver([addressed(2)], lambda: told.append("second"))
        await asyncio.sleep(0.1)
        assert told == []
        assert kafka.ids() == []
        failing = False
        await until(lambda: len(kafka.ids()) == 2)
        assert told == ["first", "of a repetition", "second"]
    assert kafka.ids() == named(1, 2)


@pytest.mark.parametrize("seed", range(10))
async def test_whatever_fails_everything_is_there_once_and_in_order(
    tmp_path: Path, kafka: FakeKafka, seed: int
) -> None:
    """Kafka fails before and after it has something, or is away; the process starts again; batches are sent again."""
    random = Random(seed)
    sent = 0
    for _ in range(6):
        async with couriering(tmp_path, kafka) as courier:
            courier.expect(record())
            again = random.randint(0, sent)
            if again < sent:
                await deliver(courier, *range(again, sent))  # an exit point that has no receipt for these
            for _ in range(random.randint(1, 5)):
                kafka.is_away = random.random() < 0.3
                kafka.fails += random.choices(["before", "after", ""], k=random.randint(0, 3))
                count = random.choice([1, 3, 700])
                await deliver(courier, *range(sent, sent + count))
                sent += count
                await asyncio.sleep(random.choice([0.0, 0.005, 0.02]))
    kafka.is_away, kafka.fails = False, []
    async with couriering(tmp_path, kafka) as courier:
        await until(lambda: len(kafka.ids()) >= sent)
        await until(lambda: all(line.waiting == 0 for line in courier._outbox.lines.values()))
    assert kafka.ids() == named(*range(sent))


@pytest.mark.parametrize(
    ("topic", "settings", "detail"),
    [
        ("other", {}, "kafka.sink_topics"),
        ("out-source", {}, "is a source"),
        ("out-source.dead-letter", {}, "own"),
        ("out", {"bootstrap": "", "sources": []}, "kafka.bootstrap"),
        ("braid-telemetry", {"sink_topics": ["*"]}, "own"),
        ("braid-braid-ingress", {"sink_topics": ["*"]}, "own"),
    ],
)
async def test_topics_that_are_refused(
    tmp_path: Path, kafka: FakeKafka, topic: str, settings: dict[str, Any], detail: str
) -> None:
    async with couriering(tmp_path, kafka, **settings) as courier:
        with pytest.raises(Problem) as raised:
            courier.check(Topic(topic))
        assert detail in raised.value.detail


async def test_one_more_topic_than_there_may_be_is_refused(tmp_path: Path, kafka: FakeKafka) -> None:
    async with couriering(tmp_path, kafka, sink_lanes_max=1) as courier:
        courier.expect(record())
        courier.check(Topic("out"))
        with pytest.raises(Problem, match="sink_lanes_max"):
            courier.check(Topic("out-2"))


async def test_a_large_backlog_is_counted_without_being_read_into_memory(tmp_path: Path) -> None:
    outbox = SinkOutbox(tmp_path, Ingress())
    await outbox.open()
    written = asyncio.Event()
    entries = [Entry("a-1", "", b'{"id":"p%d"}' % number) for number in range(1234)]
    outbox.append({"out": entries, "out-2": entries[:1]}, [], [], lambda _: written.set())
    await written.wait()
    before = {topic: (line.waiting, line.bytes) for topic, line in outbox.lines.items()}
    await outbox.close()
    again = SinkOutbox(tmp_path, Ingress())
    await again.open()
    assert {topic: (line.waiting, line.bytes) for topic, line in again.lines.items()} == before
    assert before["out"][0] == 1234
    page = await again.read("out", 2, 10**9)
    assert [one for _, block in page.blocks for one in block.entries] == entries[:1000]
    again.forget("out", page)
    page = await again.read("out", 100, 10**9)
    assert [one for _, block in page.blocks for one in block.entries] == entries[1000:]
    await again.close()
