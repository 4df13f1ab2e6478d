"""The probes of a connection point, on its public port."""

from fastapi import APIRouter
from starlette.responses import Response

from braid.probes import health_response, metrics_response, readiness_response
from services.connpoint.door import Door

PATHS = ("/healthz", "/readyz", "/metrics")


def create_router(door: Door) -> APIRouter:
    router = APIRouter(tags=["probes"])

    @router.get("/healthz", summary="The process runs", response_class=Response)
    async def health() -> Response:
        return health_response(door.name)

    @router.get(
        "/readyz",
        summary="The slice can serve",
        response_class=Response,
        responses={503: {"description": "It cannot; the body says why"}},
    )
    async def readiness() -> Response:
        return readiness_response(door.name, door.not_ready())

    @router.get("/metrics", summary="Prometheus text", response_class=Response)
    async def metrics() -> Response:
        return metrics_response()

    return router
