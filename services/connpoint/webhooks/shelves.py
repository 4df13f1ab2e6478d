"""All shelves of a connection point, and the bound of all of them together. Done on the thread of the database.

What was received shortly before a crash is recognised when an exit point sends it again, whether it waits, is dead, or
has arrived: of what has arrived the keys are noted for a minute.
"""

import math
from collections.abc import Iterable

import msgspec

from braid.config import Webhooks
from braid.leveldb import Pages
from services.connpoint.delivery import Addressed
from services.connpoint.past_order import Key
from services.connpoint.webhooks.events import Bury, BuryWaiting
from services.connpoint.webhooks.facts import Facts
from services.connpoint.webhooks.records import (
    ARRIVED,
    ENDPOINT,
    DeadLetter,
    Notification,
    Seen,
    arrived_key,
    decode_seen,
    encode,
)
from services.connpoint.webhooks.shelf import Counts, Shelf, Taken

RECENT_S = 60.0  # an exit point that has no receipt sends it again within that time
_PRUNE_AT = 10_000  # keys in memory while all are read
_ROOM = 0.9  # of the disk is filled when it was full and room was made

_decode_facts = msgspec.msgpack.Decoder(Facts).decode


def _of_the_last_minute(came: Iterable[tuple[str, Notification]]) -> set[tuple[str, Key]]:
    """Before the newest of them. There may be more of them than memory has room for: what is known to be older is let
    go on the way, and contents at once.
    """
    newest_s, prune_at = 0.0, _PRUNE_AT
    recent: dict[tuple[str, Key], float] = {}
    for id, one in came:
        newest_s = max(newest_s, one.received_s)
        if one.received_s > newest_s - RECENT_S:
            recent[id, one.key] = one.received_s
        if len(recent) >= prune_at:
            recent = {key: at_s for key, at_s in recent.items() if at_s > newest_s - RECENT_S}
            prune_at = max(_PRUNE_AT, 2 * len(recent))
    return {key for key, at_s in recent.items() if at_s > newest_s - RECENT_S}


class Shelves:
    def __init__(self, settings: Webhooks) -> None:
        self.totals = Counts()
        self.facts: dict[str, Facts] = {}  # of each endpoint, as they were found
        self._settings = settings
        self._shelves: dict[str, Shelf] = {}
        self._recent: set[tuple[str, Key]] = set()  # subscription and key of what may be sent here again
        self._recent_until_s = math.inf  # not known before the first one comes

    def load(self, pages: Pages) -> None:
        """Counts everything that is there, also when the database had to be opened anew."""
        self.totals = Counts(buried=self.totals.buried, dropped=self.totals.dropped)
        self.facts = {key[len(ENDPOINT) :].decode(): _decode_facts(value) for key, value in pages.scan(ENDPOINT)}
        self._shelves = {id: Shelf(id, self._settings, self.totals) for id in self.facts}
        came = ((id, one) for id, shelf in self._shelves.items() for one in shelf.load(pages))
        self._recent = _of_the_last_minute(came)
        for _, value in pages.scan(ARRIVED):
            seen = decode_seen(value)
            self._recent |= {(seen.id, key) for key in seen.keys}
        self._recent_until_s = math.inf  # not known before the first one comes

    def __contains__(self, id: str) -> bool:
        return id in self._shelves

    def note(self, pages: Pages, id: str, facts: Facts) -> None:
        """Of an endpoint that is there, or begins."""
        if id not in self._shelves:
            self._shelves[id] = Shelf(id, self._settings, self.totals)
        pages.put(ENDPOINT + id.encode(), encode(facts))

    def append(self, pages: Pages, addressed: Iterable[Addressed], received_s: float) -> None:
        """What is too much then is buried or dropped. Whose endpoint was removed meanwhile is nobody's."""
        touched: dict[str, Shelf] = {}
        for one in addressed:
            shelf = self._shelves.get(one.id)
            if shelf is None or self._is_repeated(one, received_s):
                continue
            shelf.append(pages, Notification(received_s, one.key, one.content))
            touched[one.id] = shelf
        for shelf in touched.values():
            shelf.trim(pages, received_s)
        self._make_room(pages)

    def take(self, pages: Pages, id: str) -> Taken | None:
        shelf = self._shelves.get(id)
        return None if shelf is None else shelf.take(pages)

    def settle(self, pages: Pages, id: str, number: int, facts: Facts, now_s: float) -> None:
        shelf = self._shelves.get(id)
        request = None if shelf is None else shelf.settle(pages, number)
        if request is not None:
            keys = [notification.key for notification in request.notifications]
            pages.put(arrived_key(now_s, id, number), encode(Seen(id, keys)))
            self.note(pages, id, facts)

    def bury(self, pages: Pages, id: str, wanted: Bury, facts: Facts, now_s: float) -> None:
        shelf = self._shelves.get(id)
        if shelf is not None:
            shelf.bury(pages, wanted.number, wanted.attempts, wanted.reason, now_s)
            self.note(pages, id, facts)

    def bury_waiting(self, pages: Pages, id: str, wanted: BuryWaiting, now_s: float) -> None:
        shelf = self._shelves.get(id)
        if shelf is not None:
            shelf.bury_waiting(pages, wanted.before_s, wanted.reason, now_s)

    def replay(self, pages: Pages, id: str, wanted: set[str] | None) -> tuple[int, int]:
        shelf = self._shelves.get(id)
        return (0, 0) if shelf is None else shelf.replay(pages, wanted)

    def dead_letters(self, pages: Pages, id: str, most: int) -> list[DeadLetter]:
        shelf = self._shelves.get(id)
        return [] if shelf is None else shelf.dead_letters(pages, most)

    def counts(self, id: str) -> Counts:
        shelf = self._shelves.get(id)
        return Counts() if shelf is None else msgspec.structs.replace(shelf.counts)

    def remove(self, pages: Pages, id: str) -> None:
        shelf = self._shelves.pop(id, None)
        if shelf is not None:
            shelf.remove(pages)
            pages.delete(ENDPOINT + id.encode())

    def forget_arrived(self, pages: Pages, now_s: float) -> None:
        """No exit point sends it again."""
        until = arrived_key(max(0.0, now_s - RECENT_S), "", 0)
        for key, _ in pages.scan(ARRIVED):
            if key >= until:
                break
            pages.delete(key)

    def _is_repeated(self, one: Addressed, received_s: float) -> bool:
        if not self._recent:
            return False
        self._recent_until_s = min(self._recent_until_s, received_s + 2 * RECENT_S)
        if received_s > self._recent_until_s:
            self._recent = set()
        return (one.id, one.key) in self._recent

    def _make_room(self, pages: Pages) -> None:
        """The largest endpoint loses its oldest, then the next one."""
        if self.totals.size <= self._settings.disk_bytes_max:
            return
        bound = int(_ROOM * self._settings.disk_bytes_max)
        for shelf in sorted(self._shelves.values(), key=lambda shelf: -shelf.counts.size):
            if self.totals.size <= bound:
                return
            shelf.drop(pages, self.totals.size - bound)
