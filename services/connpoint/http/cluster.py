"""`/v1/cluster`: who is there, and asking for another number of slices."""

import secrets
from collections import OrderedDict
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from braid import problems
from braid.content import DECODE_ERRORS
from braid.topology import LAYERS, Configuration, Layer, Registration
from services.connpoint.door import Door
from services.connpoint.http import openapi
from services.connpoint.http.bodies import BodyReader
from services.connpoint.http.decoding import explain, moved

SCALINGS_KEPT_MAX = 1_000  # the oldest is forgotten first


class SliceShown(msgspec.Struct):
    name: str
    layer: Layer
    address: str
    http: str
    pid: int
    incarnation: int
    version: str
    epoch: int | None  # null while it waits to be taken into the configuration


class ClusterShown(msgspec.Struct):
    """`epoch` and `routing` are null until there is a configuration."""

    epoch: int | None
    routing: str | None
    slices: list[SliceShown]


class ScaleRequest(msgspec.Struct, forbid_unknown_fields=True):
    layer: Layer
    to: Annotated[int, msgspec.Meta(ge=1)]


class Scaling(msgspec.Struct):
    id: str
    layer: Layer
    to: int
    state: Literal["running", "done", "aborted"]
    phase: str


_decode_scale_request = msgspec.json.Decoder(ScaleRequest).decode


def create_router(door: Door, bodies: BodyReader) -> APIRouter:
    router = APIRouter(tags=["cluster"])
    scalings: OrderedDict[str, Scaling] = OrderedDict()

    @router.get(
        "/v1/cluster",
        summary="Every slice, and the configuration in force",
        response_class=Response,
        responses=openapi.answers(200, "The topology", openapi.reference("ClusterShown"), _EXAMPLE),
    )
    async def topology() -> Response:
        return _json(_shown(door))

    @router.post(
        "/v1/cluster/scale",
        summary="Ask for a number of slices of one layer",
        status_code=202,
        response_class=Response,
        responses=openapi.answers(
            202,
            "Accepted",
            {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
            {"id": "scaling-1f0c6a"},
            errors=(400, 422, 501, 503),
        ),
        openapi_extra=openapi.json_body(openapi.reference("ScaleRequest"), {"layer": "matcher", "to": 3}),
    )
    async def scale(request: Request) -> Response:
        """In this version a running cluster keeps its number of slices; asking for that number is done at once."""
        asked = _read_scale_request(await bodies.read_text(request))
        present = _slices_of(door, asked.layer)
        if asked.to != present:
            raise problems.unsupported(
                "$.to",
                f"scaling while running is not available in this version; there are {present} of {asked.layer}",
            )
        scaling = Scaling(f"scaling-{secrets.token_hex(6)}", asked.layer, asked.to, "done", "done")
        scalings[scaling.id] = scaling
        while len(scalings) > SCALINGS_KEPT_MAX:
            scalings.popitem(last=False)
        return _json({"id": scaling.id}, 202)

    @router.get(
        "/v1/cluster/scalings/{id}",
        summary="How far a scaling is",
        response_class=Response,
        responses=openapi.answers(
            200,
            "The scaling",
            openapi.reference("Scaling"),
            {"id": "scaling-1f0c6a", "layer": "matcher", "to": 3, "state": "done", "phase": "done"},
            errors=(404,),
        ),
    )
    async def find_scaling(id: str) -> Response:
        if id not in scalings:
            raise problems.not_found("scaling", id)
        return _json(scalings[id])

    return router


def _read_scale_request(text: str) -> ScaleRequest:
    try:
        return _decode_scale_request(text)
    except DECODE_ERRORS as error:
        problem = explain(error, text)
        if problem.members.get("field") == "$.layer":
            problem = moved(problem, "$.layer", expected=list(LAYERS))
        raise problem from None


def _slices_of(door: Door, layer: Layer) -> int:
    """Connection points take part once they register; the other layers once they are configured."""
    if layer == "connpoint":
        return sum(registration.layer == layer for registration in door.slices())
    configuration = door.configuration()
    if configuration is None:
        raise problems.unavailable("there is no configuration yet")
    return len(configuration.of_layer(layer))


def _epoch_of(registration: Registration, configuration: Configuration | None) -> int | None:
    """Of the configuration that it takes part in."""
    if configuration is None:
        return None
    takes_part = registration.layer == "connpoint" or registration.name in configuration.of_layer(registration.layer)
    return configuration.epoch if takes_part else None


def _shown(door: Door) -> ClusterShown:
    configuration = door.configuration()
    return ClusterShown(
        epoch=configuration.epoch if configuration else None,
        routing=configuration.routing if configuration else None,
        slices=[
            SliceShown(
                **msgspec.structs.asdict(registration),
                epoch=_epoch_of(registration, configuration),
            )
            for registration in door.slices()
        ],
    )


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


_EXAMPLE = {
    "epoch": 1,
    "routing": "broadcast",
    "slices": [
        {
            "name": "matcher-1",
            "layer": "matcher",
            "address": "127.0.0.1:40001",
            "http": "127.0.0.1:40002",
            "pid": 4711,
            "incarnation": 1767225600000,
            "version": "0.1.0",
            "epoch": 1,
        }
    ],
}
