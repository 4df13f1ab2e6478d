"""A clock for what is told the time again and again, as a slice tells its parts."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

TICK_S = 0.01


@asynccontextmanager
async def ticking(on_tick: Callable[[float], None]) -> AsyncIterator[None]:
    async def tick() -> None:
        while True:
            await asyncio.sleep(TICK_S)
            on_tick(time.time())

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()
