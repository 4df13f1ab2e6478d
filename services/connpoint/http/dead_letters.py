"""`/v1/subscriptions/{id}/dead-letters`: requests to webhooks that were given up, and trying them once more."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from braid.instants import format_instant
from services.connpoint.door import DeadLetter, Door
from services.connpoint.http import openapi
from services.connpoint.http.bodies import BodyReader
from services.connpoint.http.decoding import decoded
from services.connpoint.http.forwarding import forward, home_elsewhere
from services.connpoint.http.listing import listed

LISTED_DEFAULT = 100
LISTED_MAX = 1_000


class DeadLetterShown(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(description="the `webhook-id` of the request")]
    at: Annotated[str, msgspec.Meta(description="when it was given up")]
    reason: str
    attempts: int
    publications: Annotated[list[str], msgspec.Meta(description="ids of the publications in it")]


class DeadLetterList(msgspec.Struct):
    """`truncated` stands there, and is true, when there are more than the limit."""

    dead_letters: list[DeadLetterShown]
    truncated: bool | msgspec.UnsetType = msgspec.UNSET


class Replay(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters; all of them when it is left out."""

    ids: list[str] | None = None


class Replayed(msgspec.Struct):
    requests: int
    notifications: int


_decode_replay = msgspec.json.Decoder(Replay).decode


def create_router(door: Door, bodies: BodyReader) -> APIRouter:
    router = APIRouter(tags=["webhooks"])

    @router.get(
        "/v1/subscriptions/{id}/dead-letters",
        summary="What was given up for a subscription with a webhook",
        response_class=Response,
        responses=openapi.answers(
            200,
            "The oldest first",
            openapi.reference("DeadLetterList"),
            {"dead_letters": [_EXAMPLE]},
            errors=(404, 422, 503),
        ),
    )
    async def list_dead_letters(
        id: str, request: Request, limit: Annotated[int, Query(ge=1, le=LISTED_MAX)] = LISTED_DEFAULT
    ) -> Response:
        home = home_elsewhere(door, request, (await door.find(id)).home)
        if home is not None:
            return await forward(door, request, home)
        return listed("dead_letters", await door.dead_letters_of(id, limit + 1), limit, _shown)

    @router.post(
        "/v1/subscriptions/{id}/dead-letters/replay",
        summary="Try them once more, before whatever else waits",
        status_code=202,
        response_class=Response,
        responses=openapi.answers(
            202,
            "They wait again",
            openapi.reference("Replayed"),
            {"requests": 2, "notifications": 120},
            errors=(400, 404, 408, 413, 415, 422, 503),
        ),
        openapi_extra=openapi.json_body(openapi.reference("Replay"), {"ids": [_EXAMPLE["id"]]}),
    )
    async def replay(id: str, request: Request) -> Response:
        """An endpoint that is disabled is enabled, and one that pauses tries at once."""
        text = await bodies.read_text(request)
        wanted = decoded(text or "{}", _decode_replay)
        home = home_elsewhere(door, request, (await door.find(id)).home)
        if home is not None:
            return await forward(door, request, home, text.encode())
        requests, notifications = await door.replay(id, None if wanted.ids is None else set(wanted.ids))
        return Response(msgspec.json.encode(Replayed(requests, notifications)), 202, media_type="application/json")

    return router


def _shown(letter: DeadLetter) -> DeadLetterShown:
    return DeadLetterShown(letter.id, format_instant(letter.at_s), letter.reason, letter.attempts, letter.publications)


_EXAMPLE: dict[str, Any] = {
    "id": "msg_8f2c9a1e4b7d6c5f0a3b2e1d",
    "at": "2026-05-01T12:00:00.000Z",
    "reason": "refused 3 times; last: answered 400",
    "attempts": 3,
    "publications": ["p1-1a1e2452db0-1"],
}
