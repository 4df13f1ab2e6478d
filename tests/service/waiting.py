"""Waiting in tests: for a condition, never for a time."""

import asyncio
import time
from collections.abc import Callable

TIMEOUT_S = 20.0  # only bounds a failure


async def until(condition: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
    """Returns as soon as the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "this did not become true in time"
        await asyncio.sleep(0.005)
