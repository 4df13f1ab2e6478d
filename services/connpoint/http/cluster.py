"""`/v1/cluster`: who is there, which configuration is in force, and what is changing."""

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from braid.topology import Configuration, Layer, Phase, Registration, Target
from services.connpoint.door import Door
from services.connpoint.http import maps, openapi
from services.connpoint.http.maps import MapShown


class SliceShown(msgspec.Struct):
    name: str
    layer: Layer
    address: str
    http: str
    pid: int
    incarnation: int
    version: str
    epoch: int | None  # null while it does not take part: it waits to be taken in, or has been taken out


class TargetShown(msgspec.Struct):
    """What is in force when the change has ended."""

    epoch: int
    accesspoints: tuple[str, ...]
    matchers: tuple[str, ...]
    exitpoints: tuple[str, ...]
    routing: str
    map: MapShown | None


class ChangeShown(msgspec.Struct):
    """The scaling under way, from the moment when all its slices are there."""

    id: str
    phase: Phase
    to: TargetShown


class ClusterShown(msgspec.Struct):
    """`epoch` and `routing` are null until there is a configuration, `change` while nothing changes.

    `map` is null where all anchors lie where they hash to.
    """

    epoch: int | None
    routing: str | None
    map: MapShown | None
    change: ChangeShown | None
    slices: list[SliceShown]


def create_router(door: Door) -> APIRouter:
    router = APIRouter(tags=["cluster"])

    @router.get(
        "/v1/cluster",
        summary="Every slice, the configuration in force, and the change under way",
        response_class=Response,
        responses=openapi.answers(200, "The topology", openapi.reference("ClusterShown"), _EXAMPLE),
    )
    async def topology() -> Response:
        return Response(msgspec.json.encode(_shown(door)), media_type="application/json")

    return router


def _shown(door: Door) -> ClusterShown:
    configuration = door.configuration()
    in_force = configuration.in_force() if configuration is not None else None
    change = configuration.change if configuration is not None else None
    return ClusterShown(
        epoch=in_force.epoch if in_force else None,
        routing=in_force.routing if in_force else None,
        map=maps.shown(in_force.map) if in_force else None,
        change=ChangeShown(change.id, change.phase, _target_shown(change.to)) if change else None,
        slices=[
            SliceShown(**msgspec.structs.asdict(registration), epoch=_epoch_of(registration, in_force))
            for registration in door.slices()
        ],
    )


def _target_shown(to: Target) -> TargetShown:
    return TargetShown(to.epoch, to.accesspoints, to.matchers, to.exitpoints, to.routing, maps.shown(to.map))


def _epoch_of(registration: Registration, in_force: Configuration | None) -> int | None:
    """Of the configuration that it takes part in."""
    if in_force is None:
        return None
    takes_part = registration.layer == "connpoint" or registration.name in in_force.of_layer(registration.layer)
    return in_force.epoch if takes_part else None


_EXAMPLE = {
    "epoch": 4,
    "routing": "anchored",
    "map": None,
    "change": {
        "id": "scaling-1f0c6a04b7d2",
        "phase": "moving",
        "to": {
            "epoch": 5,
            "accesspoints": ["accesspoint-1"],
            "matchers": ["matcher-1", "matcher-2"],
            "exitpoints": ["exitpoint-1"],
            "routing": "anchored",
            "map": {"version": "61b1d7c2a9f0", "parts": 2, "anchors": 50000},
        },
    },
    "slices": [
        {
            "name": "matcher-1",
            "layer": "matcher",
            "address": "127.0.0.1:40001",
            "http": "127.0.0.1:40002",
            "pid": 4711,
            "incarnation": 1767225600000,
            "version": "0.1.0",
            "epoch": 4,
        }
    ],
}
