"""`WS /v1/ws`: the handshake. What happens on the connection afterwards is in `connection`.

`?subscriber=` names whose connection this is; it is attached at once, and every subscription made here is its own.
Without it the connection is anonymous: its subscriptions belong to a generated subscriber and go away with it, but a
subscription that names a subscriber belongs to that one, and the connection is attached to it as well.
"""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response
from starlette.websockets import WebSocket

from braid import problems
from braid.problems import Problem
from services.connpoint.door import Attachment, Door
from services.connpoint.http import openapi
from services.connpoint.http.connection import Connection, Opened
from services.connpoint.http.problem_responses import problem_response
from services.connpoint.http.publications import publisher_of
from services.connpoint.http.subscribers import anonymous_subscriber, check_subscriber


def create_router(door: Door) -> APIRouter:
    router = APIRouter(tags=["websocket"])

    async def serve(websocket: WebSocket) -> None:
        attachment: Attachment | None = None
        try:
            opened = _read_query(websocket, door)
            if not opened.anonymous:
                last_event_id = websocket.query_params.get("last_event_id") or None
                attachment = await door.attach(
                    opened.subscriber, temporary=opened.temporary, last_event_id=last_event_id
                )
        except Problem as problem:
            await websocket.send_denial_response(problem_response(problem))
            return
        try:
            await websocket.accept()
        except BaseException:
            if attachment is not None:
                attachment.detach()
            raise
        await Connection(websocket, door, opened).run(attachment)

    async def refuse(websocket: WebSocket) -> None:
        problem = problems.not_found("path", websocket.url.path)
        await websocket.send_denial_response(problem_response(problem))

    @router.get(
        "/v1/ws",
        summary="WebSocket: publish, subscribe and be notified over one connection",
        status_code=101,
        response_class=Response,
        responses=openapi.problem_answers(422, 426, 503),
        openapi_extra=_EXTRA,
    )
    async def not_upgraded() -> Response:
        """Frames are JSON text, one object each; `op` says what it is, and an answer repeats the `ref`.

        An error is `{"op":"error","ref":…,"problem":{…}}` and leaves the connection open. A subscription whose `from`
        lies in the past is answered first, then it is notified of the past, then of what is newer. The server closes
        with 4408 when the subscriber was too slow, 4409 when a newer connection of the same subscriber replaced this
        one, 1013 when the cluster is not available, 1001 when it stops, 1009 when a frame was too large.
        """
        detail = "this is a WebSocket; connect with ws:// and the upgrade headers"
        problem = Problem(426, "upgrade-required", "Upgrade required", detail)
        return problem_response(problem, {"Upgrade": "websocket", "Connection": "Upgrade"})

    router.add_websocket_route("/v1/ws", serve)
    router.add_websocket_route("/{path:path}", refuse)
    return router


def _read_query(websocket: WebSocket, door: Door) -> Opened:
    query, limits = websocket.query_params, door.settings.limits
    temporary = query.get("temporary", "false")
    if temporary not in ("true", "false"):
        raise problems.invalid("temporary", "expected 'true' or 'false'")
    named = query.get("subscriber", "")
    check_subscriber(named, limits, "subscriber")
    return Opened(
        publisher=publisher_of(websocket, limits.name_length_max),
        subscriber=named or anonymous_subscriber(),
        anonymous=not named,
        temporary=temporary == "true",
    )


_FRAMES: list[dict[str, Any]] = [
    {"op": "subscribe", "ref": 1, "subscription": {"filter": "value > 40", "from": "-10m"}},
    {
        "op": "subscribed",
        "ref": 1,
        "id": "s-e021a9be7a73e69a3199",
        "subscriber": "~5f1d9a0c44e2b7d3",
        "event": "1a1e250b5a1.5-0",
        "past": {"publications": 12, "complete": True},
    },
    {"op": "publish", "ref": 2, "publications": [{"attributes": {"value": 41.5}}]},
    {"op": "published", "ref": 2, "ids": ["p1-1a1e250b5a1-1"]},
    {
        "op": "notify",
        "event": "1a1e250b5a1.5-1",
        "notifications": [
            {
                "subscriptions": ["s-e021a9be7a73e69a3199"],
                "publication": {"id": "p1-1a1e250b5a1-1", "attributes": {"value": 41.5}},
            }
        ],
    },
    {"op": "unsubscribe", "ref": 3, "id": "s-e021a9be7a73e69a3199"},
    {"op": "unsubscribed", "ref": 3},
    {"op": "ping", "ref": 4},
    {"op": "pong", "ref": 4},
]
_EXTRA: dict[str, Any] = {
    "parameters": [
        openapi.parameter("subscriber", "query", "whose connection this is; anonymous without it"),
        openapi.parameter(
            "temporary", "query", "subscriptions made here go away with the connection", {"type": "boolean"}
        ),
        openapi.parameter("last_event_id", "query", "the `event` of the last `notify` that was seen"),
    ],
    "x-frames": _FRAMES,
}
