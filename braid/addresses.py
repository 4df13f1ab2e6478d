"""The address under which other slices reach this one. A slice may listen on all addresses; it announces one."""

import ipaddress
import socket

from braid.config import Cluster, ConfigError

WILDCARDS = ("0.0.0.0", "::")


def announced_host(listening: str, cluster: Cluster) -> str:
    """For something that listens on `listening`. Asks the resolver when no setting says it. Raises `ConfigError`."""
    if listening not in WILDCARDS:
        return listening
    if cluster.announce:
        return cluster.announce
    if cluster.host not in WILDCARDS:
        return cluster.host
    return _own_address()


def _own_address() -> str:
    """What the name of this host resolves to: in a container, its address in the network of the containers."""
    name = socket.gethostname()
    advice = "set cluster.announce to the address that other slices reach this one under"
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        raise ConfigError(f"the name of this host, {name}, cannot be resolved ({error}); {advice}") from None
    if ipaddress.ip_address(address).is_loopback:
        raise ConfigError(f"the name of this host, {name}, means {address}, which is no address for others; {advice}")
    return address
