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
    """aiokafka waits for whatever is under way, also where nobody will answer."""
    stopping = asyncio.ensure_future(client.close() if hasattr(client, "close") else client.stop())
    await asyncio.wait((stopping,), timeout=_STOP_S)
    stopping.cancel()
    with contextlib.suppress(asyncio.CancelledError, KafkaError, OSError):
        await stopping


def text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
