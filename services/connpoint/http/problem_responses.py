"""Every error of the interface leaves as one problem document, whoever raised it."""

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from braid import problems
from braid.problems import Problem

log = structlog.get_logger(__name__)

# After these the rest of the body may still be on its way; the connection cannot carry another request.
_CLOSING = frozenset({408, 413})


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    sent = dict(headers or {})
    retry_after_s = problem.members.get("retry_after_s")
    if retry_after_s is not None:
        sent["Retry-After"] = str(math.ceil(retry_after_s))
    if problem.status in _CLOSING:
        sent["Connection"] = "close"
    return Response(problem.encode(), problem.status, sent, problems.MEDIA_TYPE)


def unexpected(error: Exception, **where: Any) -> Problem:
    """Says nothing of the inside to the client; the log line has it all."""
    log.error("unexpected_error", **where, exc_info=error)
    return Problem(500, "unexpected", "An unexpected error", "this is a bug of the server; its log says more")


def install_problem_handlers(app: FastAPI) -> None:
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(ClientDisconnect, _on_client_disconnect)
    app.add_middleware(UnexpectedErrors)


class UnexpectedErrors:
    """Outermost of ours: turns what nobody handled into a 500. Starlette's own would raise it a second time."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, watched_send)
        except Exception as error:
            problem = unexpected(error, path=scope.get("path"), method=scope.get("method"))
            if scope["type"] == "http" and not started:
                await problem_response(problem)(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1011, "reason": problem.title})
            else:
                raise


async def _on_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_response(error)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        problem = problems.not_found("path", request.url.path)
    elif error.status_code == 405:
        detail = f"'{request.url.path}' does not answer to {request.method}"
        problem = Problem(405, "method-not-allowed", "Method not allowed", detail)
    else:
        title = HTTPStatus(error.status_code).phrase
        problem = Problem(error.status_code, "http", title, str(error.detail))
    return problem_response(problem, error.headers)


async def _on_validation_error(_request: Request, error: Exception) -> Response:
    """A path or query parameter that FastAPI could not convert."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"][1:])
    message = str(first["msg"])
    return problem_response(problems.invalid(name, message[:1].lower() + message[1:]))


async def _on_client_disconnect(_request: Request, _error: Exception) -> Response:
    """Nobody is there to read it, but every request needs an end."""
    return Response(status_code=400)
