"""Time for what is under test: it is ticked while it is used, as a slice would."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def ticked(on_tick: Callable[[float], None], clock: Callable[[], float]) -> AsyncIterator[None]:
    async def tick() -> None:
        while True:
            await asyncio.sleep(0.005)
            on_tick(clock())

    ticking = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticking.cancel()
        await asyncio.wait((ticking,))
        if not ticking.cancelled():
            ticking.result()  # a tick that failed fails the test
