"""What stands behind the door: the calls that REST, WebSocket and SSE make of the connection point.

The HTTP modules know only this; the connection point's shell implements it.
"""

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from braid.anchor_map import AnchorMap
from braid.config import Settings
from braid.content import Content
from braid.messages import Hop
from braid.scaling import Ask, Progress, ScalingRecord
from braid.subscription import Subscription, SubscriptionPatch, SubscriptionRecord
from braid.topology import Configuration, Registration

EXPLAINED_IDS_MAX = 1_000  # ids in the answer to one explain call; the count is of all


class Item(msgspec.Struct, frozen=True, gc=False):
    """One notification in a subscriber's outbox, ready to be spliced into a frame."""

    number: int
    payload: bytes  # {"subscriptions":[…],"publication":{…}}


class Closed(msgspec.Struct, frozen=True):
    """Why the connection point ended an attachment."""

    reason: str  # "replaced", "slow", "unavailable", "stopping"
    detail: str


class MatchesExplained(msgspec.Struct, frozen=True):
    """Which subscriptions match a publication that is not published."""

    ids: list[str]  # sorted, up to `EXPLAINED_IDS_MAX`
    count: int  # of all that match
    explanation: bytes  # JSON of an `Explanation`; empty when no subscription was asked about


class Past(msgspec.Struct, frozen=True):
    """What of the past a subscription was given when it was made: it waits in the outbox before anything newer."""

    publications: int
    is_complete: bool  # else there are more than `delivery.past_notifications_max`, and the oldest were left out


class KeptPublication(msgspec.Struct, frozen=True):
    """A publication that matchers keep."""

    published_s: float
    content: bytes  # canonical JSON


class DeliveryState(msgspec.Struct, frozen=True, kw_only=True):
    """How a subscription with an address stands. Instants that are 0 were not, and are not due."""

    state: str  # "idle", "sending", "pausing", "disabled"
    waiting: int
    waiting_bytes: int
    attempts: int
    failures: int
    next_attempt_s: float
    last_success_s: float
    last_failure_s: float
    last_error: str
    delivered: int
    dead_letters: int
    dropped: int


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was given up."""

    id: str
    at_s: float
    reason: str
    attempts: int
    publications: list[str]  # ids


class Attachment(Protocol):
    """A live connection to one subscriber's outbox. A newer attachment of the same subscriber replaces it."""

    subscriber: str
    gap: str  # empty, or why notifications after the given Last-Event-ID are missing
    closed: Closed | None

    async def take(self, most: int) -> list[Item]:
        """Waits for notifications; an empty list means that the attachment was closed (see `closed`)."""

    def lost(self) -> int:
        """How many notifications were dropped for it since the last time this was asked (policy drop-oldest)."""

    def event_id(self, number: int) -> str:
        """The Last-Event-ID that resumes after this item."""

    def position(self) -> str:
        """The Last-Event-ID that resumes after what was taken so far, also when nothing was."""

    def detach(self) -> None:
        """The connection is gone; the outbox lingers."""


class Door(Protocol):
    name: str
    settings: Settings

    def not_ready(self) -> list[str]:
        """The reasons why this slice cannot serve now; empty when it can."""

    async def publish(self, publisher: str, contents: list[Content], *, wait: bool, trace: bool = False) -> list[str]:
        """Ids, once logged. With `wait` it waits for room (flow control), else raises `overloaded`.

        `contents` are decoded but unchecked; nothing of the batch is accepted when one of it is wrong. Calls of one
        publisher are accepted in the order they were made; a call that is cancelled while it waits is not accepted.
        """

    async def subscribe(
        self, given: Subscription, *, subscriber: str, temporary: bool
    ) -> tuple[SubscriptionRecord, Past | None]:
        """Returns when it is stored and routed to; raises `Problem`.

        Where it asks for the past, what it was given of it, which is in the outbox then; otherwise nothing.
        """

    async def change(self, id: str, patch: SubscriptionPatch) -> SubscriptionRecord: ...

    async def unsubscribe(self, id: str) -> None:
        """Raises `not_found` for an unknown id."""

    async def find(self, id: str) -> SubscriptionRecord:
        """Raises `not_found` for an unknown id. Asks the matchers, so it sees subscriptions of all homes."""

    def find_by_subscriber(self, subscriber: str) -> AsyncIterator[list[SubscriptionRecord]]:
        """All of one subscriber (all at all when empty), in pages."""

    async def delivery_of(self, id: str) -> DeliveryState:
        """Of a subscription with an address that is homed here; raises `not_found` for any other."""

    async def dead_letters_of(self, id: str, most: int) -> list[DeadLetter]:
        """The oldest first. Raises as `delivery_of`."""

    async def replay(self, id: str, letters: set[str] | None) -> tuple[int, int]:
        """These dead letters, or all, wait again; how many, and notifications in them. Raises as `delivery_of`."""

    async def find_publications(self, wanted: Subscription, limit: int) -> list[KeptPublication]:
        """The kept publications that match, the newest first, at most so many. Raises `Problem`.

        `wanted` is unchecked; its `from` and `until` bound when they were published.
        """

    async def explain(self, content: Content, subscription: str) -> MatchesExplained:
        """Publishes nothing. `content` is unchecked; no subscription is explained when it is empty.

        Raises `not_found` for an unknown subscription.
        """

    async def attach(self, subscriber: str, *, temporary: bool, last_event_id: str | None) -> Attachment:
        """Makes this connection the one of that subscriber, and its subscriptions homed here."""

    def trace_of(self, publication_id: str) -> list[Hop] | None:
        """The hops of a recently traced publication; None while unknown, an empty list while under way."""

    def slices(self) -> list[Registration]: ...

    def configuration(self) -> Configuration | None: ...

    async def scale(self, ask: Ask, map: AnchorMap | None = None) -> str:
        """The id of the scaling that has begun. Raises `Problem`: it cannot be done, or another one is under way.

        `map` is the one that the ask names, if it names one.
        """

    async def find_scaling(self, id: str) -> ScalingRecord:
        """Raises `not_found` for an unknown id, `unavailable` without ZooKeeper; so do the next two."""

    async def list_scalings(self) -> list[ScalingRecord]:
        """In any order."""

    async def progress_of(self, id: str) -> tuple[Progress, ...]:
        """How far each slice is, while the scaling runs."""
