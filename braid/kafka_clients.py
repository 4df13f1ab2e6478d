"""What all clients of Kafka have in common: how they are made, stopped, and what they tell."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from braid.config import Settings

log = structlog.get_logger()
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it tells of every attempt; what matters is raised

_REQUEST_S = 10.0
_STOP_S = 3.0
LEADER_S = 2.0  # for a partition to say what it has; one that has no leader does not


def client_arguments(name: str, settings: Settings) -> dict[str, Any]:
    return {
        "bootstrap_servers": settings.kafka.bootstrap,
        "client_id": f"braid-{name}",
        "request_timeout_ms": int(_REQUEST_S * 1000),
    }


async def stop(client: Any, within_s: float = _STOP_S) -> None:
    """aiokafka waits for whatever is under way, also where nobody will answer. Then its connections are closed, so
    that nothing of it goes on behind our back. It does not fail: who stops a client is about to make another one.
    """
    stopping = _begin(client.close() if hasattr(client, "close") else client.stop())
    await asyncio.wait((stopping,), timeout=within_s)
    if stopping.done():
        return
    stopping.cancel()
    sender = getattr(client, "_sender", None)  # of a producer
    if sender is not None and sender.sender_task is not None:
        sender.sender_task.cancel()
    connections = getattr(client, "client", None) or getattr(client, "_client", None)
    if connections is not None:
        await asyncio.wait((_begin(connections.close()),), timeout=_STOP_S)
    await asyncio.wait((stopping,), timeout=_STOP_S)


async def bounds_of(consumer: Any, places: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """The first offset that is there, and the one that will be written next, of those that answer in time.

    Each is asked for alone: aiokafka waits for all that it is asked for together, and one may have no leader.
    """
    asked = list(places)
    found = await asyncio.gather(*(_bounds(consumer, place) for place in asked))
    return {place: bounds for place, bounds in zip(asked, found, strict=True) if bounds is not None}


async def _bounds(consumer: Any, place: TopicPartition) -> tuple[int, int] | None:
    try:
        async with asyncio.timeout(LEADER_S):
            begins = await consumer.beginning_offsets([place])
            ends = await consumer.end_offsets([place])
    except (KafkaError, OSError, TimeoutError) as error:
        log.warning(
            "a partition does not say where it begins",
            topic=place.topic,
            partition=place.partition,
            reason=text_of(error),
        )
        return None
    return begins[place], ends[place]


def _begin(ending: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
    task = asyncio.ensure_future(ending)
    task.add_done_callback(_look_at)
    return task


def _look_at(ended: asyncio.Future[None]) -> None:
    """Kafka may be away: that is no news. Anything else is."""
    error = None if ended.cancelled() else ended.exception()
    if error is not None and not isinstance(error, KafkaError | OSError):
        log.error("a client of Kafka could not be stopped", reason=text_of(error))


def text_of(error: BaseException) -> str:
    """Errors of Kafka say their name themselves."""
    name, text = type(error).__name__, str(error)
    if not text:
        return name
    return text if text.startswith(name) else f"{name}: {text}"
