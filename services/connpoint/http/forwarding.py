"""Calls about a subscription with an address go to the connection point that delivers it: only that one knows."""

from typing import NamedTuple

import httpx
from starlette.requests import Request
from starlette.responses import Response

from braid import problems
from services.connpoint.door import Door

FORWARDED_BY = "braid-forwarded-by"  # whoever gets such a call answers it itself
_PASSED_ON = ("content-type", "retry-after")
_ANY_ADDRESS = ("0.0.0.0", "::")


class Home(NamedTuple):
    name: str
    address: str  # host:port; empty when it is not registered


def home_elsewhere(door: Door, request: Request, name: str) -> Home | None:
    """Whom to forward a call to; nothing when it is to be answered here."""
    if name == door.name or FORWARDED_BY in request.headers:
        return None
    for registration in door.slices():
        if registration.name == name:
            # The interface may listen on all addresses of its machine; the other one is known to lead there.
            host, _, port = registration.http.rpartition(":")
            if host in _ANY_ADDRESS:
                host = registration.address.rpartition(":")[0]
            return Home(name, f"{host}:{port}")
    return Home(name, "")


async def forward(door: Door, request: Request, home: Home, body: bytes = b"") -> Response:
    """The same call there, and its answer. Raises `unavailable`."""
    if not home.address:
        raise problems.unavailable(f"{home.name}, which delivers this subscription, is not registered")
    headers = {FORWARDED_BY: door.name, "content-type": request.headers.get("content-type", "application/json")}
    url = f"http://{home.address}{request.url.path}"
    timeout_s = 2 * door.settings.api.request_timeout_s
    try:
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=timeout_s) as client:
            answer = await client.request(request.method, url, params=request.url.query, headers=headers, content=body)
    except httpx.HTTPError as error:
        detail = f"{home.name}, which delivers this subscription, cannot be asked: {error or type(error).__name__}"
        raise problems.unavailable(detail) from None
    passed_on = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
    return Response(answer.content, answer.status_code, passed_on)
