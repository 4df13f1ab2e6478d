"""Subscriptions that are delivered to an address: made, looked at, repaired. What is promised: `docs/webhooks.md`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from braid.client.errors import BraidError
from braid.client.frames import Past
from braid.client.listing import list_subscriptions
from braid.client.parts import Instant, subscription_parts
from braid.client.rest import Rest

T = TypeVar("T")

_OWN = ("id", "subscriber", "connpoint", "past", "delivery")


class WebhookDelivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How it stands. `unknown` when the connection point that delivers it cannot be asked; `detail` says why."""

    state: str  # idle, sending, pausing, disabled, unknown
    detail: str = ""
    waiting: int = 0  # notifications that have not arrived
    waiting_bytes: int = 0
    attempts: int = 0  # of the request that is next
    failures: int = 0  # since the last success
    next_attempt: datetime | None = None
    last_success: datetime | None = None
    last_failure: datetime | None = None
    last_error: str = ""
    delivered: int = 0
    dead_letters: int = 0  # notifications in them
    dropped: int = 0


class Webhook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subscription with a webhook."""

    id: str
    subscriber: str
    connpoint: str
    url: str
    secret: str = ""  # only where this call made it up; nobody can ask for it later
    past: Past | None = None  # only where it was made with a beginning in the past
    delivery: WebhookDelivery | None = None  # only where one was asked for
    secret_before_until: datetime | None = None  # until then the secret before this one signs as well
    wants: dict[str, Any]  # the other parts of the subscription, as the cluster shows them

    def __repr__(self) -> str:
        return f"Webhook({self.id!r}, {self.url!r})"  # secrets do not belong into logs


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was given up."""

    id: str  # its `webhook-id`
    at: datetime
    reason: str
    attempts: int
    publications: list[str]  # their ids


class Replayed(msgspec.Struct, frozen=True):
    requests: int
    notifications: int


class _Listed(msgspec.Struct):
    dead_letters: list[DeadLetter]


class Webhooks:
    """`client.webhooks`: nobody has to be connected for these, so a client only makes them and asks about them.

    async with braid.Client("http://127.0.0.1:8080", subscriber="alarms") as client:
        made = await client.webhooks.subscribe("https://example.com/hooks/braid", "value > 40")
        print(made.id, made.secret)
    """

    def __init__(self, rest: Rest, subscriber: str) -> None:
        """`subscriber` is empty where the client has no name; the cluster makes one up for each subscription then."""
        self._rest = rest
        self._subscriber = subscriber

    async def subscribe(
        self,
        url: str,
        filter: str | Mapping[str, Any] = "",
        *,
        secret: str | None = None,
        until: Instant | None = None,
        from_: Instant | None = None,
        words: Sequence[str] = (),
        topic: str = "",
        topic_scope: str = "",
        zone: Mapping[str, Any] | None = None,
    ) -> Webhook:
        """From now on, or from `from_`, what matches is posted to `url`. It stays until `remove`, or until `until`.

        Without a `secret` one is made up. It is in what is returned, and is never shown again.
        """
        webhook = {"url": url} if secret is None else {"url": url, "secret": secret}
        body = subscription_parts(
            filter, words=words, topic=topic, topic_scope=topic_scope, zone=zone, from_=from_, until=until
        )
        body["deliver"] = {"webhook": webhook}
        if self._subscriber:
            body["subscriber"] = self._subscriber
        return _webhook(await self._rest.post("/v1/subscriptions", body))

    async def all(self) -> list[Webhook]:
        """Those of this subscriber, or all when the client has no name; without their `delivery`."""
        found = await list_subscriptions(self._rest, self._subscriber)
        return [_webhook(shown) for shown in found if "webhook" in shown.get("deliver", ())]

    async def find(self, id: str) -> Webhook:
        """One of them, and how its delivery stands."""
        return _webhook(await self._rest.get(_path(id)))

    async def change(self, id: str, *, url: str | None = None, secret: str | None = None) -> Webhook:
        """Another address, another secret, or both. What waits is tried at once.

        An empty `secret` has one made up. The one before signs as well for a day.
        """
        webhook: dict[str, str | None] = {} if url is None else {"url": url}
        if secret is not None:
            webhook["secret"] = secret or None
        return _webhook(await self._rest.patch(_path(id), {"deliver": {"webhook": webhook}}))

    async def remove(self, id: str) -> None:
        """It ends; what waits for it, and its dead letters, are forgotten."""
        await self._rest.delete(_path(id))

    async def dead_letters(self, id: str, limit: int = 100) -> list[DeadLetter]:
        """Requests that were given up, the oldest first; at most 1,000 can be asked for."""
        answer = await self._rest.get(f"{_path(id)}/dead-letters", {"limit": str(limit)})
        return _converted(answer, _Listed).dead_letters

    async def replay(self, id: str, letters: Sequence[str] | None = None) -> Replayed:
        """Tries dead letters once more, all of them or those with these ids; they keep their `webhook-id`."""
        body = {} if letters is None else {"ids": [*letters]}
        return _converted(await self._rest.post(f"{_path(id)}/dead-letters/replay", body), Replayed)


def _path(id: str) -> str:
    return f"/v1/subscriptions/{quote(id, safe='')}"


def _webhook(shown: Any) -> Webhook:
    if not isinstance(shown, dict):
        raise BraidError("the subscription is not as expected")
    try:
        address = shown["deliver"]["webhook"]
    except (KeyError, TypeError):
        how = "to a topic of Kafka" if "deliver" in shown else "over connections"
        raise BraidError(f"{shown.get('id')} has no webhook; it is delivered {how}") from None
    own = {name: shown[name] for name in _OWN if name in shown}
    wants = {name: value for name, value in shown.items() if name not in _OWN and name != "deliver"}
    return _converted({**own, **address, "wants": wants}, Webhook)


def _converted(answer: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise BraidError(f"the answer is not as expected: {error}") from None
