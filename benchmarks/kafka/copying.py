"""The limit: a process that reads records of one topic and writes them to another, with aiokafka and nothing else.

| way      | how                                                                                     |
|----------|-----------------------------------------------------------------------------------------|
| singles  | `send` for each record, as most programs do it                                          |
| batches  | whatever was read of a partition is a batch of that partition, without a look at the key |
"""

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable
from multiprocessing.connection import Connection
from typing import Any, Literal

import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

Way = Literal["singles", "batches"]
WAYS: tuple[Way, ...] = ("singles", "batches")

_POLL_RECORDS_MAX = 1_000
_BATCH_BYTES_MAX = 512 * 1024
_S_MAX = 300.0


async def measure(way: Way, bootstrap: str, source: str, target: str, records: int) -> float:
    """Records per second, from the first one that was read to the last one that was acknowledged."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_copy, args=(way, bootstrap, (source, target), records, there), daemon=True)
    process.start()
    try:
        async with asyncio.timeout(_S_MAX):
            rate: float = await asyncio.to_thread(here.recv)
    finally:
        process.terminate()
        process.join()
    return rate


def _copy(way: Way, bootstrap: str, topics: tuple[str, str], records: int, answer: Connection) -> None:
    source, target = topics

    async def run() -> float:
        consumer = AIOKafkaConsumer(source, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, max_batch_size=_BATCH_BYTES_MAX
        )
        async with consumer, producer:
            copied, started = 0, 0.0
            sent: list[Awaitable[Any]] = []
            while copied < records:
                found = await consumer.getmany(timeout_ms=200, max_records=_POLL_RECORDS_MAX)
                started = started or time.perf_counter()
                for place, read in found.items():
                    sent += await _write(way, producer, target, place.partition, read)
                    copied += len(read)
                if len(sent) > 20_000 or way == "batches":
                    await asyncio.gather(*sent)
                    sent = []
            await asyncio.gather(*sent)
            return copied / (time.perf_counter() - started)

    answer.send(uvloop.run(run()))


async def _write(
    way: Way, producer: AIOKafkaProducer, topic: str, partition: int, read: list[Any]
) -> list[Awaitable[Any]]:
    if way == "singles":
        return [await producer.send(topic, one.value, one.key, headers=one.headers) for one in read]
    sent: list[Awaitable[Any]] = []
    batch = producer.create_batch()
    for one in read:
        while not batch.append(key=one.key, value=one.value, timestamp=None, headers=[*one.headers]):
            sent.append(await producer.send_batch(batch, topic, partition=partition))
            batch = producer.create_batch()
    sent.append(await producer.send_batch(batch, topic, partition=partition))
    return sent
