"""`/v1/explain`: which subscriptions a publication would match, and what of one subscription fails."""

from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from braid import problems
from braid.content import Content
from braid.problems import Problem
from services.connpoint.door import Door
from services.connpoint.http import openapi
from services.connpoint.http.bodies import BodyReader
from services.connpoint.http.decoding import decoded, moved


class ExplainRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /v1/explain` takes."""

    publication: Content
    subscription: str | None = None


def create_router(door: Door, bodies: BodyReader) -> APIRouter:
    router = APIRouter(tags=["subscriptions"])

    @router.post(
        "/v1/explain",
        summary="Which subscriptions a publication would match, and what of one subscription fails",
        response_class=Response,
        responses=openapi.answers(
            200,
            "Nothing was published",
            openapi.reference("MatchExplanation"),
            _EXAMPLE_ANSWER,
            errors=(400, 404, 408, 413, 415, 422, 429, 503),
        ),
        openapi_extra=openapi.json_body(_BODY, _EXAMPLE),
    )
    async def explain(request: Request) -> Response:
        """With `subscription` the answer has an `explanation` of that one, whether it matches or not.

        `matches` has at most 1,000 ids; `count` is of all. `prev(…)` sees the latest publication on the topic.
        """
        asked = decoded(await bodies.read_text(request), _decode)
        if asked.subscription == "":
            raise problems.invalid("$.subscription", "expected the id of a subscription; leave it out to ask for none")
        try:
            found = await door.explain(asked.publication, asked.subscription or "")
        except Problem as problem:
            raise _blame(problem) from None
        answer: dict[str, Any] = {"matches": found.ids, "count": found.count}
        if found.explanation:
            answer["explanation"] = msgspec.Raw(found.explanation)
        return Response(msgspec.json.encode(answer), media_type="application/json")

    return router


_decode = msgspec.json.Decoder(ExplainRequest).decode


def _blame(problem: Problem) -> Problem:
    """What is wrong behind the door is wrong in the publication."""
    field = problem.members.get("field")
    if not isinstance(field, str) or not field.startswith("$"):
        return problem
    return moved(problem, f"$.publication{field[1:]}")


_BODY = {
    "type": "object",
    "properties": {
        "publication": openapi.reference("Content"),
        "subscription": {"type": "string", "description": "the id of a subscription to explain"},
    },
    "required": ["publication"],
    "additionalProperties": False,
}
_EXAMPLE = {
    "publication": {"attributes": {"pollutant": "NO2", "value": 12}},
    "subscription": "s-e021a9be7a73e69a3199",
}
_EXAMPLE_ANSWER = {
    "matches": ["s-7e8af29c68efe305a26c"],
    "count": 1,
    "explanation": {
        "subscription": "s-e021a9be7a73e69a3199",
        "matches": False,
        "failed": ["filter"],
        "parts": [
            {
                "part": "filter",
                "holds": False,
                "wants": "value > 40",
                "reasons": ["value > 40: value is 12"],
                "filter": {"text": "value > 40", "holds": False, "saw": "value is 12", "values": {"value": 12}},
            }
        ],
    },
}
