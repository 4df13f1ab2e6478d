"""Connections to receivers, kept open for the next request to the same place.

The pool of httpcore looks at each of its connections whenever a request begins or ends, and for each that is idle at
all others. With hundreds of receivers that costs more than posting, so connections are kept here, and each request
looks at its own.
"""

import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpcore

KEPT_OPEN_MAX = 128  # that nobody uses; beyond them the one that was used least recently is closed
KEPT_OPEN_S = 30.0

_Place = tuple[bytes, bytes, int]  # scheme, host, port


class Connections:
    def __init__(self, context: ssl.SSLContext, network: httpcore.AsyncNetworkBackend) -> None:
        self._context = context
        self._network = network
        self._idle: OrderedDict[httpcore.AsyncHTTPConnection, _Place] = OrderedDict()  # as they were given back
        self._at: dict[_Place, list[httpcore.AsyncHTTPConnection]] = {}

    @asynccontextmanager
    async def lent(self, url: str) -> AsyncIterator[httpcore.AsyncHTTPConnection]:
        """One for a single request, which nobody else uses meanwhile."""
        origin = httpcore.URL(url).origin
        place = origin.scheme, origin.host, origin.port
        connection = await self._taken(place)
        if connection is None:
            connection = httpcore.AsyncHTTPConnection(
                origin=origin, ssl_context=self._context, keepalive_expiry=KEPT_OPEN_S, network_backend=self._network
            )
        try:
            yield connection
        finally:
            await self._give_back(connection, place)

    async def close(self) -> None:
        while self._idle:
            await self._close_first()

    async def _taken(self, place: _Place) -> httpcore.AsyncHTTPConnection | None:
        """The one that was used last, if the receiver has not closed it."""
        while (there := self._at.get(place)) is not None:
            connection = there[-1]
            self._forget(connection)
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return None

    async def _give_back(self, connection: httpcore.AsyncHTTPConnection, place: _Place) -> None:
        if not connection.is_available():  # its answer was not read to the end, or there was none
            await connection.aclose()
            return
        self._idle[connection] = place
        self._at.setdefault(place, []).append(connection)
        while self._idle and (len(self._idle) > KEPT_OPEN_MAX or next(iter(self._idle)).has_expired()):
            await self._close_first()

    async def _close_first(self) -> None:
        connection = next(iter(self._idle))
        self._forget(connection)
        await connection.aclose()

    def _forget(self, connection: httpcore.AsyncHTTPConnection) -> None:
        place = self._idle.pop(connection)
        there = self._at[place]
        there.remove(connection)
        if not there:
            del self._at[place]
