"""Whose turn it is to post. Endpoints in trouble wait for each other, and so do those of one host; nobody else does.

A turn of the host is taken first: whoever waits for a slow host holds no turn that others could use.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_TROUBLED_SHARE = 4  # one turn of an endpoint in trouble for so many of the others


class Lanes:
    def __init__(self, requests_max: int, requests_per_host_max: int) -> None:
        self._steady = asyncio.Semaphore(requests_max)
        self._troubled = asyncio.Semaphore(max(1, requests_max // _TROUBLED_SHARE))
        self._requests_per_host_max = requests_per_host_max
        self._hosts: dict[tuple[str, bool], _Host] = {}

    @asynccontextmanager
    async def turn(self, host: str, *, in_trouble: bool) -> AsyncIterator[None]:
        """A host has as many turns again for endpoints in trouble: one that hangs may share it with others."""
        key = host, in_trouble
        shared = self._hosts.get(key)
        if shared is None:
            shared = self._hosts[key] = _Host(self._requests_per_host_max)
        shared.users += 1
        try:
            async with shared.turns, self._troubled if in_trouble else self._steady:
                yield
        finally:
            shared.users -= 1
            if not shared.users:
                del self._hosts[key]


class _Host:
    def __init__(self, turns: int) -> None:
        self.turns = asyncio.Semaphore(turns)
        self.users = 0  # those that wait included
