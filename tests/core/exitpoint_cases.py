"""What the tests of the exit point share: partials to feed it, and short ways to read what it sends."""

from braid.messages import Confirmed, Hop, Match, Notifications, Partial, Received, Send
from services.exitpoint.core import ExitPointCore

ORIGIN = "connpoint-1.a"
PUBLISHER = 8
CONNPOINTS = {"connpoint-1": 1, "connpoint-2": 1}


def exitpoint(gathers_max: int = 100, connpoints: dict[str, int] = CONNPOINTS) -> ExitPointCore:
    core = ExitPointCore("exitpoint-1", lambda: 999, gathers_max, gather_s_max=60.0)
    core.on_connpoints(connpoints)
    return core


def matches(*ids: str, place: int = 0) -> list[Match]:
    return [(place, list(ids), b"{}")]


def partial(
    sequence: int,
    matched: list[tuple[str, list[Match]]] | None = None,
    *,
    matcher: int = 1,
    of: int = 1,
    previous: int = 0,
    watermark: int = 0,
    epoch: int = 1,
    origin: str = ORIGIN,
    hops: list[Hop] | None = None,
    asked: tuple[int, ...] | None = None,
    attempt: int = 0,
) -> Partial:
    """By default the only one, with one match for connpoint-2. With `asked`, only these matchers were."""
    if matched is None:
        matched = [("connpoint-2", matches("s-1"))]
    names = None if asked is None else [f"matcher-{number}" for number in asked]
    several = of if asked is None else len(asked)
    return Partial(
        epoch,
        origin,
        sequence,
        previous,
        watermark,
        PUBLISHER,
        several,
        f"matcher-{matcher}",
        matched,
        hops,
        names,
        attempt,
    )


def notified(sends: list[Send]) -> list[tuple[str, int]]:
    """Connection point and sequence of every notification, in order."""
    return [(send.to, m.sequence) for send in sends for m in send.messages if isinstance(m, Notifications)]


def confirmed(sends: list[Send]) -> list[int]:
    return [s for send in sends for m in send.messages if isinstance(m, Confirmed) for s in m.sequences]


def feed(core: ExitPointCore, *partials: Partial, now_s: float = 100.0) -> list[Send]:
    return core.on_partials(list(partials), now_s, 0)


def receive(core: ExitPointCore, connpoint: str, *sequences: int, origin: str = ORIGIN) -> list[Send]:
    return core.on_received(connpoint, [Received(1, origin, list(sequences))])
