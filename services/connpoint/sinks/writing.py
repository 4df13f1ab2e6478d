"""Writes to one topic of Kafka, and knows how far it got. The one file of the sinks that owns aiokafka.

In a transaction the records and the position are written together: the number of the last entry, as the committed
offset of a group that nobody joins, under the name of the outbox whose numbers these are. Whoever begins anew ends what
the one before had under way, and then the position says what is there.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from braid.config import Settings
from services.connpoint.kafka_clients import client_arguments, stop
from services.connpoint.sinks.entries import Entry, Outgoing, outgoing, partition_of

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it tells of every attempt; what matters is raised

_BATCH_BYTES_MAX = 512 * 1024  # Kafka takes 1 MiB (max.message.bytes) unless it is told more
_REQUEST_BYTES_MAX = 8 * 1024 * 1024
_TRANSACTION_S = 30.0


class TooLarge(Exception):
    """The topic does not take the record of this entry."""

    def __init__(self, number: int) -> None:
        super().__init__(f"the topic does not take a record of this size ({number})")
        self.number = number


class TopicWriter:
    """Every call may raise `KafkaError` or `OSError`; then it is closed, and another one begins."""

    def __init__(self, name: str, topic: str, outbox: str, settings: Settings) -> None:
        self._name = name
        self._topic = topic
        self._outbox = outbox
        self._settings = settings
        self._is_transactional = settings.kafka.sink == "transactional"
        self._group = f"braid-{settings.cluster.name}-{name}-sink"
        self._producer: Any = None
        self._partitions: list[int] = []

    async def open(self) -> int:
        """The number of the last entry that is in the topic, as far as Kafka knows it; else 0."""
        arguments = client_arguments(self._name, self._settings)
        if self._is_transactional:
            arguments["transactional_id"] = f"braid-{self._settings.cluster.name}-{self._name}-{self._topic}"
            arguments["transaction_timeout_ms"] = int(_TRANSACTION_S * 1000)
        self._producer = AIOKafkaProducer(
            **arguments,
            enable_idempotence=True,
            max_batch_size=_BATCH_BYTES_MAX,
            max_request_size=_REQUEST_BYTES_MAX,
        )
        await self._producer.start()
        self._partitions = sorted(await self._producer.partitions_for(self._topic))
        return await self._position() if self._is_transactional else 0

    async def close(self) -> None:
        if self._producer is not None:
            await stop(self._producer)
            self._producer = None

    async def write(self, entries: Sequence[tuple[int, Entry]]) -> None:
        """All of them, in their order, or none. Raises `TooLarge`, too."""
        if not self._is_transactional:
            await self._send(entries)
            return
        await self._producer.begin_transaction()
        await self._send(entries)
        position = {TopicPartition(self._topic, self._partitions[0]): (entries[-1][0], self._outbox)}
        await self._producer.send_offsets_to_transaction(position, self._group)
        await self._producer.commit_transaction()

    async def _send(self, entries: Sequence[tuple[int, Entry]]) -> None:
        by_partition: dict[int, list[tuple[int, Outgoing]]] = {}
        for number, entry in entries:
            record = outgoing(entry, number)
            partition = self._partitions[partition_of(entry, record.key, len(self._partitions))]
            by_partition.setdefault(partition, []).append((number, record))
        # Side by side for partitions, one after the other for each.
        sending = [
            asyncio.ensure_future(self._send_to(partition, records)) for partition, records in by_partition.items()
        ]
        try:
            await asyncio.gather(*sending)
        finally:
            for task in sending:
                task.cancel()

    async def _send_to(self, partition: int, records: list[tuple[int, Outgoing]]) -> None:
        batch, first = self._producer.create_batch(), 0
        for place, (_, record) in enumerate(records):
            if not _append(batch, record):
                await self._send_batch(batch, partition, records[first:place])
                batch, first = self._producer.create_batch(), place
                _append(batch, record)  # an empty batch takes one of any size
        await self._send_batch(batch, partition, records[first:])

    async def _send_batch(self, batch: Any, partition: int, records: list[tuple[int, Outgoing]]) -> None:
        try:
            await (await self._producer.send_batch(batch, self._topic, partition=partition))
        except MessageSizeTooLargeError:
            if len(records) > 1:
                raise
            raise TooLarge(records[0][0]) from None

    async def _position(self) -> int:
        admin = AIOKafkaAdminClient(**client_arguments(self._name, self._settings))
        try:
            await admin.start()
            place = TopicPartition(self._topic, self._partitions[0])
            found = (await admin.list_consumer_group_offsets(self._group, partitions=[place])).get(place)
        finally:
            await stop(admin)
        if found is None or found.offset < 0:
            return 0
        # Of another outbox, it says nothing of this one: the disk was lost, and its numbers with it.
        return int(found.offset) if found.metadata == self._outbox else 0


def _append(batch: Any, record: Outgoing) -> bool:
    appended = batch.append(timestamp=record.timestamp_ms, key=record.key, value=record.value, headers=record.headers)
    return appended is not None


__all__ = ["KafkaError", "TooLarge", "TopicWriter"]
