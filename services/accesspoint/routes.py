"""Which matchers a publication must visit while routing is anchored: those that keep a subscription under its anchors.

Anchors are subscriptions that ask for less (`braid.anchors`), so the index that finds subscriptions finds them too,
with the name of the matcher in the place of the connection point's.

Invariants: a matcher whose whole list was never here gets everything; an anchor is in the index before it is said to be
known. What a matcher has taken off its list may stay for a while, which costs a visit and loses nothing. While a link
is away the old list is used: until this access point has heard of the others, the matcher acknowledges none of them.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import islice

import msgspec
import structlog

from braid.anchors import subscription_of
from braid.matching.index import IndexFullError, MatchIndex
from braid.messages import Anchors

REMOVED_AT_ONCE = 500

log = structlog.get_logger()

Places = dict[str, list[int]]  # by matcher: which of the publications it must see


class _Listed(msgspec.Struct):
    """What is known of one matcher."""

    anchors: set[str] = msgspec.field(default_factory=set)  # in the index
    refuse: set[str] = msgspec.field(default_factory=set)  # of those, not on its list any more
    again: set[str] | None = None  # listed since the last list began, until it is whole
    part: int = 0
    is_whole: bool = False

    def begin(self) -> None:
        self.is_whole, self.again, self.part = False, set(), 0


class Routes:
    def __init__(self, on_hit: Callable[[list[list[str]]], None] | None = None) -> None:
        """`on_hit` is told what each publication found, as ids of this index."""
        self._index = MatchIndex()
        self._on_hit = on_hit
        self._listed: dict[str, _Listed] = {}
        self.refused = 0  # anchors that found the index full; their matchers get everything

    def knows(self, matcher: str) -> bool:
        listed = self._listed.get(matcher)
        return listed is not None and listed.is_whole

    @property
    def anchors(self) -> int:
        return len(self._index)

    def anchors_of(self, matcher: str) -> set[str] | None:
        """What publications for it are found by; None while it gets everything."""
        return self._listed[matcher].anchors if self.knows(matcher) else None

    def on_anchors(self, matcher: str, message: Anchors) -> bool:
        """Whether the part is known now; one that belongs to a list whose beginning was missed is not."""
        listed = self._listed.setdefault(matcher, _Listed())
        if message.begins:
            listed.begin()
        elif message.part != listed.part + 1:
            return False
        for anchor in message.removed:
            if listed.again is not None:
                listed.again.discard(anchor)
            self._remove(matcher, anchor, listed)
        for anchor in message.added:
            self._add(matcher, anchor, listed)
        if message.is_whole and listed.again is not None:
            listed.refuse = listed.anchors - listed.again
            listed.again, listed.is_whole = None, True
        listed.part = message.part  # at last: one that fails midway is not known, and neither is what follows
        return True

    def keep(self, matchers: Collection[str]) -> None:
        """The others have left the cluster."""
        for matcher, listed in self._listed.items():
            if matcher not in matchers:
                listed.begin()
                listed.refuse = set(listed.anchors)

    def route(self, batches: Sequence[Sequence[bytes]], matchers: Sequence[str], now_s: float) -> list[Places]:
        """Of each batch by matcher, the places of the contents it must see; who needs none of them is left out."""
        known = {matcher for matcher in matchers if self.knows(matcher)}
        unknown = [matcher for matcher in matchers if matcher not in known]
        matches = self._index.match([content for contents in batches for content in contents], now_s) if known else None
        if matches is not None and self._on_hit is not None:
            self._on_hit(matches.ids())
        routed: list[Places] = []
        begin = 0
        for contents in batches:
            end = begin + len(contents)
            places: Places = {matcher: list(range(len(contents))) for matcher in unknown}
            if matches is not None:
                for matcher, found in matches.by_home(begin, end):
                    if matcher in known:
                        places[matcher] = [place for place, _, _ in found]
            routed.append(places)
            begin = end
        return routed

    def clean(self) -> None:
        """Removes some of what nobody needs any more."""
        room = REMOVED_AT_ONCE
        for matcher, listed in self._listed.items():
            for anchor in list(islice(listed.refuse, room)):
                self._remove(matcher, anchor, listed)
                room -= 1

    def _add(self, matcher: str, anchor: str, listed: _Listed) -> None:
        listed.refuse.discard(anchor)
        if listed.again is not None:
            listed.again.add(anchor)
        if anchor in listed.anchors:
            return
        try:
            self._index.add(subscription_of(anchor, _id(matcher, anchor), matcher))
        except (IndexFullError, ValueError) as error:
            self.refused += 1
            if not self.refused & (self.refused - 1):  # the first, the second, the fourth, …
                log.error("an anchor cannot be kept", matcher=matcher, anchor=anchor[:200], reason=str(error))
            # Without an end of the list, this matcher gets everything until it begins another one.
            listed.is_whole, listed.again = False, None
            return
        listed.anchors.add(anchor)

    def _remove(self, matcher: str, anchor: str, listed: _Listed) -> None:
        listed.refuse.discard(anchor)
        if anchor in listed.anchors:
            listed.anchors.discard(anchor)
            self._index.remove(_id(matcher, anchor))


def _id(matcher: str, anchor: str) -> str:
    return f"{matcher} {anchor}"
