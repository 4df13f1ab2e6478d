"""`POST /v1/publications`: publishing over plain HTTP, and looking a traced publication up."""

import hashlib
import time
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from braid import problems
from braid.problems import Problem
from services.connpoint.door import Door
from services.connpoint.http import cloudevents, openapi, publication_bodies
from services.connpoint.http.bodies import BodyReader
from services.connpoint.http.idempotency import IdempotencyKeys, IdempotentCalls
from services.connpoint.http.publication_bodies import read_batch

PUBLISHER_HEADER = "Braid-Publisher"
IDEMPOTENCY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"


class PublicationIds(msgspec.Struct):
    """The ids of what was accepted, in the order it was sent."""

    ids: list[str]


class TracedHop(msgspec.Struct):
    slice: str
    arrived_ns: int
    left_ns: int


class PublicationTrace(msgspec.Struct):
    """The way of one traced publication; times are nanoseconds since 1970."""

    id: str
    complete: bool
    hops: list[TracedHop]


def publisher_of(connection: HTTPConnection, name_length_max: int) -> str:
    """A declared publisher keeps its order over many connections; otherwise the connection is the publisher."""
    declared = connection.headers.get(PUBLISHER_HEADER, "")
    if declared:
        return checked_header(PUBLISHER_HEADER, declared, name_length_max)
    client = connection.client
    return f"{client.host}:{client.port}" if client else "unknown"


def checked_header(header: str, value: str, length_max: int) -> str:
    if len(value) > length_max:
        raise problems.limit_exceeded("limits.name_length_max", length_max, len(value), header)
    return value


def create_router(door: Door, bodies: BodyReader) -> APIRouter:
    router = APIRouter(tags=["publications"])
    limits, ingress = door.settings.limits, door.settings.ingress
    calls = IdempotentCalls(IdempotencyKeys(ingress.idempotency_keys_max, ingress.idempotency_s, time.monotonic))

    async def publish_body(request: Request, body: bytes) -> bytes:
        batch = read_batch(body, request.headers, limits)
        publisher = publisher_of(request, limits.name_length_max)
        try:
            ids = await door.publish(publisher, batch.contents, wait=False, trace=_wants_trace(request))
        except Problem as problem:
            raise batch.blame(problem) from None
        return msgspec.json.encode(PublicationIds(ids))

    @router.post(
        "/v1/publications",
        summary="Publish one publication, an array of them, NDJSON, or CloudEvents",
        status_code=202,
        response_class=Response,
        responses=openapi.answers(
            202,
            "Accepted: logged, and on its way",
            openapi.reference("PublicationIds"),
            {"ids": ["reading-1"]},
            errors=(400, 408, 413, 415, 422, 429, 503),
        ),
        openapi_extra=_PUBLISH_EXTRA,
    )
    async def publish(request: Request) -> Response:
        """All or nothing: when one publication of the body is wrong, none is accepted."""
        body = await bodies.read(request)
        key = request.headers.get(IDEMPOTENCY_HEADER)
        if key is None:
            return Response(await publish_body(request, body), 202, media_type="application/json")
        checked_header(IDEMPOTENCY_HEADER, key, limits.name_length_max)
        answer, replayed = await calls.once(
            (_owner_of_keys(request), key),
            _fingerprint(request.headers, body),
            lambda: publish_body(request, body),
        )
        headers = {REPLAYED_HEADER: "true"} if replayed else None
        return Response(answer, 202, headers, "application/json")

    @router.get(
        "/v1/publications/{id}/trace",
        summary="The hops of a publication that was published with ?trace=true",
        response_class=Response,
        responses=openapi.answers(
            200,
            "The hops so far; `complete` once every connection point concerned has it",
            openapi.reference("PublicationTrace"),
            {
                "id": "reading-1",
                "complete": True,
                "hops": [{"slice": "matcher-1", "arrived_ns": 1767225600000000000, "left_ns": 1767225600000120000}],
            },
            errors=(404,),
        ),
    )
    async def trace(id: str) -> Response:
        hops = door.trace_of(id)
        if hops is None:
            raise problems.not_found("traced publication", id)
        shown = PublicationTrace(id, bool(hops), [TracedHop(*hop) for hop in hops])
        return Response(msgspec.json.encode(shown), media_type="application/json")

    return router


def _wants_trace(request: Request) -> bool:
    value = request.query_params.get("trace", "false")
    if value not in ("true", "false"):
        raise problems.invalid("trace", "expected 'true' or 'false'")
    return value == "true"


def _owner_of_keys(request: Request) -> str:
    """Without a declared publisher the host stands for it: a retry comes over a new connection, from a new port."""
    declared = request.headers.get(PUBLISHER_HEADER, "")
    return declared or (request.client.host if request.client else "")


def _fingerprint(headers: Headers, body: bytes) -> bytes:
    digest = hashlib.blake2b(body, digest_size=16)
    for name, value in sorted(headers.items()):
        if name == "content-type" or name.startswith(cloudevents.HEADER_PREFIX):
            digest.update(f"\0{name}:{value}".encode())
    return digest.digest()


_EXAMPLE = {
    "id": "reading-1",
    "topic": "air/madrid",
    "attributes": {"pollutant": "NO2", "value": 41.5, "city": "Madrid"},
    "expires": "+10m",
    "data": {"station": 28079004},
}
_EVENT_EXAMPLE = {
    "specversion": "1.0",
    "id": "reading-1",
    "source": "/stations/28079004",
    "type": "air.reading",
    "pollutant": "NO2",
    "data": {"value": 41.5},
}
_ONE_OR_MANY = {
    "anyOf": [
        openapi.reference("Content"),
        {"type": "array", "minItems": 1, "items": openapi.reference("Content")},
    ]
}
_PUBLISH_EXTRA: dict[str, Any] = {
    "parameters": [
        openapi.parameter(
            PUBLISHER_HEADER,
            "header",
            "whose publications stay in order among themselves; by default those of one connection",
        ),
        openapi.parameter(
            IDEMPOTENCY_HEADER, "header", "the same key again gives the same answer, without publishing again"
        ),
        openapi.parameter("trace", "query", "record the hops of these publications", {"type": "boolean"}),
    ],
    "requestBody": {
        "required": True,
        "content": {
            **openapi.content(_ONE_OR_MANY, _EXAMPLE, publication_bodies.JSON),
            **openapi.content(
                {"type": "string"}, '{"attributes":{"n":1}}\n{"attributes":{"n":2}}\n', publication_bodies.LINES[0]
            ),
            **openapi.content({"type": "object"}, _EVENT_EXAMPLE, cloudevents.STRUCTURED),
            **openapi.content(
                {"type": "array", "items": {"type": "object"}}, [_EVENT_EXAMPLE], cloudevents.STRUCTURED_BATCH
            ),
        },
    },
}
