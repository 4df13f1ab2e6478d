"""One attempt: a request is posted, and what the receiver says of it."""

import asyncio
import contextlib
import ssl
from collections.abc import Iterable
from functools import cache
from typing import Any

import certifi
import httpcore
import msgspec
import structlog

from braid.config import Webhooks
from services.connpoint.webhooks.addresses import ForbiddenAddressError, Resolver
from services.connpoint.webhooks.connections import Connections

log = structlog.get_logger()

STEADY_THREADS, TROUBLED_THREADS = 24, 8  # that look up names
_ADDRESSES_MAX = 4  # of one name that are tried
_NEXT_ADDRESS_S = 2.5
_ANSWER_BYTES_MAX = 16 * 1024
_ANSWER_S_MAX = 1.0  # behind its head
_REASON_LENGTH_MAX = 200


class Answer(msgspec.Struct, frozen=True):
    status: int
    retry_after: str = ""


class PostingError(Exception):
    """There is no answer; the message says why."""

    def __init__(self, reason: str, *, is_refusal: bool = False) -> None:
        super().__init__(reason[:_REASON_LENGTH_MAX])
        self.is_refusal = is_refusal


class Poster:
    """Connections are shared by all endpoints; those in trouble have their own, and their own threads for names.

    There are no more connections than requests under way, and those kept open.
    """

    def __init__(self, settings: Webhooks) -> None:
        self._timeout_s = settings.timeout_s
        self._resolvers = [
            Resolver(threads, allow_private=settings.allow_private) for threads in (STEADY_THREADS, TROUBLED_THREADS)
        ]
        self._connections = [Connections(_trust(), _CheckedAddresses(resolver)) for resolver in self._resolvers]

    async def post(self, url: str, headers: dict[str, str], body: bytes, *, in_trouble: bool) -> Answer:
        """Redirections are answers like others. Raises `PostingError`."""
        answer: Answer | None = None
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._connections[in_trouble].lent(url) as connection,
                connection.stream("POST", url, headers=list(headers.items()), content=body) as response,
            ):
                answer = Answer(response.status, _header(response.headers, b"retry-after"))
                await _read_on(response)
        except TimeoutError:
            if answer is None:
                raise PostingError(f"no answer within {self._timeout_s:g} s") from None
        except ForbiddenAddressError as error:
            raise PostingError(str(error), is_refusal=True) from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            if answer is None:
                raise PostingError(f"no answer: {error or type(error).__name__}") from None
        except Exception as error:
            log.exception("a webhook request cannot be posted", url=url)
            raise PostingError(f"cannot be posted: {error}", is_refusal=True) from None
        assert answer is not None
        return answer

    async def close(self) -> None:
        for connections in self._connections:
            await connections.close()
        for resolver in self._resolvers:
            resolver.close()


class _CheckedAddresses(httpcore.AsyncNetworkBackend):
    """Connects to addresses that were looked at, and to no others."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        *others, last = (await self._resolver.addresses_of(host, port))[:_ADDRESSES_MAX]
        for address in others:
            with contextlib.suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await self._network.connect_tcp(address, port, _NEXT_ADDRESS_S, local_address, socket_options)
        return await self._network.connect_tcp(last, port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def _read_on(response: httpcore.Response) -> None:
    """A short body leaves the connection open for the next request; nobody waits for a long one."""
    read = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ANSWER_S_MAX):
            async for part in response.aiter_stream():
                read += len(part)
                if read > _ANSWER_BYTES_MAX:
                    return


def _header(headers: list[tuple[bytes, bytes]], wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in headers if name.lower() == wanted), "")


@cache
def _trust() -> ssl.SSLContext:
    """The authorities of this machine, and the usual ones where it has none."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context
