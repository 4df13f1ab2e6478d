"""What lies on disk for one endpoint. Everything here is done on the thread of the database.

    append ──▶ waiting ──take──▶ request ──settle──▶ gone
                  │                │  ▲
                  └──too many,─────┤  │
                     too old       ▼  └──replay── dead letter ──too many──▶ dropped

A request is made of what waits when it is taken for the first time, and stays as it is until it has arrived.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from braid.config import Webhooks
from braid.leveldb import Pages
from services.connpoint.webhooks.records import (
    DEAD,
    REQUEST,
    WAITING,
    DeadLetter,
    Notification,
    Request,
    all_below,
    decode_dead_letter,
    decode_notification,
    decode_request,
    encode,
    in_requests,
    key_below,
    made_request,
    number_in,
)

FULL = "more waited than webhooks.queue_notifications_max or webhooks.queue_bytes_max allow"


class Counts(msgspec.Struct):
    """Notifications, of one endpoint or of all."""

    waiting: int = 0  # those in requests included
    waiting_bytes: int = 0
    dead: int = 0
    dead_bytes: int = 0
    buried: int = 0  # since the process started
    dropped: int = 0  # the same

    @property
    def size(self) -> int:
        return self.waiting_bytes + self.dead_bytes


class Taken(msgspec.Struct, frozen=True):
    """The request that is next."""

    number: int
    request: Request


class Shelf:
    def __init__(self, id: str, settings: Webhooks, totals: Counts) -> None:
        self.id = id
        self.counts = Counts()
        self._settings = settings
        self._totals = totals  # of all shelves
        self._next_number = 1
        self._requests = 0
        self._first = {WAITING: 0, REQUEST: 0, DEAD: 0}  # no smaller number is there

    def load(self, pages: Pages) -> Iterator[Notification]:
        """Counts what is there, and gives all notifications in it, which the caller lets go one by one."""
        for key, notification in self._waiting(pages):
            self._found(key)
            self._wait(1, len(notification.content))
            yield notification
        for key, value in self._scan(pages, REQUEST):
            request = decode_request(value)
            self._found(key)
            self._requests += 1
            self._wait(len(request.notifications), request.size)
            yield from request.notifications
        for key, value in self._scan(pages, DEAD):
            request = decode_dead_letter(value).request
            self._found(key)
            self._die(len(request.notifications), request.size)
            yield from request.notifications

    # The way of a notification

    def append(self, pages: Pages, notification: Notification) -> None:
        pages.put(self._key(WAITING), encode(notification))
        self._wait(1, len(notification.content))

    def take(self, pages: Pages) -> Taken | None:
        """The first request that is there, or one that is made of what waits."""
        if self._requests:
            key, value = next(self._scan(pages, REQUEST))
            return Taken(number_in(key), decode_request(value))
        if not self.counts.waiting:
            return None
        most = self._settings.batch_notifications_max + 1
        together = next(iter(self._in_requests(islice(self._waiting(pages), most))))
        for key, notification in together:
            self._take_off(pages, key, notification)
        request = made_request(self.id, [notification for _, notification in together])
        return Taken(self._put_request(pages, request), request)

    def settle(self, pages: Pages, number: int) -> Request | None:
        """It has arrived. Nothing where the endpoint was removed meanwhile."""
        key = key_below(REQUEST, self.id, number)
        value = pages.get(key)
        if value is None:
            return None
        request = decode_request(value)
        pages.delete(key)
        self._requests -= 1
        if not self._requests:
            self._first[REQUEST] = self._next_number
        self._wait(-len(request.notifications), -request.size)
        return request

    # Dead letters

    def bury(self, pages: Pages, number: int, attempts: int, reason: str, now_s: float) -> None:
        request = self.settle(pages, number)
        if request is not None:
            self._put_dead(pages, DeadLetter(now_s, reason, attempts, request))

    def bury_waiting(self, pages: Pages, before_s: float, reason: str, now_s: float) -> None:
        """Whatever waits and came before that, requests too."""
        for key, value in self._scan(pages, REQUEST):
            if decode_request(value).notifications[0].received_s < before_s:
                self.bury(pages, number_in(key), 0, reason, now_s)
        old = []
        for key, notification in self._waiting(pages):
            if notification.received_s >= before_s:
                break
            old.append((key, notification))
        self._bury_all(pages, old, reason, now_s)

    def trim(self, pages: Pages, now_s: float) -> None:
        """The oldest that are too many are dead letters."""
        notifications = self.counts.waiting - self._settings.queue_notifications_max
        size = self.counts.waiting_bytes - self._settings.queue_bytes_max
        if notifications > 0 or size > 0:
            self._bury_all(pages, self._oldest(pages, notifications, size), FULL, now_s)

    def replay(self, pages: Pages, wanted: set[str] | None) -> tuple[int, int]:
        """Dead letters are requests again; how many, and how many notifications in them."""
        requests = notifications = 0
        for key, value in self._scan(pages, DEAD):
            request = decode_dead_letter(value).request
            if wanted is None or request.id in wanted:
                self._take_dead(pages, key, request)
                self._put_request(pages, request)
                requests += 1
                notifications += len(request.notifications)
        return requests, notifications

    def dead_letters(self, pages: Pages, most: int) -> list[DeadLetter]:
        return [decode_dead_letter(value) for _, value in islice(self._scan(pages, DEAD), most)]

    # Room

    def drop(self, pages: Pages, size: int) -> None:
        """The oldest, at least so many bytes if they are there, dead letters first."""
        size -= self._drop_dead(pages, 0, size)
        oldest = self._oldest(pages, 0, size)
        for key, notification in oldest:
            self._take_off(pages, key, notification)
        self._drop(len(oldest))

    def remove(self, pages: Pages) -> None:
        for prefix in (WAITING, REQUEST, DEAD):
            for key, _ in self._scan(pages, prefix):
                pages.delete(key)
        self._wait(-self.counts.waiting, -self.counts.waiting_bytes)
        self._die(-self.counts.dead, -self.counts.dead_bytes)

    # Details

    def _found(self, key: bytes) -> None:
        self._next_number = max(self._next_number, number_in(key) + 1)

    def _key(self, prefix: bytes) -> bytes:
        self._next_number += 1
        return key_below(prefix, self.id, self._next_number - 1)

    def _scan(self, pages: Pages, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return pages.scan(all_below(prefix, self.id), key_below(prefix, self.id, self._first[prefix]))

    def _wait(self, notifications: int, size: int) -> None:
        for counts in (self.counts, self._totals):
            counts.waiting += notifications
            counts.waiting_bytes += size

    def _die(self, notifications: int, size: int) -> None:
        for counts in (self.counts, self._totals):
            counts.dead += notifications
            counts.dead_bytes += size

    def _drop(self, notifications: int) -> None:
        for counts in (self.counts, self._totals):
            counts.dropped += notifications

    def _waiting(self, pages: Pages) -> Iterator[tuple[bytes, Notification]]:
        return ((key, decode_notification(value)) for key, value in self._scan(pages, WAITING))

    def _in_requests(self, waiting: Iterable[tuple[bytes, Notification]]) -> Iterable[list[tuple[bytes, Notification]]]:
        return in_requests(waiting, self._settings.batch_notifications_max, self._settings.batch_bytes_max)

    def _oldest(self, pages: Pages, notifications: int, size: int) -> list[tuple[bytes, Notification]]:
        oldest = []
        waiting = self._waiting(pages)
        while (notifications > 0 or size > 0) and (one := next(waiting, None)) is not None:
            oldest.append(one)
            notifications -= 1
            size -= len(one[1].content)
        return oldest

    def _bury_all(self, pages: Pages, waiting: list[tuple[bytes, Notification]], reason: str, now_s: float) -> None:
        for together in self._in_requests(waiting):
            for key, notification in together:
                self._take_off(pages, key, notification)
            request = made_request(self.id, [notification for _, notification in together])
            self._put_dead(pages, DeadLetter(now_s, reason, 0, request))

    def _take_off(self, pages: Pages, key: bytes, notification: Notification) -> None:
        """The first that waits, always: they leave in the order in which they came."""
        pages.delete(key)
        self._first[WAITING] = number_in(key) + 1
        self._wait(-1, -len(notification.content))

    def _put_request(self, pages: Pages, request: Request) -> int:
        key = self._key(REQUEST)
        pages.put(key, encode(request))
        self._requests += 1
        self._wait(len(request.notifications), request.size)
        return number_in(key)

    def _put_dead(self, pages: Pages, letter: DeadLetter) -> None:
        request = letter.request
        pages.put(self._key(DEAD), encode(letter))
        self._die(len(request.notifications), request.size)
        for counts in (self.counts, self._totals):
            counts.buried += len(request.notifications)
        self._drop_dead(pages, self.counts.dead - self._settings.dead_letters_max, 0)

    def _drop_dead(self, pages: Pages, notifications: int, size: int) -> int:
        """At least so many, if they are there; how many bytes it were."""
        dropped = 0
        if notifications > 0 or size > 0:
            for key, value in self._scan(pages, DEAD):
                request = decode_dead_letter(value).request
                self._take_dead(pages, key, request)
                self._first[DEAD] = number_in(key) + 1
                self._drop(len(request.notifications))
                dropped += request.size
                notifications -= len(request.notifications)
                if notifications <= 0 and dropped >= size:
                    break
        return dropped

    def _take_dead(self, pages: Pages, key: bytes, request: Request) -> None:
        pages.delete(key)
        self._die(-len(request.notifications), -request.size)
