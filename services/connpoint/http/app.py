"""The public interface of a connection point as one ASGI application."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import FastAPI
from starlette.responses import HTMLResponse

from braid.content import Content
from braid.matching.explanation import MatchExplanation
from braid.subscription import Subscription, SubscriptionPatch
from services.connpoint.door import Door
from services.connpoint.http import (
    bodies,
    cluster,
    dead_letters,
    explain,
    history,
    openapi,
    probes,
    publications,
    scaling_shown,
    scalings,
    stream,
    subscriptions,
    websocket,
)
from services.connpoint.http.bodies import BodyReader
from services.connpoint.http.docs_page import render_docs
from services.connpoint.http.problem_responses import install_problem_handlers

_DOCUMENTED = (
    Content,
    publications.PublicationIds,
    publications.PublicationTrace,
    Subscription,
    SubscriptionPatch,
    subscriptions.SubscriptionShown,
    subscriptions.SubscriptionList,
    dead_letters.DeadLetterList,
    dead_letters.Replay,
    dead_letters.Replayed,
    MatchExplanation,
    cluster.ClusterShown,
    scalings.ScaleRequest,
    scaling_shown.ScalingShown,
    scaling_shown.ScalingList,
    openapi.ProblemDocument,
)


class BraidApi(FastAPI):
    """FastAPI, with the schemas of the bodies that it does not read itself."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            described = super().openapi()
            described.setdefault("components", {})["schemas"] = openapi.component_schemas(_DOCUMENTED)
            for operations in described["paths"].values():
                for operation in operations.values():
                    # FastAPI's own document of a bad parameter; ours is a problem document.
                    answer = operation["responses"].get("422")
                    if answer is not None:
                        answer["content"] = openapi.problem_answers(422)[422]["content"]
            self.openapi_schema = described
        return self.openapi_schema


def create_app(door: Door, *, body_stall_s: float = bodies.STALL_S, heartbeat_s: float = stream.HEARTBEAT_S) -> FastAPI:
    app = BraidApi(
        title="Braid",
        version=_version(),
        description="An elastic content-based publish/subscribe broker: publish, subscribe, be notified.",
        docs_url=None,  # the usual page is loaded from a content delivery network
        redoc_url=None,
        redirect_slashes=False,
    )
    install_problem_handlers(app)
    reader = BodyReader(door.settings.limits.body_bytes_max, body_stall_s)
    app.include_router(publications.create_router(door, reader))
    app.include_router(history.create_router(door))
    app.include_router(explain.create_router(door, reader))
    app.include_router(subscriptions.create_router(door, reader))
    app.include_router(dead_letters.create_router(door, reader))
    app.include_router(stream.create_router(door, heartbeat_s))
    app.include_router(cluster.create_router(door))
    app.include_router(scalings.create_router(door, reader))
    app.include_router(probes.create_router(door))

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(render_docs(app.openapi()))

    app.include_router(websocket.create_router(door))  # last: it refuses every other WebSocket path
    return app


def _version() -> str:
    try:
        return version("braid-broker")
    except PackageNotFoundError:
        return "0"
