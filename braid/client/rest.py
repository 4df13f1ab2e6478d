"""The calls that go over plain HTTP: what is asked seldom, and needs no WebSocket."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from braid.client.errors import BraidError, CallTimeout, ConnectionLost, from_problem
from braid.client.options import is_loopback

if TYPE_CHECKING:
    import httpx

Parameters = Mapping[str, str | Sequence[str]]  # a parameter of several values is repeated


class Rest:
    """JSON requests to the first of the connection points that can be reached."""

    def __init__(self, urls: Callable[[], list[str]], headers: Mapping[str, str], timeout_s: float) -> None:
        self._urls = urls
        self._headers = dict(headers)
        self._timeout_s = timeout_s
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def get(self, path: str, parameters: Parameters | None = None, *, url: str | None = None) -> Any:
        return await self._request("GET", path, parameters or {}, None, url)

    async def post(self, path: str, body: object, parameters: Parameters | None = None) -> Any:
        return await self._request("POST", path, parameters or {}, msgspec.json.encode(body), None)

    async def patch(self, path: str, body: object) -> Any:
        return await self._request("PATCH", path, {}, msgspec.json.encode(body), None)

    async def delete(self, path: str) -> None:
        await self._request("DELETE", path, {}, None, None)

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    async def _request(
        self, method: str, path: str, parameters: Parameters, body: bytes | None, url: str | None
    ) -> Any:
        import httpx

        unreachable = ""
        for base_url in [url] if url else self._urls():
            try:
                response = await self._client(base_url).request(
                    method,
                    path,
                    params=dict(parameters),
                    content=body,
                    headers={"Content-Type": "application/json"} if body is not None else None,
                )
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                # Nothing was sent, so the next one may be asked without asking twice.
                unreachable = f"cannot connect to {base_url}: {error or type(error).__name__}"
                continue
            except httpx.TimeoutException:
                raise CallTimeout(f"no answer from {base_url}{path} within {self._timeout_s:g} s") from None
            except httpx.TransportError as error:
                raise ConnectionLost(f"{method} {base_url}{path}: {error or type(error).__name__}") from None
            return _content(response, f"{base_url}{path}")
        raise ConnectionLost(unreachable)

    def _client(self, base_url: str) -> "httpx.AsyncClient":
        import httpx

        if base_url not in self._clients:
            self._clients[base_url] = httpx.AsyncClient(
                base_url=base_url,
                headers=self._headers,
                timeout=self._timeout_s,
                trust_env=not is_loopback(base_url),
            )
        return self._clients[base_url]


def problem_of(body: bytes, status: int, asked: str) -> BraidError:
    """The error that an answer with this status stands for, also when something else than Braid answered."""
    try:
        problem = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        problem = {}
    if "title" not in problem:
        return BraidError(f"{asked} answered {status}, and not as Braid does", {**problem, "status": status})
    return from_problem({"status": status, **problem})


def _content(response: "httpx.Response", asked: str) -> Any:
    if response.status_code >= 300:
        raise problem_of(response.content, response.status_code, asked)
    if response.status_code == 204:
        return None
    try:
        return msgspec.json.decode(response.content)
    except msgspec.DecodeError as error:
        raise BraidError(f"{asked} did not answer in JSON: {error}") from None
