"""`/v1/cluster/scale` and `/v1/cluster/scalings`: asking for other slices or another map, and how far that is."""

import asyncio
import re
import time
from typing import Annotated

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from braid import problems
from braid.anchor_map import AnchorMap
from braid.content import DECODE_ERRORS
from braid.problems import Problem
from braid.scaling import NO_MAP, Ask
from braid.scaling_checks import SLICES_MAX, check_layer
from braid.topology import CONFIGURED_LAYERS, LAYERS, ROUTINGS, Layer
from services.connpoint.door import Door
from services.connpoint.http import openapi
from services.connpoint.http.bodies import BodyReader
from services.connpoint.http.decoding import explain, moved
from services.connpoint.http.maps import MapRequest, map_of
from services.connpoint.http.scaling_shown import EXAMPLE, ScalingList, shown

LISTED_MAX = 100  # the newest ones
_SHOWN_MAX = 100  # characters of a name, in a problem

Number = Annotated[int, msgspec.Meta(description=f"1 to {SLICES_MAX}")]


class ScaleRequest(msgspec.Struct, forbid_unknown_fields=True):
    """`layer` and `to` for one layer, `layers` for several, `replace` for slices that others take the place of.

    `routing` says which matchers a publication visits from then on: all of them, or those of the anchors it carries.
    `map` says where anchors lie that shall not lie where they hash to; 'none' takes away the one that is there.
    """

    layer: str | None = None
    to: Number | None = None
    layers: dict[str, Number] = {}
    replace: list[str] = []
    routing: Annotated[str | None, msgspec.Meta(extra_json_schema={"enum": [*ROUTINGS, None]})] = None
    map: MapRequest | str | None = None


_decode = msgspec.json.Decoder(ScaleRequest).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def create_router(door: Door, bodies: BodyReader) -> APIRouter:
    router = APIRouter(tags=["cluster"])

    @router.post(
        "/v1/cluster/scale",
        summary="Ask for other numbers of slices, or for other slices",
        status_code=202,
        response_class=Response,
        responses=openapi.answers(
            202,
            "Accepted; the coordinator takes it up",
            {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
            {"id": EXAMPLE["id"]},
            errors=(400, 408, 409, 413, 415, 422, 503),
        ),
        openapi_extra=openapi.json_body(openapi.reference("ScaleRequest"), {"layer": "matcher", "to": 3}),
    )
    async def scale(request: Request) -> Response:
        """One layer: `{"layer": "matcher", "to": 3}`. Several at once: `{"layers": {"matcher": 3, "exitpoint": 2}}`.
        Others in the place of some: `{"replace": ["matcher-2"]}`. The same ones with another map of subscriptions:
        `{"routing": "anchored"}`, `{"map": {"parts": 3, "words": {"house": 0, "garden": 0, "senate": 1}}}`. All in one
        request is one scaling.

        There is one scaling at a time: during another one the answer is 409, with its id in `scaling`. Asking for
        what is there already is done at once. Nothing is lost, repeated or reordered by a scaling.
        """
        text = await bodies.read_text(request)
        asked = _read(text)
        # Away from the loop: a large one takes a while.
        map = await asyncio.to_thread(map_of, asked.map) if isinstance(asked.map, MapRequest) else None
        try:
            id = await door.scale(_ask_of(asked, map), map)
        except Problem as problem:
            raise _blame(problem, asked) from None
        return _json({"id": id}, 202)

    @router.get(
        "/v1/cluster/scalings",
        summary=f"The {LISTED_MAX} newest scalings, the newest first",
        response_class=Response,
        responses=openapi.answers(
            200, "The scalings", openapi.reference("ScalingList"), {"scalings": [EXAMPLE]}, errors=(503,)
        ),
    )
    async def list_scalings() -> Response:
        records = sorted(await door.list_scalings(), key=lambda record: record.asked_s, reverse=True)
        now_s = time.time()
        return _json(ScalingList([shown(record, now_s) for record in records[:LISTED_MAX]]))

    @router.get(
        "/v1/cluster/scalings/{id}",
        summary="How far a scaling is",
        response_class=Response,
        responses=openapi.answers(200, "The scaling", openapi.reference("ScalingShown"), EXAMPLE, errors=(404, 503)),
    )
    async def find_scaling(id: str) -> Response:
        """Times are in seconds. `progress` has what each slice says of itself while the scaling runs."""
        record = await door.find_scaling(id)
        progress = await door.progress_of(id) if record.state == "running" else None
        return _json(shown(record, time.time(), progress))

    return router


def _read(text: str) -> ScaleRequest:
    try:
        asked = _decode(text)
    except DECODE_ERRORS as error:
        problem = explain(error, text)
        if unnamed := re.fullmatch(r"\$\.([\w.]+)\[\.\.\.\]", problem.members.get("field", "")):
            problem = moved(problem, f"$.{unnamed[1]}{_wrong_number(text, unnamed[1].split('.'))}")
        raise problem from None
    if asked.layer is not None:
        check_layer("$.layer", asked.layer)
        if asked.to is None:
            raise problems.invalid("$.to", f"how many of {asked.layer}? Expected a number from 1 to {SLICES_MAX}")
        if asked.layer in asked.layers:
            raise problems.invalid(f"$.layers.{asked.layer}", "this layer stands in 'layer' already")
    elif asked.to is not None:
        raise problems.invalid("$.layer", "of which layer?", expected=list(CONFIGURED_LAYERS))
    for layer in asked.layers:
        check_layer(f"$.layers.{layer}", layer)
    if asked.routing is not None and asked.routing not in ROUTINGS:
        raise problems.invalid("$.routing", f"there is no routing '{asked.routing[:100]}'", expected=list(ROUTINGS))
    if isinstance(asked.map, str) and asked.map != NO_MAP:
        raise problems.invalid("$.map", f"expected a map with 'parts' and 'words' or 'anchors', or '{NO_MAP}'")
    return asked


def _wrong_number(text: str, way: list[str]) -> str:
    """The decoder does not say under which name the wrong number stood."""
    members: msgspec.Raw | str = text
    for name in way:
        members = _decode_members(members)[name]
    for name, number in _decode_members(members).items():
        try:
            msgspec.json.decode(number, type=int)
        except DECODE_ERRORS:
            return f".{name[:_SHOWN_MAX]}"
    return ""


def _ask_of(asked: ScaleRequest, map: AnchorMap | None) -> Ask:
    layers: dict[Layer, int] = {layer: asked.layers[layer] for layer in LAYERS if layer in asked.layers}
    for layer in LAYERS:
        if layer == asked.layer and asked.to is not None:
            layers[layer] = asked.to
    routing = next((known for known in ROUTINGS if known == asked.routing), None)
    version = NO_MAP if asked.map == NO_MAP else None
    return Ask(layers, tuple(asked.replace), routing, version if map is None else map.version)


def _blame(problem: Problem, asked: ScaleRequest) -> Problem:
    """A number that was given as `to` is to blame there."""
    if asked.layer is not None and problem.members.get("field") == f"$.layers.{asked.layer}":
        return moved(problem, "$.to")
    return problem


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
