"""Which addresses may be posted to, and finding them out.

Whoever can subscribe can have something posted anywhere, so what is not public is refused. What is looked at is the
address that is connected to, whatever name led there.
"""

import asyncio
import ipaddress
import socket
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from braid import problems

_REMEMBERED_S = 30.0
_REMEMBERED_MAX = 10_000  # names
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class ForbiddenAddressError(Exception):
    """The name leads nowhere that may be posted to."""


def is_public(address: str) -> bool:
    """Whether it is of the internet, and what it stands for as well, where it stands for another one."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        embedded = _embedded(found)
        if embedded is not None:
            return _is_global(embedded)
    return _is_global(found)


def _is_global(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    is_site_local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local  # fec0::/10, and still in use
    return address.is_global and not (address.is_multicast or address.is_reserved or is_site_local)


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour


def check_url(url: str, *, allow_private: bool) -> None:
    """Says so at once where the url itself names an address that will be refused. Raises `Problem`."""
    host = urlsplit(url).hostname or ""
    try:
        is_refused = not is_public(host)
    except ValueError:
        is_refused = host == "localhost" or host.endswith(".localhost")
    if is_refused and not allow_private:
        detail = "not a public address; whoever runs the cluster can allow others (webhooks.allow_private)"
        raise problems.invalid("$.deliver.webhook.url", detail)


class Resolver:
    """Names become addresses on threads of its own: looking one up blocks, sometimes for long."""

    def __init__(self, threads: int, *, allow_private: bool) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="webhook-names")
        self._allow_private = allow_private
        self._known: OrderedDict[tuple[str, int], tuple[float, list[str]]] = OrderedDict()

    async def addresses_of(self, host: str, port: int) -> list[str]:
        """Those that may be connected to. Raises `OSError`, or `ForbiddenAddressError` when there is none."""
        addresses = await self._look_up(host, port)
        allowed = [address for address in addresses if self._allow_private or is_public(address)]
        if not allowed:
            raise ForbiddenAddressError(f"{host} is no public address (webhooks.allow_private)")
        return allowed

    async def _look_up(self, host: str, port: int) -> list[str]:
        known = self._known.get((host, port))
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        loop = asyncio.get_running_loop()
        addresses = await loop.run_in_executor(self._threads, _addresses_of, host, port)
        self._known[host, port] = time.monotonic() + _REMEMBERED_S, addresses
        while len(self._known) > _REMEMBERED_MAX:
            self._known.popitem(last=False)
        return addresses

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _addresses_of(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
