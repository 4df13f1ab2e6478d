"""Writes to one topic of Kafka, and knows how far it got. The one file of the sinks that owns aiokafka.

In a transaction the records and the position are written together: the number of the last entry, as the committed
offset of a group that nobody joins, under the name of the outbox whose numbers these are. Whoever begins anew ends what
the one before had under way, and then the position says what is there.
"""

import asyncio
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import MessageSizeTooLargeError

from braid.config import Settings
from braid.kafka_clients import client_arguments, stop
from services.connpoint.sinks.batches import Batch, Batches
from services.connpoint.sinks.outbox import Page

_BATCH_BYTES_MAX = 512 * 1024  # Kafka takes 1 MiB (max.message.bytes) unless it is told otherwise
_REQUEST_BYTES_MAX = 8 * 1024 * 1024
_TRANSACTION_S = 30.0


class Refused(Exception):
    """For its size. Opened again, the writer does otherwise."""


class TooLarge(Refused):
    """The topic does not take the record of this entry."""

    def __init__(self, number: int) -> None:
        super().__init__(f"the topic does not take a record of this size ({number})")
        self.number = number


class TopicWriter:
    """Every call may raise `KafkaError` or `OSError`; then it is closed, and opened again."""

    def __init__(self, name: str, topic: str, outbox: str, settings: Settings) -> None:
        self._name = name
        self._topic = topic
        self._outbox = outbox
        self._settings = settings
        self._is_transactional = settings.kafka.sink == "transactional"
        self._group = f"braid-{settings.cluster.name}-{name}-sink"
        self._batch_bytes_max = _BATCH_BYTES_MAX
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
            max_batch_size=self._batch_bytes_max,
            max_request_size=_REQUEST_BYTES_MAX,
        )
        await self._producer.start()
        self._partitions = sorted(await self._producer.partitions_for(self._topic))
        return await self._position() if self._is_transactional else 0

    async def close(self) -> None:
        if self._producer is not None:
            producer, self._producer = self._producer, None
            await stop(producer)

    async def write(self, page: Page, left_out: set[int]) -> None:
        """All of it but what is left out, in its order; in a transaction all or nothing. Raises `Refused`, too."""
        batches = Batches(self._producer.create_batch, self._partitions)
        for first, block in page.blocks:
            batches.add(first, block, left_out)
            await asyncio.sleep(0)  # others have a turn
        if not self._is_transactional:
            await self._send(batches)
            return
        await self._producer.begin_transaction()
        position = {TopicPartition(self._topic, self._partitions[0]): (page.last, self._outbox)}
        # Meanwhile: both are part of the transaction, in whichever order they come.
        positioning = asyncio.ensure_future(self._producer.send_offsets_to_transaction(position, self._group))
        try:
            await self._send(batches)
            await positioning
        finally:
            positioning.cancel()
            await asyncio.gather(positioning, return_exceptions=True)
        await self._producer.commit_transaction()

    async def _send(self, batches: Batches) -> None:
        """Side by side for partitions, one after the other for each."""
        sending = [
            asyncio.ensure_future(self._send_to(partition, of_partition))
            for partition, of_partition in batches.by_partition.items()
        ]
        try:
            await asyncio.gather(*sending)
        finally:
            for one in sending:
                one.cancel()
            await asyncio.gather(*sending, return_exceptions=True)

    async def _send_to(self, partition: int, batches: list[Batch]) -> None:
        for batch in batches:
            try:
                await (await self._producer.send_batch(batch.builder, self._topic, partition=partition))
            except MessageSizeTooLargeError:
                if batch.count == 1:
                    raise TooLarge(batch.first) from None
                self._batch_bytes_max //= 2  # of the next producer; in the end each record has a batch of its own
                raise Refused(f"the topic does not take {batch.count} records at once") from None

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
