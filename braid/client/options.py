"""The limits and times of a client."""

from ipaddress import ip_address
from urllib.parse import urlencode, urlsplit

import msgspec

PUBLISHER_HEADER = "Braid-Publisher"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """See `Client` for what each of them means."""

    connect_timeout_s: float
    reconnect_timeout_s: float
    call_timeout_s: float
    heartbeat_s: float
    backoff_first_s: float
    backoff_max_s: float
    publishes_in_flight_max: int
    stream_buffer_max: int
    delivered_window: int
    message_bytes_max: int


def checked_url(url: str) -> str:
    """Without a slash at its end; `ValueError` when it is not the address of a connection point."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"expected an address such as 'http://127.0.0.1:8080', not {url!r}")
    return url.rstrip("/")


def checked_publisher(publisher: str) -> str:
    """It travels in an HTTP header."""
    if not publisher.isascii() or not publisher.isprintable():
        raise ValueError(f"the name of a publisher must be printable ASCII, not {publisher!r}")
    return publisher


def socket_url(base_url: str, parameters: dict[str, str]) -> str:
    """`http://…` becomes `ws://…/v1/ws`, `https://…` becomes `wss://…`."""
    return f"ws{base_url.removeprefix('http')}/v1/ws?{urlencode(parameters)}"


def is_loopback(base_url: str) -> bool:
    """A proxy from the environment is of no use there."""
    host = urlsplit(base_url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
