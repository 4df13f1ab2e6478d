"""A connection point that is told to stop: it finishes what it has accepted, then its subscribers read what waits."""

import asyncio
import contextlib

from services.connpoint.publishing import Publishing
from services.connpoint.streams import Streams

FAREWELL_S = 2.0  # for subscribers to read; what others publish keeps coming for those that are here


class Closing:
    def __init__(self, publishing: Publishing, streams: Streams) -> None:
        self._publishing = publishing
        self._streams = streams
        self._confirmed = asyncio.Event()
        self._taken = asyncio.Event()

    def on_tick(self) -> None:
        """While nothing new comes in."""
        if self._publishing.is_drained:
            self._confirmed.set()
            if not self._streams.are_waiting:
                self._taken.set()

    async def wait(self) -> str:
        """Until the connection point may stop, and why. The caller bounds the time."""
        await self._confirmed.wait()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._taken.wait(), FAREWELL_S)
        return "nothing that was accepted waits for it"
