"""What the session holds: calls that have no answer yet, and streams with what it takes to subscribe again."""

from typing import Any

import msgspec

from braid.client.effects import Effect, Report
from braid.client.frames import Past, encode_subscribe
from braid.instants import parse_instant

OVERLOADED = 429
OVERLAP_S = 10.0  # before the server was last heard of, something may have been on its way to this client
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
    asked_s: float
    from_s: float | None
    until_s: float | None

    @classmethod
    def of(cls, parts: dict[str, Any], now: float) -> "Wish":
        return cls(parts, now, _absolute(parts.get("from"), now), _absolute(parts.get("until"), now))

    def is_over(self, now: float) -> bool:
        return self.until_s is not None and self.until_s <= now

    def renewed(self, now: float, heard_s: float | None) -> dict[str, Any]:
        """The parts for subscribing again: the stream goes on where it stopped, it does not start over.

        That is shortly before the server was last heard of, but never before its own beginning; without that moment it
        goes on from now. It is said relative to now, so that the two clocks need not agree.
        """
        parts = {name: value for name, value in self.parts.items() if name != "from"}
        if self.from_s is not None and self.from_s > now:
            parts["from"] = self.from_s
        elif heard_s is not None:
            begun_s = self.asked_s if self.from_s is None else self.from_s
            missed_s = now - max(begun_s, heard_s - OVERLAP_S)
            parts["from"] = f"-{max(missed_s, 0):.3f}s"  # a clock that was set back must not ask for the future
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
    heard_s: float | None = None  # while repairing: when the server was last heard of before it lost this one
    past: Past | None = None  # what came with the first subscribe

    def repair(self, ref: int, now: float) -> bytes:
        """The frame that subscribes again."""
        self.asked = ref
        return encode_subscribe(ref, self.wish.renewed(now, self.heard_s))

    def ask_for_less(self, status: int) -> list[Effect]:
        """What was missed may be more than a busy server can give; the next attempt goes on without it."""
        if status != OVERLOADED or self.heard_s is None:
            return []
        self.heard_s = None
        return [Report("gap", "the server was too busy to give what was missed")]

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
