"""What the session holds: calls that have no answer yet, and streams with what it takes to subscribe again."""

from typing import Any

import msgspec

from braid.instants import parse_instant

_IDS_MAX = 2  # the id in force and the one before, under which notifications may still be on their way


class Call(msgspec.Struct):
    """Something asked of the server and not yet answered."""

    ref: int
    frame: bytes
    stream: int = 0  # the stream that a subscribe or unsubscribe is for
    attempts: int = 0


class Wish(msgspec.Struct, frozen=True):
    """What was asked for, with its window in absolute time: made again later it must not last longer."""

    parts: dict[str, Any]
    from_s: float | None
    until_s: float | None

    @classmethod
    def of(cls, parts: dict[str, Any], now: float) -> "Wish":
        return cls(parts, _absolute(parts.get("from"), now), _absolute(parts.get("until"), now))

    def is_over(self, now: float) -> bool:
        return self.until_s is not None and self.until_s <= now

    def renewed(self, now: float) -> dict[str, Any]:
        """The parts for subscribing again: the stream goes on from now, it does not start over."""
        parts = {name: value for name, value in self.parts.items() if name != "from"}
        if self.from_s is not None and self.from_s > now:
            parts["from"] = self.from_s
        if self.until_s is not None:
            parts["until"] = self.until_s
        return parts


class HeldStream(msgspec.Struct):
    """A stream that is opening (asked, no id), open (an id), repairing (both) or closing."""

    wish: Wish
    keep: bool  # closing leaves the subscription with the server
    asked: int = 0  # ref of the subscribe that is under way
    ids: list[str] = []
    closing: bool = False

    def adopt(self, id: str) -> list[str]:
        """Takes a new id; returns those that are too old to be heard of again."""
        self.ids.append(id)
        outdated, self.ids = self.ids[:-_IDS_MAX], self.ids[-_IDS_MAX:]
        return outdated


def _absolute(value: object, now: float) -> float | None:
    """None also for what is no instant: the server says what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return parse_instant(value, now)
    except ValueError:
        return None
