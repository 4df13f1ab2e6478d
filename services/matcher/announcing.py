"""What a matcher tells access points of the anchors it keeps subscriptions under, while routing is anchored.

Each access point gets the whole list when its link comes up, then every change, in numbered parts with a bounded number
of them under way. It sends everything to a matcher whose list it never had.

Invariants: an anchor is taken off the list only when no subscription is kept under it; a subscription is acknowledged
when every access point of the cluster has said that it knows its anchor. What is added and removed before it was sent
is sent once, as it is then. A list may have a million anchors: it is walked as far as there is room to send.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from braid.anchors import text_of
from braid.id_tables import IdSet
from braid.messages import Anchors, AnchorsKnown, Send
from braid.subscription import SubscriptionRecord
from services.matcher.anchor_counts import AnchorCounts

PART_MAX = 50  # anchors; one with a topic costs an access point up to 80 µs, and all parts under way may come at once
PART_CHARACTERS_MAX = 256 * 1024  # somewhat more with the last one
PARTS_UNDER_WAY_MAX = 4
LOOKS_AT_ONCE = 500
NEARLY_TOLD = 500  # anchors that may be left when a listener counts as nearly told


class _Listener:
    """One link to an access point."""

    def __init__(self, counts: AnchorCounts) -> None:
        self._counts = counts
        self._listing = counts.walk()  # the rest of the list that it is told first
        self._upcoming = next(self._listing, None)  # the next one of it, with its page
        self._listed: set[str] = set()  # what was sent of that page
        # Anchors that came or went since the list was begun, in their order; a plain one is slow at its beginning.
        self.pending: OrderedDict[str, None] = OrderedDict()
        self.under_way: dict[int, dict[str, bool]] = {}  # by part and anchor: whether it is on the list
        self.has_begun = False
        self.is_whole = False  # the whole list was sent; what follows are changes

    def _next_listed(self, page: int, anchor: str) -> str:
        self._upcoming = next(self._listing, None)
        if self._upcoming is None or self._upcoming[0] != page:
            self._listed = set()
        else:
            self._listed.add(anchor)
        return anchor

    def take_part(self) -> dict[str, bool]:
        """What is left of the list, then what has changed, as it is now."""
        part: dict[str, bool] = {}
        size = 0
        while self.has_more and len(part) < PART_MAX and size < PART_CHARACTERS_MAX:
            if self._upcoming is not None:
                anchor = self._next_listed(*self._upcoming)
                self.pending.pop(anchor, None)
            else:
                anchor, _ = self.pending.popitem(last=False)
            part[anchor] = anchor in self._counts
            size += len(anchor)
        return part

    def knows(self, anchor: str) -> bool:
        """Of one that is on no list any more, that it is not."""
        if anchor in self.pending or any(anchor in part for part in self.under_way.values()):
            return False
        page = self._counts.page_of(anchor)
        if self._upcoming is None or page is None:
            return True
        return page < self._upcoming[0] or anchor in self._listed

    @property
    def has_more(self) -> bool:
        return self._upcoming is not None or bool(self.pending)

    @property
    def is_told(self) -> bool:
        return self.is_whole and not self.pending and not self.under_way

    @property
    def is_nearly_told(self) -> bool:
        return self.is_whole and len(self.pending) < NEARLY_TOLD


class Announcing:
    """`walk` gives the ids of all subscriptions, `get` a record; both are asked bit by bit."""

    def __init__(self, walk: Callable[[], Iterator[str]], get: Callable[[str], SubscriptionRecord | None]) -> None:
        self._walk = walk
        self._get = get
        self.is_on = False  # somebody routes by anchors
        self._counts = AnchorCounts()
        self._walking: Iterator[str] | None = None
        self._counted = IdSet()  # ids, while the walk goes on
        self._linked: set[str] = set()  # access points that have had a link here
        self._listeners: dict[str, _Listener] = {}
        self._parts: dict[str, int] = {}  # sent to each; never the same number twice
        self._awaited: frozenset[str] = frozenset()

    # What others ask

    @property
    def is_told(self) -> bool:
        """Every access point that counts knows all anchors there are."""
        if not self.is_on:
            return True
        return self._walking is None and all(
            name in self._listeners and self._listeners[name].is_told for name in self._awaited
        )

    @property
    def is_nearly_told(self) -> bool:
        """The same but for a few that came up a moment ago."""
        if not self.is_on:
            return True
        return self._walking is None and all(
            name in self._listeners and self._listeners[name].is_nearly_told for name in self._awaited
        )

    def is_known(self, anchor: str) -> bool:
        """Every access point that counts knows this one."""
        if not self.is_on:
            return True
        return all(name in self._listeners and self._listeners[name].knows(anchor) for name in self._awaited)

    @property
    def anchors(self) -> int:
        return len(self._counts)

    @property
    def wants_to_go_on(self) -> bool:
        return self._walking is not None

    # What comes

    def on_configured(self, *, is_on: bool, accesspoints: Iterable[str]) -> list[Send]:
        """Which access points count, and whether anybody routes by anchors."""
        self._awaited = frozenset(accesspoints)
        if is_on != self.is_on:
            self.is_on = is_on
            self._counts, self._listeners, self._counted = AnchorCounts(), {}, IdSet()
            self._walking = self._walk() if is_on else None
        self._listeners = {name: kept for name, kept in self._listeners.items() if name in self._awaited}
        for name in sorted(self._awaited & self._linked):
            self._listen(name)
        return self._sends()

    def on_accesspoint_up(self, accesspoint: str) -> list[Send]:
        """A link to it is there, perhaps again: it is told everything from the beginning."""
        self._linked.add(accesspoint)
        self._listeners.pop(accesspoint, None)
        self._listen(accesspoint)
        return self._sends()

    def on_known(self, accesspoint: str, message: AnchorsKnown) -> tuple[list[Send], Iterable[str]]:
        """What is sent next, and the anchors that this access point knows now."""
        listener = self._listeners.get(accesspoint)
        if listener is None:
            return [], ()
        known = listener.under_way.pop(message.part, {})
        return self._send(accesspoint, listener), known

    def on_continue(self) -> list[Send]:
        """Counts some more of what was there when routing became anchored, and tells what has come up."""
        if self._walking is not None:
            self._count_some(self._walking)
        return self._sends()

    def _count_some(self, walking: Iterator[str]) -> None:
        ids = list(islice(walking, LOOKS_AT_ONCE))
        for id in ids:
            if id in self._counted:
                continue
            record = self._get(id)
            if record is not None:
                self._counted.add(id)
                self._add(text_of(record))
        if len(ids) < LOOKS_AT_ONCE:
            self._walking, self._counted = None, IdSet()

    def on_put(self, record: SubscriptionRecord, before: SubscriptionRecord | None) -> None:
        if not self.is_on:
            return
        self._add(text_of(record))
        if before is not None and self._is_counted(record.id):
            self._take(text_of(before))
        if self._walking is not None:
            self._counted.add(record.id)

    def on_removed(self, record: SubscriptionRecord) -> None:
        if self.is_on and self._is_counted(record.id):
            self._take(text_of(record))
            self._counted.discard(record.id)

    def changes(self) -> list[Send]:
        """What has come up since the last call."""
        return self._sends()

    # Details

    def _is_counted(self, id: str) -> bool:
        return self._walking is None or id in self._counted

    def _add(self, anchor: str) -> None:
        if self._counts.add(anchor):
            for listener in self._listeners.values():
                listener.pending[anchor] = None

    def _take(self, anchor: str) -> None:
        if self._counts.take(anchor):
            for listener in self._listeners.values():
                listener.pending[anchor] = None

    def _listen(self, accesspoint: str) -> None:
        if self.is_on and accesspoint in self._awaited and accesspoint not in self._listeners:
            self._listeners[accesspoint] = _Listener(self._counts)

    def _sends(self) -> list[Send]:
        return [send for name, listener in self._listeners.items() for send in self._send(name, listener)]

    def _send(self, accesspoint: str, listener: _Listener) -> list[Send]:
        parts: list[Anchors] = []
        while len(listener.under_way) < PARTS_UNDER_WAY_MAX and (listener.has_more or self._owes_the_end(listener)):
            part = listener.take_part()
            number = self._parts[accesspoint] = self._parts.get(accesspoint, 0) + 1
            listener.under_way[number] = part
            listener.is_whole = listener.is_whole or (not listener.has_more and self._walking is None)
            added = [anchor for anchor, is_there in part.items() if is_there]
            removed = [anchor for anchor, is_there in part.items() if not is_there]
            parts.append(Anchors(0, number, not listener.has_begun, listener.is_whole, added, removed))
            listener.has_begun = True
        return [Send(accesspoint, parts)] if parts else []

    def _owes_the_end(self, listener: _Listener) -> bool:
        return not listener.is_whole and self._walking is None
