"""Where the connection points are, and whether they are ready."""

import asyncio
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from braid.config import Settings
from braid.topology import Registration
from coordinator.plan import connpoint_ports

PROBE_S = 2.0


class ApiAddresses:
    """Known from the settings; or, for ports that the system chose, from the registrations in ZooKeeper."""

    def __init__(
        self,
        settings: Settings,
        pids: Callable[[], Mapping[str, int]],
        registered: Callable[[], Mapping[str, Registration]],
    ) -> None:
        self._settings = settings
        self._pids = pids
        self._registered = registered
        self._ports = connpoint_ports(settings)

    def known(self) -> list[str]:
        return [address for name in self._ports if (address := self.of(name)) is not None]

    def of(self, name: str) -> str | None:
        if self._ports[name]:
            return f"http://{_reachable(self._settings.api.host)}:{self._ports[name]}"
        registration = self._registered().get(name)
        # The registration of an earlier run may still be listed for a while.
        if registration is None or registration.pid != self._pids().get(name):
            return None
        host, _, port = registration.http.rpartition(":")
        return f"http://{_reachable(host)}:{port}"


async def why_not_ready(api: str | None) -> str | None:
    """None when `GET /readyz` answers 200; else what happened instead."""
    if api is None:
        return "it is not registered with ZooKeeper"
    parts = urlsplit(api)
    try:
        async with asyncio.timeout(PROBE_S):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            try:
                request = f"GET /readyz HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n"
                writer.write(request.encode())
                answer = await reader.read()
            finally:
                writer.close()
    except TimeoutError:
        return f"{api}/readyz does not answer within {PROBE_S:g} s"
    except OSError as error:
        return f"{api} cannot be reached: {error}"
    head, _, body = answer.partition(b"\r\n\r\n")
    status = b" ".join(head.split(b" ", 2)[1:2]).decode(errors="replace")
    if status == "200":
        return None
    return f"{api}/readyz answers {status or 'nothing'}: {body[:500].decode(errors='replace').strip()}"


def _reachable(host: str) -> str:
    """An address to talk to, also when it listens on all of them."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
