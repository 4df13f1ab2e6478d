"""`GET /v1/publications`: the newest of the publications that are kept, as far as they match."""

import re
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from braid import problems, topics
from braid.content import DECODE_ERRORS
from braid.instants import format_instant, instant_of_text
from braid.problems import Problem
from braid.subscription import Subscription
from services.connpoint.door import Door, KeptPublication
from services.connpoint.http import openapi
from services.connpoint.http.decoding import explain, moved

FOUND_DEFAULT = 100
FOUND_MAX = 1_000

_PARAMETERS = ("where", "word", "topic", "topic_scope", "zone", "from", "until", "limit")
_RENAMED = {"filter": "where", "words": "word"}  # fields of a subscription that have another name here
_FIELD = re.compile(r"\$\.(\w+)(.*)", re.DOTALL)

_decode_zone = msgspec.json.Decoder(dict[str, Any]).decode


def create_router(door: Door) -> APIRouter:
    router = APIRouter(tags=["publications"])

    @router.get(
        "/v1/publications",
        summary="The most recent publications that match, of those that are kept",
        response_class=Response,
        responses=openapi.answers(200, "At most `limit`, the newest first", _FOUND, _EXAMPLE, errors=(422, 429, 503)),
    )
    async def find(
        request: Request,
        *,
        where: Annotated[str, Query(description="a filter; empty for all")] = "",
        word: Annotated[
            list[str] | None, Query(description="occurs in the text; may stand there several times")
        ] = None,
        topic: Annotated[str, Query(description="as in a subscription, also with `+` and `#`")] = "",
        topic_scope: Annotated[str, Query(json_schema_extra={"enum": ["", *topics.SCOPES]})] = "",
        zone: Annotated[str, Query(description="JSON: a circle, box or point, or a GeoJSON Polygon or Point")] = "",
        from_: Annotated[
            str, Query(alias="from", description="published from then on: `-10m`, RFC 3339 or Unix seconds")
        ] = "",
        until: Annotated[str, Query(description="published before that; a `+` in it is written `%2B`")] = "",
        limit: Annotated[int, Query(ge=1, le=FOUND_MAX)] = FOUND_DEFAULT,
    ) -> Response:
        """All parameters are optional and joined by *and*. What has expired is not found any more."""
        _check_names(request)
        wanted = Subscription(
            filter=where,
            words=word or [],
            topic=topic,
            topic_scope=topic_scope,
            zone=_read_zone(zone) if zone else None,
            from_=instant_of_text(from_) if from_ else None,
            until=instant_of_text(until) if until else None,
        )
        try:
            found = await door.find_publications(wanted, limit)
        except Problem as problem:
            raise _blame(problem) from None
        return Response(_shown(found), media_type="application/json")

    return router


def _check_names(request: Request) -> None:
    """A misspelt condition must not be taken for none, and everything be found."""
    for name in request.query_params:
        if name not in _PARAMETERS:
            raise problems.invalid(name, "there is no such parameter", expected=list(_PARAMETERS))


def _read_zone(text: str) -> dict[str, Any]:
    try:
        return _decode_zone(text)
    except DECODE_ERRORS as error:
        problem = explain(error, text, "the zone")
        raise problems.invalid(f"zone{problem.members.get('field', '$')[1:]}", problem.detail) from None


def _blame(problem: Problem) -> Problem:
    """A problem that was found behind the door, by the name of the parameter."""
    named = _FIELD.fullmatch(problem.members.get("field", ""))
    return moved(problem, f"{_RENAMED.get(named[1], named[1])}{named[2]}") if named else problem


def _shown(found: list[KeptPublication]) -> bytes:
    """Contents are spliced in as they are."""
    shown = (
        b'{"published":"%b","publication":%b}' % (format_instant(kept.published_s).encode(), kept.content)
        for kept in found
    )
    return b'{"publications":[%b]}' % b",".join(shown)


_FOUND = {
    "type": "object",
    "properties": {
        "publications": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "published": {"type": "string", "format": "date-time"},
                    "publication": openapi.reference("Content"),
                },
                "required": ["published", "publication"],
            },
        }
    },
    "required": ["publications"],
}
_EXAMPLE = {
    "publications": [
        {
            "published": "2026-05-01T12:00:00.000Z",
            "publication": {"id": "reading-1", "attributes": {"pollutant": "NO2", "value": 41.5}},
        }
    ]
}
