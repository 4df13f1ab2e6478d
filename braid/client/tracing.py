"""The way of one publication through the cluster, hop by hop."""

import asyncio
import time
from typing import Any
from urllib.parse import quote

import msgspec

from braid.client.errors import BraidError
from braid.client.frames import Publication
from braid.client.rest import Rest

_POLL_S_FIRST = 0.02
_POLL_S_MAX = 0.5


class TraceHop(msgspec.Struct, frozen=True, kw_only=True):
    """One slice on the way. The times are nanoseconds since 1970 by the clock of the slice's machine."""

    slice: str
    arrived_ns: int
    left_ns: int


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """`complete` when the way has ended; otherwise these are the hops known in time."""

    id: str
    complete: bool = False
    hops: list[TraceHop] = []


async def trace(rest: Rest, publication: Publication | dict[str, Any], timeout_s: float) -> Trace:
    """Publishes with tracing switched on, then asks for the trace until it is complete."""
    accepted = await rest.post("/v1/publications", publication, {"trace": "true"})
    id = _first_id(accepted)
    deadline = time.monotonic() + timeout_s
    pause_s = _POLL_S_FIRST
    while True:
        found = await _ask(rest, id)
        if found.complete or time.monotonic() + pause_s > deadline:
            return found
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, _POLL_S_MAX)


async def _ask(rest: Rest, id: str) -> Trace:
    try:
        answer = await rest.get(f"/v1/publications/{quote(id, safe='')}/trace")
        return msgspec.convert(answer, Trace)
    except msgspec.ValidationError as error:
        raise BraidError(f"the trace of {id} is not as expected: {error}") from None
    except BraidError as error:
        if error.status == 404:
            return Trace(id=id)  # not known yet
        raise


def _first_id(accepted: Any) -> str:
    try:
        return str(accepted["ids"][0])
    except (TypeError, KeyError, IndexError):
        raise BraidError("the server accepted the publication but told no id") from None
