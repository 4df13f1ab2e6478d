"""What an orchestrator and a metrics collector ask."""

import msgspec
import prometheus_client
from fastapi import APIRouter
from starlette.responses import Response

from services.connpoint.door import Door

PATHS = ("/healthz", "/readyz", "/metrics")


def create_router(door: Door) -> APIRouter:
    router = APIRouter(tags=["probes"])

    @router.get("/healthz", summary="The process runs", response_class=Response)
    async def health() -> Response:
        return _json({"status": "alive", "slice": door.name})

    @router.get(
        "/readyz",
        summary="The slice can serve",
        response_class=Response,
        responses={503: {"description": "It cannot; the body says why"}},
    )
    async def readiness() -> Response:
        reasons = door.not_ready()
        if reasons:
            return _json({"status": "not ready", "slice": door.name, "reasons": reasons}, 503)
        return _json({"status": "ready", "slice": door.name})

    @router.get("/metrics", summary="Prometheus text", response_class=Response)
    async def metrics() -> Response:
        return Response(
            prometheus_client.generate_latest(), headers={"Content-Type": prometheus_client.CONTENT_TYPE_LATEST}
        )

    return router


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
