"""Dead letters of sources that cannot be written: whose business it is, and whose not."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
from aiokafka.admin import NewTopic
from aiokafka.errors import InvalidTimestampError, KafkaError, MessageSizeTooLargeError, TopicAuthorizationFailedError
from aiokafka.protocol.admin import CreateTopicsResponse_v3

from braid.config import Settings
from braid.messages import Publications, Send
from braid.topology import Configuration
from services.connpoint.sources import burying, reading
from services.connpoint.sources.group import SourceGroup
from services.connpoint.sources.letters import DeadLetter, dead_letter
from services.connpoint.sources.notes import Note
from services.connpoint.sources.partitions import Partition
from services.connpoint.sources.reading import Sources
from services.connpoint.sources.records import Record
from tests.service.test_sources import ARecord, FakeGroup
from tests.service.waiting import until

SETTINGS = Settings.model_validate({"kafka": {"bootstrap": "nowhere:9", "sources": [{"topic": "a"}, {"topic": "b"}]}})
A, B = Partition("a", 0), Partition("b", 0)


class TwoTopics:
    """A group with a partition of each. The topics of dead letters in `refuses` take nothing, those in `hangs` do not
    answer.
    """

    def __init__(self) -> None:
        self.topics = {partition: FakeGroup(partition) for partition in (A, B)}
        self.opened = 0
        self.attempts = 0
        self.letters: list[DeadLetter] = []
        self.refuses: set[str] = set()
        self.hangs: set[str] = set()
        self.leaderless: set[Partition] = set()

    def write(self, partition: Partition, *values: bytes) -> None:
        records = self.topics[partition].records
        for value in values:
            records.append(ARecord(len(records), value, partition.topic))

    async def open(self) -> None:
        self.opened += 1

    async def close(self, *, leave: bool = False) -> None:
        """There is nothing to close."""

    async def poll(self, partitions: Iterable[Partition], most: int, timeout_s: float) -> dict[Partition, list[Record]]:
        await asyncio.sleep(0.001)
        found: dict[Partition, list[Record]] = {}
        for partition in partitions:
            found |= await self.topics[partition].poll([partition], most, timeout_s)
        return found

    def seek(self, partition: Partition, offset: int) -> None:
        self.topics[partition].seek(partition, offset)

    def lag(self, partition: Partition, offset: int) -> int:
        return 0

    async def notes(self, partitions: Iterable[Partition]) -> dict[Partition, Note]:
        return {partition: note for partition in partitions if (note := self.topics[partition].note) is not None}

    async def bounds(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
        return {
            partition: (0, len(self.topics[partition].records))
            for partition in partitions
            if partition not in self.leaderless
        }

    async def commit(self, notes: dict[Partition, Note]) -> None:
        for partition, note in notes.items():
            self.topics[partition].note = note

    async def bury(self, letters: list[DeadLetter]) -> list[Exception | None]:
        self.attempts += 1
        (topic,) = {letter.topic for letter in letters}
        if topic in self.hangs:
            await asyncio.Event().wait()
        if topic in self.refuses:
            return [TopicAuthorizationFailedError(topic) for _ in letters]
        self.letters += letters
        return [None for _ in letters]

    def noted(self, partition: Partition) -> Note | None:
        return self.topics[partition].note


class Reading:
    def __init__(self) -> None:
        self.group = TwoTopics()
        self.sent: list[Publications] = []

    def perform(self, sends: list[Send]) -> None:
        self.sent += [message for send in sends for message in send.messages]

    def topics_sent(self) -> list[str]:
        return [message.origin.rpartition("-")[0] for message in self.sent]


@asynccontextmanager
async def reading_both(monkeypatch: pytest.MonkeyPatch, leaderless: Iterable[Partition] = ()) -> AsyncIterator[Reading]:
    monkeypatch.setattr(burying, "_PAUSE_S", 0.001)
    monkeypatch.setattr(burying, "_WAIT_S", 0.01)
    here = Reading()
    here.group.leaderless.update(leaderless)
    monkeypatch.setattr(reading, "SourceGroup", lambda *_: here.group)
    sources = Sources("connpoint-1", SETTINGS, here.perform)
    sources.on_configuration(Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",)))
    sources.start()
    sources.on_registration(True)
    await sources.on_assigned([A, B])
    try:
        yield here
    finally:
        await sources.close()


@pytest.mark.parametrize("trouble", ["refuses", "hangs"])
async def test_a_topic_that_takes_no_dead_letters_is_the_business_of_its_source_alone(
    monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    async with reading_both(monkeypatch) as here:
        getattr(here.group, trouble).add("a.dead-letter")
        here.group.write(A, b"{}", b"{")
        await until(lambda: here.group.attempts)
        here.group.write(B, b"{}", b"{", b"{}")
        await until(lambda: len(here.sent) == 1)
        await until(lambda: here.group.noted(B) is not None)
        assert [letter.topic for letter in here.group.letters] == ["b.dead-letter"]
        assert here.group.noted(A) is None, "a dead letter is written before its offset is committed"
        assert here.group.opened == 1


async def test_a_partition_that_does_not_say_where_it_begins_is_waited_for_by_its_own_records_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "_PAUSE_S", 0.01)
    async with reading_both(monkeypatch, [A]) as here:
        here.group.write(A, b"{}")
        here.group.write(B, b"{}")
        await until(lambda: here.topics_sent() == ["source-b"])
        here.group.leaderless.clear()
        await until(lambda: here.topics_sent() == ["source-b", "source-a"])
        assert here.group.opened == 1


async def test_it_goes_on_when_the_topic_takes_them_and_writes_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with reading_both(monkeypatch) as here:
        here.group.refuses.add("a.dead-letter")
        here.group.write(A, b"{}", b"{")
        await until(lambda: here.group.attempts > 3)
        here.group.write(A, b"{}", b"{")
        assert here.sent == []
        here.group.refuses.clear()
        await until(lambda: sum(len(message.contents) for message in here.sent) == 2)
        assert [dict(letter.headers)["braid-offset"] for letter in here.group.letters] == [b"1", b"3"]
        assert here.group.opened == 1


class Producer:
    """A topic that takes so many bytes in one record, and no record from so late a time."""

    def __init__(self, bytes_max: int, time_ms_max: int = 2_000_000_000_000) -> None:
        self.bytes_max = bytes_max
        self.time_ms_max = time_ms_max
        self.written: list[tuple[bytes | None, bytes | None, dict[str, bytes]]] = []

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        *,
        timestamp_ms: int | None,
        headers: list[tuple[str, bytes]],
    ) -> None:
        if (timestamp_ms or 0) > self.time_ms_max:
            raise InvalidTimestampError(topic)
        size = len(value or b"") + len(key or b"") + sum(len(name) + len(text) for name, text in headers)
        if size > self.bytes_max:
            raise MessageSizeTooLargeError(topic)
        self.written.append((value, key, dict(headers)))


async def test_of_a_letter_goes_as_much_as_the_topic_takes() -> None:
    group = SourceGroup("connpoint-1", SETTINGS, Sources("connpoint-1", SETTINGS, lambda _: None))
    producer = group._producer = Producer(300)
    large = b"x" * 400
    records = [
        ARecord(0, b"small", key=b"k", headers=[("h", b"1")]),
        ARecord(1, large, key=b"k", headers=[("h", b"1")]),
        ARecord(2, b"small", key=large),
        ARecord(3, b"small", key=b"k", headers=[("h", large), ("braid-value-bytes", large)]),
    ]
    outcomes = await group.bury([dead_letter(record, "why", "letters") for record in records])
    assert outcomes == [None] * 4
    by_offset = {headers["braid-offset"]: (value, key, headers) for value, key, headers in producer.written}
    value, key, headers = by_offset[b"0"]
    assert (value, key, headers["h"]) == (b"small", b"k", b"1")
    value, key, headers = by_offset[b"1"]
    assert (value, key, headers["h"], headers["braid-value-bytes"]) == (b"", b"k", b"1", b"400")
    for offset in (b"2", b"3"):
        value, key, headers = by_offset[offset]
        assert (value, key, headers["braid-reason"], headers["braid-value-bytes"]) == (b"", None, b"why", b"5")
        assert "h" not in headers


async def test_one_of_which_not_even_the_reason_is_taken_is_kept() -> None:
    group = SourceGroup("connpoint-1", SETTINGS, Sources("connpoint-1", SETTINGS, lambda _: None))
    group._producer = Producer(10)
    (outcome,) = await group.bury([dead_letter(ARecord(0, b"small"), "why", "letters")])
    assert isinstance(outcome, MessageSizeTooLargeError)


async def test_a_letter_whose_time_is_not_taken_has_it_in_a_header() -> None:
    group = SourceGroup("connpoint-1", SETTINGS, Sources("connpoint-1", SETTINGS, lambda _: None))
    producer = group._producer = Producer(300, time_ms_max=1_000)
    records = [ARecord(0, b"late", timestamp=5_000), ARecord(1, b"early", timestamp=500), ARecord(2, b"x" * 400)]
    assert await group.bury([dead_letter(record, "why", "letters") for record in records]) == [None] * 3
    written = {
        headers["braid-offset"]: (value, headers.get("braid-timestamp")) for value, _, headers in producer.written
    }
    assert written == {b"0": (b"late", b"5000"), b"1": (b"early", None), b"2": (b"", b"1700000000000")}


class Admin:
    """Makes no topic but those it is told to."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = set(allowed)
        self.made: list[str] = []

    async def list_topics(self) -> list[str]:
        return ["a", "b"]

    async def create_topics(self, topics: list[NewTopic]) -> CreateTopicsResponse_v3:
        self.made += [topic.name for topic in topics if topic.name in self.allowed]
        errors = [0 if topic.name in self.allowed else TopicAuthorizationFailedError.errno for topic in topics]
        answers = [(topic.name, error, None) for topic, error in zip(topics, errors, strict=True)]
        return CreateTopicsResponse_v3(0, answers)


async def test_a_topic_that_cannot_be_made_is_tried_again_when_there_is_a_letter_for_it() -> None:
    group = SourceGroup("connpoint-1", SETTINGS, Sources("connpoint-1", SETTINGS, lambda _: None))
    admin = group._admin = Admin("b.dead-letter")
    producer = group._producer = Producer(1000)
    await group._find_dead_letter_topics()
    assert admin.made == ["b.dead-letter"]
    letters = [dead_letter(ARecord(0, b"{"), "why", "a.dead-letter")]
    with pytest.raises(KafkaError, match=r"a\.dead-letter cannot be made"):
        await group.bury(letters)
    admin.allowed.add("a.dead-letter")
    for _ in range(2):
        assert await group.bury(letters) == [None]
    assert admin.made == ["b.dead-letter", "a.dead-letter"]
    assert len(producer.written) == 2
