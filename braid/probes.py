"""What an orchestrator and a metrics collector ask of every slice, and an application for slices without a door."""

from collections.abc import Callable

import msgspec
import prometheus_client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def health_response(slice_name: str) -> Response:
    return _json({"status": "alive", "slice": slice_name})


def readiness_response(slice_name: str, reasons: list[str]) -> Response:
    if reasons:
        return _json({"status": "not ready", "slice": slice_name, "reasons": reasons}, 503)
    return _json({"status": "ready", "slice": slice_name})


def metrics_response() -> Response:
    headers = {"Content-Type": prometheus_client.CONTENT_TYPE_LATEST}
    return Response(prometheus_client.generate_latest(), headers=headers)


def probes_app(slice_name: str, not_ready: Callable[[], list[str]]) -> Starlette:
    async def health(_request: Request) -> Response:
        return health_response(slice_name)

    async def readiness(_request: Request) -> Response:
        return readiness_response(slice_name, not_ready())

    async def metrics(_request: Request) -> Response:
        return metrics_response()

    return Starlette(routes=[Route("/healthz", health), Route("/readyz", readiness), Route("/metrics", metrics)])


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
