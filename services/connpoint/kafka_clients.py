"""What all clients of Kafka in a connection point have in common."""

import asyncio
import contextlib
from typing import Any

from aiokafka.errors import KafkaError

from braid.config import Settings

_REQUEST_S = 10.0
_STOP_S = 3.0


def client_arguments(name: str, settings: Settings) -> dict[str, Any]:
    return {
        "bootstrap_servers": settings.kafka.bootstrap,
        "client_id": f"braid-{name}",
        "request_timeout_ms": int(_REQUEST_S * 1000),
    }


async def stop(client: Any) -> None:
    """aiokafka waits for whatever is under way, also where nobody will answer. Then its connections are closed, so
    that nothing of it goes on behind our back.
    """
    stopping = asyncio.ensure_future(client.close() if hasattr(client, "close") else client.stop())
    await asyncio.wait((stopping,), timeout=_STOP_S)
    if not stopping.done():
        stopping.cancel()
        sender = getattr(client, "_sender", None)  # of a producer
        if sender is not None and sender.sender_task is not None:
            sender.sender_task.cancel()
        connections = getattr(client, "client", None) or getattr(client, "_client", None)
        if connections is not None:
            await asyncio.wait((asyncio.ensure_future(connections.close()),), timeout=_STOP_S)
    with contextlib.suppress(asyncio.CancelledError, KafkaError, OSError):
        await stopping


def text_of(error: BaseException) -> str:
    """Errors of Kafka say their name themselves."""
    name, text = type(error).__name__, str(error)
    if not text:
        return name
    return text if text.startswith(name) else f"{name}: {text}"
