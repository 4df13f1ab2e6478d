"""Who sees to a log that no connection point has for itself: the partitions of Kafka's ingress topic.

Everybody works it out from the connection points that are registered, on a ring like that of the matchers: one that
goes leaves its logs to the others, one that comes takes its share, and nothing else changes hands. Where two know of
different connection points for a moment, a log has two of them, or none, for that moment; `docs/kafka-ingress.md`
says why that does no harm.
"""

from collections.abc import Iterable

from braid.selector import hash64, ring

_PREFIX = "ingress-"


def log_name(partition: int) -> str:
    """Origins begin with it, as others begin with the name of a connection point."""
    return f"{_PREFIX}{partition}"


def owner_of(log: str, connpoints: Iterable[str]) -> str:
    """The connection point that sends what is in the log: the one of that name, or who sees to it among these."""
    if not log.startswith(_PREFIX):
        return log
    names = tuple(sorted(connpoints))
    return ring(names).owner(hash64(log)) if names else ""
