"""What a storage does, whichever way it lies on disk.

All calls block, and come from one thread at a time. Every call is given the time. A subscription is stored under lists,
and finds the publications under the same lists; with `Reach.LINE` also those above and below them.
"""

from collections.abc import Sequence
from typing import Protocol

from services.matcher.storage.reading import WasGiven
from services.matcher.storage.records import (
    Cursor,
    Damage,
    Due,
    Filed,
    Kind,
    Matched,
    Piece,
    Reach,
    StoredPublication,
    StoredSubscription,
    Usage,
)
from services.matcher.storage.upkeep import OnExpire


class Storage(Protocol):
    damages: list[Damage]  # found since it was opened

    # The paper's operations

    def subscribe(
        self,
        subscription: StoredSubscription,
        lists: Sequence[bytes],
        now_s: float,
        *,
        reach: Reach = Reach.SELF,
        was_given: WasGiven | None = None,
    ) -> list[StoredPublication]:
        """Stores it, and returns the stored publications that lie in its window. Whatever is published afterwards finds
        it, so nothing is missed or doubled between the two. A distinct one is not given what an earlier or overlapping
        one of the same subscriber was given; `was_given` says whether that one's content accepts a publication.
        """

    def publish(
        self,
        publication: StoredPublication,
        lists: Sequence[bytes],
        now_s: float,
        *,
        reach: Reach = Reach.SELF,
        previous_from_s: float | None = None,
        previous_limit: int | None = None,
    ) -> Matched:
        """Stores it, and returns the subscriptions it concerns; with `previous_from_s` also the publications that were
        made since then (self-join).
        """

    def get_data(
        self,
        lists: Sequence[bytes],
        now_s: float,
        *,
        from_s: float = ...,
        until_s: float = ...,
        reach: Reach = Reach.SELF,
        limit: int | None = None,
        nodes_max: int | None = None,
    ) -> list[StoredPublication]:
        """Raises `TooBroadError` where it would have to look into more lists below than `nodes_max`."""

    def get_subscribers(
        self, lists: Sequence[bytes], published_s: float, now_s: float, *, reach: Reach = Reach.SELF
    ) -> list[StoredSubscription]: ...

    def get_data_and_subscribers(
        self,
        lists: Sequence[bytes],
        published_s: float,
        now_s: float,
        *,
        from_s: float = ...,
        reach: Reach = Reach.SELF,
        limit: int | None = None,
    ) -> Matched: ...

    def due(self, now_s: float) -> list[Due]:
        """The answers of repeated queries whose time has come; none where publications find their subscriptions."""

    # Changes

    def unsubscribe(self, ids: Sequence[str], now_s: float) -> int:
        """How many of them were there. A distinct one is only ended: what it was given is still known for a while."""

    def forget(self, ids: Sequence[str], now_s: float) -> int:
        """How many of them were there; nothing of them is any more."""

    def replace(self, subscription: StoredSubscription, lists: Sequence[bytes], now_s: float) -> None:
        """In place of the one with the same id: a crash leaves the old one or the new one."""

    # Scaling and recovery

    def put(self, filed: Sequence[Filed], now_s: float) -> int:
        """Many at once, without looking for matches; those that have expired are left out. How many publications are
        not stored, because the window they belong to is being given up.
        """

    def remove_publications(self, filed: Sequence[Filed]) -> int: ...

    def read_piece(
        self, kind: Kind, now_s: float, after: Cursor | None, limit: int, lists: Sequence[bytes] | None = None
    ) -> Piece:
        """Up to `limit` of all unexpired records, or of those in the lists, and where to go on. What is put in the
        meantime may or may not be among them; what is moved within the storage may come twice.
        """

    def remember(self, filed: Sequence[Filed], now_s: float) -> None:
        """Distinct subscriptions that have ended somewhere else, as if they had ended here."""

    def ended(self, now_s: float) -> list[StoredSubscription]:
        """All distinct subscriptions that have ended and are remembered; reads all there are."""

    # Upkeep

    def listen(self, on_expire: OnExpire, kinds: int = Kind.SUBSCRIPTION) -> None:
        """Tells of records when their space is reclaimed. Reading publications for it costs what it costs."""

    def maintain(self, now_s: float, entries_max: int = 500) -> bool:
        """Drops what has passed, keeps to the bound of the disk, rewrites what is mostly dead: a slice of it.
        Returns whether there is more to do.
        """

    def sync(self) -> None:
        """Brings to the disk what was written."""

    def usage(self) -> Usage: ...

    def close(self) -> None: ...
