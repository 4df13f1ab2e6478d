"""The ingress topic in Kafka, as a connection point needs it; the one file of the ingress log that owns aiokafka.

Everything is written with acks=all by an idempotent producer: an answer means that all replicas in sync have it, and
what is repeated after a lost answer is written once. One connection point reads just the partitions it is told to, and
what is committed lies in the consumer group named like the topic; nobody joins that group.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NoError,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    TopicAlreadyExistsError,
    for_code,
)

from braid.config import Settings
from braid.kafka_clients import LEADER_S, bounds_of, client_arguments, stop, text_of
from services.connpoint.committed import Committed, note_of, read_note
from services.connpoint.partitions import Record

log = structlog.get_logger()

WRITE_BYTES_MAX = 900_000  # of one write to one partition; Kafka takes 1 MiB (max.message.bytes) unless it is told more
RECORD_BYTES_MAX = 4 * 1024 * 1024  # of one record, which is one batch; told to topics that are made here
_FETCH_BYTES_MAX = 8 * 1024 * 1024
_REQUEST_S = 5.0  # for what is done again a moment later
_LOOK_AGAIN_S = 0.05
_COORDINATOR_S = 15.0  # a Kafka that has just begun makes the topic of its groups first
_NO_LEADER = (LeaderNotAvailableError, NotLeaderForPartitionError, RequestTimedOutError, KafkaTimeoutError)


class Unavailable(Exception):
    """Kafka does not answer, or refuses."""


class Unanswered(Unavailable):
    """Nobody answers for this partition; others may be written."""


class LogLost(Exception):
    """The next record to read of these partitions is not there."""

    def __init__(self, partitions: Iterable[int]) -> None:
        self.partitions = sorted(partitions)
        super().__init__(f"partitions {self.partitions}")


class ToWrite(msgspec.Struct, frozen=True):
    key: bytes
    value: bytes
    written_ms: int


class _Producer(NamedTuple):
    client: Any
    ended: "asyncio.Future[None]"  # what it has not been answered by then, it never is


class IngressTopic:
    def __init__(self, name: str, settings: Settings) -> None:
        self.name = settings.ingress_topic
        self._settings = settings
        self._arguments = client_arguments(name, settings)
        self._admin: Any = None
        self._consumer: Any = None
        self._producer: _Producer | None = None
        self._making_producer = asyncio.Lock()
        self._places: list[TopicPartition] = []

    async def open(self) -> int:
        """Makes the topic if there is none. Returns the number of its partitions; raises `Unavailable`."""
        try:
            self._admin = AIOKafkaAdminClient(**self._arguments)
            await self._admin.start()
            partitions = await self._ensure_topic()
            self._places = [TopicPartition(self.name, partition) for partition in range(partitions)]
            self._consumer = AIOKafkaConsumer(
                **self._arguments,
                group_id=self.name,
                enable_auto_commit=False,
                auto_offset_reset="none",
                fetch_max_bytes=_FETCH_BYTES_MAX,
                fetch_max_wait_ms=250,
            )
            await self._consumer.start()
            # Partitions that are assigned while aiokafka looks for the coordinator of the group make it give up.
            async with asyncio.timeout(_COORDINATOR_S):
                await self._consumer.committed(TopicPartition(self.name, 0))
            await self._live_producer()
        except (KafkaError, OSError, TimeoutError) as error:
            await self.close()
            raise Unavailable(text_of(error)) from None
        return partitions

    async def close(self) -> None:
        await self._retire(self._producer)
        for client in (self._consumer, self._admin):
            if client is not None:
                await stop(client)
        self._consumer = self._admin = None

    # Writing

    async def write(self, partition: int, records: list[ToWrite]) -> int:
        """All of them or none, in their order; the offset of the last one. Raises `Unavailable`, or `Unanswered`.

        Waits for as long as Kafka is away. When it fails it is not known whether they were written.
        """
        producer = None
        try:
            producer = await self._live_producer()
            batch = producer.client.create_batch()
            for record in records:
                added = batch.append(key=record.key, value=record.value, timestamp=record.written_ms)
                assert added is not None, "more than one write takes"
            sent = await producer.client.send_batch(batch, self.name, partition=partition)
            sent.add_done_callback(lambda done: done.cancelled() or done.exception())  # also when nobody waits any more
            await asyncio.wait((sent, producer.ended), return_when=asyncio.FIRST_COMPLETED)
            if not sent.done():
                raise KafkaConnectionError("another write failed, and this one was not answered meanwhile")
            written = sent.result()
        except (KafkaError, OSError) as error:
            await self._retire(producer)
            failure = Unanswered if isinstance(error, _NO_LEADER) else Unavailable
            raise failure(text_of(error)) from None
        return int(written.offset) + len(records) - 1

    async def _live_producer(self) -> _Producer:
        async with self._making_producer:
            if self._producer is None:
                producer = AIOKafkaProducer(
                    **self._arguments, enable_idempotence=True, acks="all", max_batch_size=2 * WRITE_BYTES_MAX
                )
                try:
                    await producer.start()
                except BaseException:
                    await stop(producer)
                    raise
                self._producer = _Producer(producer, asyncio.get_running_loop().create_future())
            return self._producer

    async def _retire(self, producer: _Producer | None) -> None:
        """One that failed once may never write again, so another one takes its place. What others write with it has
        until it is stopped; aiokafka would not tell them that nobody answers any more.
        """
        if producer is not None and producer is self._producer:
            self._producer = None
            try:
                await stop(producer.client)
            finally:
                producer.ended.set_result(None)

    # Reading

    def assign(self, positions: dict[int, int]) -> None:
        """Reads these partitions from these offsets on, and no others; what was fetched before is forgotten."""
        self._consumer.assign([TopicPartition(self.name, partition) for partition in positions])
        for partition, offset in positions.items():
            self._consumer.seek(TopicPartition(self.name, partition), offset)

    async def read(self, most: int, timeout_s: float) -> dict[int, list[Record]]:
        """Raises `LogLost`, `Unavailable`."""
        try:
            found = await self._consumer.getmany(timeout_ms=int(timeout_s * 1000), max_records=most)
        except OffsetOutOfRangeError as error:
            raise LogLost(partition for _, partition in error.args[0]) from None
        except (KafkaError, OSError) as error:
            raise Unavailable(text_of(error)) from None
        return {
            partition: [Record(record.offset, record.timestamp, record.value) for record in records]
            for (_, partition), records in found.items()
        }

    async def bounds(self, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """The first offset that is there, and the one that will be written next, of those that answer in time."""
        found = await bounds_of(self._consumer, [TopicPartition(self.name, partition) for partition in partitions])
        return {place.partition: bounds for place, bounds in found.items()}

    async def first_written_ms(self, partition: int) -> int | None:
        """When the first record that is there was written; None when there is none. Raises `Unavailable`."""
        place = TopicPartition(self.name, partition)
        try:
            async with asyncio.timeout(LEADER_S):
                found = (await self._consumer.offsets_for_times({place: 0}))[place]
        except (KafkaError, OSError, TimeoutError) as error:
            raise Unavailable(text_of(error)) from None
        return None if found is None else int(found.timestamp)

    # What is confirmed

    async def committed(self) -> dict[int, Committed]:
        """Of all partitions that have something. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(_REQUEST_S):
                found = await self._admin.list_consumer_group_offsets(self.name, partitions=self._places)
        except (KafkaError, OSError, TimeoutError) as error:
            raise Unavailable(text_of(error)) from None
        return {one.partition: read_note(kept.offset, kept.metadata) for one, kept in found.items() if kept.offset >= 0}

    async def commit(self, committed: dict[int, Committed]) -> None:
        """Of partitions that are assigned. Raises `Unavailable`."""
        noted = {
            TopicPartition(self.name, partition): (one.offset, note_of(one)) for partition, one in committed.items()
        }
        try:
            async with asyncio.timeout(_REQUEST_S):
                await self._consumer.commit(noted)
        except (KafkaError, OSError, TimeoutError) as error:
            raise Unavailable(text_of(error)) from None

    async def _ensure_topic(self) -> int:
        wanted = self._settings.ingress
        if self.name not in await self._admin.list_topics():  # asking for one by its name may make it
            topic = NewTopic(
                self.name,
                wanted.partitions,
                wanted.replication,
                topic_configs={
                    "cleanup.policy": "delete",
                    "retention.ms": str(int(wanted.retention_s * 1000)),
                    "max.message.bytes": str(RECORD_BYTES_MAX),
                },
            )
            made = await self._admin.create_topics([topic])
            for name, code, reason in made.topic_errors:
                if code not in (NoError.errno, TopicAlreadyExistsError.errno):  # another one may have been faster
                    raise KafkaError(f"the topic {name} cannot be made: {reason or for_code(code).__name__}")
        partitions = await self._count_partitions()
        if partitions != wanted.partitions:
            log.warning(
                "the ingress topic has another number of partitions", found=partitions, wanted=wanted.partitions
            )
        return partitions

    async def _count_partitions(self) -> int:
        """Brokers know of a topic a moment after it was made."""
        deadline = time.monotonic() + _REQUEST_S
        while True:
            (described,) = await self._admin.describe_topics([self.name])
            if partitions := len(described["partitions"]):
                return partitions
            if time.monotonic() > deadline:
                raise KafkaError(f"the topic {self.name} is not there yet")
            await asyncio.sleep(_LOOK_AGAIN_S)
