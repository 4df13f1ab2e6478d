"""Kafka is killed while somebody writes transactions to it, but not in the moments in which it forgets what it decided.

A single broker that is killed behind its decision on a transaction and before its marker in the partitions may never
write that marker (docs/kafka.md, "How a sink keeps it"): then no client knows what became of the transaction. So who
writes is stopped, Kafka is killed when nothing is decided and not marked, and who writes goes on. A transaction that
is under way then stays so, and records of it may be in some partitions.
"""

import asyncio
import os
import signal
import struct

from aiokafka import AIOKafkaConsumer, TopicPartition

from coordinator.kafka import KafkaServer

_STATES = TopicPartition("__transaction_state", 0)
_STATUS = struct.Struct(">hqhib")  # version, producer's id and epoch, timeout, status
_DECIDED = {2, 3}  # to commit, to abort; what follows is that everything is marked
_SETTLES_S = 10.0


async def kill_kafka(kafka: KafkaServer, writer: int) -> None:
    """`writer` is the id of the only process that writes transactions."""
    os.kill(writer, signal.SIGSTOP)
    try:
        async with asyncio.timeout(_SETTLES_S):
            while await _has_decided_something(kafka.bootstrap):
                await asyncio.sleep(0.05)
        await asyncio.to_thread(kafka.kill)
    finally:
        os.kill(writer, signal.SIGCONT)


async def _has_decided_something(bootstrap: str) -> bool:
    statuses: dict[bytes, int] = {}
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([_STATES])
        await consumer.seek_to_beginning(_STATES)
        end = (await consumer.end_offsets([_STATES]))[_STATES]
        while await consumer.position(_STATES) < end:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                for record in records:
                    if record.value is not None:
                        statuses[record.key] = _STATUS.unpack_from(record.value)[-1]
    assert statuses, "nobody has written a transaction"
    return not _DECIDED.isdisjoint(statuses.values())
