"""Request bodies: read raw, bounded in size and in time, and known to be UTF-8 before anything looks at them."""

import asyncio

from starlette.requests import ClientDisconnect, Request

from braid import problems
from braid.problems import Problem

STALL_S = 10.0  # without a single byte for so long, the body is given up
WHOLE_S = 60.0  # and in any case after this, so that a trickle cannot hold a connection for ever

# A client that is still writing does not listen; reading on for a while lets it see the answer.
_DRAIN_FACTOR = 4


class BodyReader:
    """Reads request bodies within the limits of this connection point."""

    def __init__(self, bytes_max: int, stall_s: float = STALL_S, whole_s: float = WHOLE_S) -> None:
        self._bytes_max = bytes_max
        self._stall_s = stall_s
        self._whole_s = whole_s

    async def read(self, request: Request) -> bytes:
        self._check_head(request)
        loop = asyncio.get_running_loop()
        latest = loop.time() + self._whole_s
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._stall_s) as stall:
                while True:
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    chunk = message.get("body", b"")
                    size += len(chunk)
                    if size <= self._bytes_max:
                        chunks.append(chunk)
                    elif size > self._bytes_max * _DRAIN_FACTOR:
                        raise self._too_large(None)
                    else:
                        chunks.clear()
                    if not message.get("more_body", False):
                        break
                    stall.reschedule(min(loop.time() + self._stall_s, latest))
        except TimeoutError:
            raise self._too_large(None) if size > self._bytes_max else _stalled(size) from None
        if size > self._bytes_max:
            raise self._too_large(size)
        return b"".join(chunks) if len(chunks) > 1 else chunks[0]

    async def read_text(self, request: Request) -> str:
        return as_text(await self.read(request))

    def _check_head(self, request: Request) -> None:
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", ""):
            detail = f"the content encoding '{encoding}' is not understood; send the body as it is"
            raise Problem(415, "unsupported-media-type", "Unsupported media type", detail)
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > self._bytes_max and "expect" in request.headers:
            raise self._too_large(int(announced))  # the client waits for our word, so nothing is under way

    def _too_large(self, actual: int | None) -> Problem:
        return problems.limit_exceeded("limits.body_bytes_max", self._bytes_max, actual)


def as_text(body: bytes) -> str:
    """The JSON decoder skips over `data` without a look at its encoding, so it is checked here for all of the body."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise problems.malformed(
            f"the body is not UTF-8: {error.reason} at byte {error.start}", position=error.start
        ) from None


def _stalled(size: int) -> Problem:
    detail = f"the body stopped arriving after {size} bytes"
    return Problem(408, "request-timeout", "The request did not arrive in time", detail)
