"""`GET /v1/stream`: notifications as server-sent events."""

import asyncio
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from braid import problems
from services.connpoint.door import Attachment, Door, Item
from services.connpoint.http import openapi
from services.connpoint.http.delivery import StuckWatch, lost_detail
from services.connpoint.http.subscribers import check_subscriber

HEARTBEAT_S = 15.0
RETRY_MS = 2_000  # what a browser waits before it connects again
ABORT = "braid.abort"  # in the scope: cuts the connection without waiting for what the client does not read

_encode = msgspec.json.encode


def create_router(door: Door, heartbeat_s: float = HEARTBEAT_S) -> APIRouter:
    router = APIRouter(tags=["stream"])

    @router.get(
        "/v1/stream",
        summary="Notifications of one subscriber as server-sent events",
        response_class=Response,
        responses={
            200: {
                "description": "Events `notify`, `gap` and `closed`; a comment every 15 s keeps the connection open",
                "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
            },
            **openapi.problem_answers(422, 503),
        },
    )
    async def stream(
        subscriber: Annotated[str, Query(description="whose notifications")] = "",
        last_event_id: Annotated[str, Query(description="for clients that cannot set the header")] = "",
        resumed: Annotated[
            str, Header(alias="Last-Event-ID", description="resumes after this event, or says that it cannot")
        ] = "",
    ) -> Response:
        if not subscriber:
            raise problems.invalid("subscriber", "say whose notifications: ?subscriber=…")
        check_subscriber(subscriber, door.settings.limits, "subscriber")
        # A browser that connects again sends the header, while the address still has what it was opened with.
        attachment = await door.attach(subscriber, temporary=False, last_event_id=resumed or last_event_id or None)
        return EventStream(attachment, door.settings.delivery.frame_notifications_max, heartbeat_s)

    return router


class EventStream(Response):
    """Writes events until the client leaves or the attachment is closed."""

    media_type = "text/event-stream"

    def __init__(self, attachment: Attachment, most: int, heartbeat_s: float) -> None:
        self.status_code = 200
        self.background = None
        self._attachment = attachment
        self._most = most
        self._heartbeat_s = heartbeat_s
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writing = asyncio.create_task(self._write(send))
        leaving = asyncio.create_task(_until_disconnect(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done() and not writing.cancelled():
                writing.result()
            elif not leaving.done() and ABORT in scope:  # stuck: what is still unsent would be waited for for ever
                scope[ABORT]()
                await leaving
        finally:
            writing.cancel()
            leaving.cancel()
            await asyncio.gather(writing, leaving, return_exceptions=True)
            self._attachment.detach()

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await self._send(send, f"retry: {RETRY_MS}\n\n".encode())
        if self._attachment.gap:
            await self._send(send, _event(b"gap", {"detail": self._attachment.gap}))
        while items := await self._take(send):
            if lost := self._attachment.lost():
                await self._send(send, _event(b"gap", {"detail": lost_detail(lost)}))
            await self._send(send, b"".join(map(self._notify, items)))
        closed = self._attachment.closed
        if closed is not None:
            await self._send(send, _event(b"closed", closed))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _take(self, send: Send) -> list[Item]:
        """Taking is never interrupted for a heartbeat: what was taken would be lost."""
        taking = asyncio.create_task(self._attachment.take(self._most))
        try:
            while not (await asyncio.wait({taking}, timeout=self._heartbeat_s))[0]:
                await self._send(send, b": heartbeat\n\n")
            return taking.result()
        finally:
            taking.cancel()

    async def _send(self, send: Send, chunk: bytes) -> None:
        writing = asyncio.current_task()
        assert writing is not None
        with StuckWatch(self._attachment, writing.cancel):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    def _notify(self, item: Item) -> bytes:
        event_id = self._attachment.event_id(item.number).encode()
        return b"id: %b\nevent: notify\ndata: %b\n\n" % (event_id, _one_line(item.payload))


def _one_line(payload: bytes) -> bytes:
    """In JSON a line break is only ever white space between tokens; in an event stream it ends the field."""
    if b"\n" in payload or b"\r" in payload:
        return payload.replace(b"\r", b" ").replace(b"\n", b" ")
    return payload


def _event(name: bytes, data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name, _encode(data))


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


_EXAMPLE = (
    "retry: 2000\n\n"
    "id: 1a1e250b5a1.5-1\nevent: notify\n"
    'data: {"subscriptions":["s-e021a9be7a73e69a3199"],"publication":{"id":"reading-1","attributes":{"value":41}}}\n\n'
)
