"""The consumer group of the sources, as the connection point needs it. The one file of the sources that owns aiokafka.

A connection point is a static member: started again within `kafka.session_s`, it has its partitions at once. One that
lets others take over before it stops leaves the group. What it commits, Kafka takes only as long as it is a member and
has not missed a change of the group.
"""

import asyncio
from collections.abc import Collection, Iterable
from typing import Any, Protocol

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import (
    InvalidTimestampError,
    KafkaError,
    MessageSizeTooLargeError,
    NoError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    for_code,
)

from braid.config import Settings
from braid.kafka_clients import bounds_of, client_arguments, stop, text_of
from services.connpoint.sources.letters import DeadLetter, without_record, without_time, without_value
from services.connpoint.sources.notes import Note, read_note, write_note
from services.connpoint.sources.partitions import Partition
from services.connpoint.sources.records import Record

log = structlog.get_logger()

_FETCH_BYTES_MAX = 8 * 1024 * 1024
_FETCH_WAIT_MS = 250


class OutOfRange(Exception):
    """The next records of these partitions are not there."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        super().__init__(", ".join(f"{topic}-{number}" for topic, number in partitions))
        self.partitions = list(partitions)


class Membership(Protocol):
    """Who is told of changes. Between the two calls nothing is ours."""

    async def on_revoked(self) -> None: ...
    async def on_assigned(self, partitions: Collection[Partition]) -> None: ...


class SourceGroup:
    """Every call may raise `KafkaError` or `OSError`."""

    def __init__(self, name: str, settings: Settings, membership: Membership) -> None:
        self._settings = settings
        self._group = settings.kafka.group or f"braid-{settings.cluster.name}"
        self._name = name
        self._listener = _Listener(membership)
        self._consumer: Any = None
        self._admin: Any = None
        self._producer: Any = None
        self._making_producer = asyncio.Lock()
        self._missing: set[str] = set()  # topics of dead letters

    async def open(self) -> None:
        kafka = self._settings.kafka
        session_ms = int(kafka.session_s * 1000)
        self._admin = AIOKafkaAdminClient(**client_arguments(self._name, self._settings))
        self._consumer = AIOKafkaConsumer(
            **client_arguments(self._name, self._settings),
            group_id=self._group,
            group_instance_id=self._name,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
            partition_assignment_strategy=(StickyPartitionAssignor,),
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // 3,
            rebalance_timeout_ms=max(session_ms, 10_000),
            max_poll_interval_ms=86_400_000,  # one that waits for room is alive
            fetch_max_bytes=_FETCH_BYTES_MAX,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
        )
        await self._admin.start()
        await self._find_dead_letter_topics()
        await self._consumer.start()
        self._consumer.subscribe([source.topic for source in kafka.sources], listener=self._listener)

    async def close(self, *, leave: bool = False) -> None:
        """A member that leaves has its partitions dealt out at once, not when its session is over."""
        if leave and self._consumer is not None:
            # aiokafka leaves when it stops, but not for a static member.
            self._consumer._coordinator._group_instance_id = None
        for client in (self._consumer, self._producer, self._admin):
            if client is not None:
                await stop(client)
        self._consumer = self._producer = self._admin = None

    async def poll(self, partitions: Iterable[Partition], most: int, timeout_s: float) -> dict[Partition, list[Record]]:
        """Raises `OutOfRange`, too."""
        asked = [TopicPartition(*partition) for partition in partitions]
        try:
            found = await self._consumer.getmany(*asked, timeout_ms=int(timeout_s * 1000), max_records=most)
        except OffsetOutOfRangeError as error:
            raise OutOfRange([Partition(*tp) for tp in error.args[0]]) from None
        return {Partition(*tp): records for tp, records in found.items()}

    async def position(self, partition: Partition) -> int:
        """The next offset that `poll` will give, as far as it knows."""
        position: int = await self._consumer.position(TopicPartition(*partition))
        return position

    def seek(self, partition: Partition, offset: int) -> None:
        self._consumer.seek(TopicPartition(*partition), offset)

    def lag(self, partition: Partition, offset: int) -> int:
        """Records behind this offset, as far as it is known."""
        end = self._consumer.highwater(TopicPartition(*partition))
        return 0 if end is None else max(0, end - offset)

    async def notes(self, partitions: Iterable[Partition]) -> dict[Partition, Note]:
        """What is committed, of those of which something is."""
        asked = [TopicPartition(*partition) for partition in partitions]
        committed = await self._admin.list_consumer_group_offsets(self._group, partitions=asked)
        return {
            Partition(*tp): read_note(kept.offset, kept.metadata) for tp, kept in committed.items() if kept.offset >= 0
        }

    async def bounds(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
        """The first offset that is there, and the one behind the last, of those that answer in time."""
        found = await bounds_of(self._consumer, [TopicPartition(*partition) for partition in partitions])
        return {Partition(*place): bounds for place, bounds in found.items()}

    async def commit(self, notes: dict[Partition, Note]) -> None:
        """Raises `CommitFailedError` or `IllegalStateError` when these are not ours any more."""
        await self._consumer.commit(
            {TopicPartition(*partition): (note.offset, write_note(note)) for partition, note in notes.items()}
        )

    async def bury(self, letters: list[DeadLetter]) -> list[Exception | None]:
        """Returns when it is known of each that it is written, or why it is not. May be called again meanwhile."""
        async with self._making_producer:
            if self._producer is None:
                self._producer = await self._started_producer()
        for topic in {letter.topic for letter in letters} & self._missing:
            await self._make_topic(topic)
        return await asyncio.gather(*map(self._bury, letters))

    async def _started_producer(self) -> Any:
        arguments = client_arguments(self._name, self._settings)
        # Not idempotent: behind one that is refused for its size Kafka would take no other. Twice is allowed.
        producer = AIOKafkaProducer(**arguments, acks="all", max_request_size=_FETCH_BYTES_MAX)
        try:
            await producer.start()
        except BaseException:
            await stop(producer)
            raise
        return producer

    async def _bury(self, letter: DeadLetter) -> Exception | None:
        """As much of it as the topic takes."""
        failure = await self._bury_some(letter)
        return await self._bury_some(without_time(letter)) if isinstance(failure, InvalidTimestampError) else failure

    async def _bury_some(self, letter: DeadLetter) -> Exception | None:
        too_large: Exception | None = None
        for form in (letter, without_value(letter), without_record(letter)):
            try:
                await self._producer.send_and_wait(
                    form.topic, form.value, form.key, timestamp_ms=form.timestamp_ms, headers=form.headers
                )
            except MessageSizeTooLargeError as error:
                too_large = error
            except (KafkaError, OSError, TimeoutError) as error:
                return error
            else:
                return None
        return too_large

    async def _find_dead_letter_topics(self) -> None:
        """Makes those that are missing. One that cannot be made is tried again when there is a letter for it."""
        there = set(await self._admin.list_topics())
        self._missing = {source.dead_letter_topic for source in self._settings.kafka.sources} - there
        for topic in sorted(self._missing):
            try:
                await self._make_topic(topic)
            except KafkaError as error:
                log.error("dead letters have no topic", reason=text_of(error))

    async def _make_topic(self, topic: str) -> None:
        """With one partition."""
        made = await self._admin.create_topics([NewTopic(topic, 1, self._settings.kafka.replication)])
        for name, code, reason in made.topic_errors:
            if code not in (NoError.errno, TopicAlreadyExistsError.errno):  # another one may have been faster
                raise KafkaError(f"the topic {name} cannot be made: {reason or for_code(code).__name__}")
        self._missing.discard(topic)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """All of them, whatever is assigned next."""
        await self._membership.on_revoked()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        await self._membership.on_assigned([Partition(*tp) for tp in assigned])
