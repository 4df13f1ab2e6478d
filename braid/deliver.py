"""Where the notifications of a subscription go, when not to a connection of its subscriber: its `deliver`.

A subscription with an address is *addressed*: a webhook, or a topic of Kafka. Whoever takes its notifications there
keeps them on disk until they have arrived, so nobody need be connected. Its id says that it is, because exit points,
which never see a record, wait for its connection point when that has crashed. What happens then is in
`docs/webhooks.md` and `docs/kafka.md`.
"""

import base64
import binascii
import re
import secrets
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, UnsetType

from braid import problems
from braid.instants import format_instant

URL_LENGTH_MAX = 2048
KEY_LENGTH_MAX = 256
SECRET_PREFIX = "whsec_"
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64
SECRET_BYTES_MADE = 32
ROTATION_S = 86_400.0  # for so long a secret that was replaced signs too

_PLAIN_PREFIX, _ADDRESSED_PREFIX = "s-", "a-"  # of ids

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")

_URL = Annotated[str, msgspec.Meta(description="http or https; where notifications are posted to")]
_SECRET = Annotated[str, msgspec.Meta(description="`whsec_` and base64 of 24 to 64 bytes; null makes one up")]


class WebhookGiven(msgspec.Struct, forbid_unknown_fields=True):
    """A webhook as a client writes it; in a `PATCH`, what is absent stays as it is."""

    url: _URL | UnsetType = UNSET
    secret: _SECRET | UnsetType | None = UNSET


class TopicGiven(msgspec.Struct, forbid_unknown_fields=True):
    """A topic of Kafka as a client writes it; in a `PATCH`, what is absent stays as it is."""

    topic: Annotated[str, msgspec.Meta(description="one that `kafka.sink_topics` allows")] | UnsetType = UNSET
    key: Annotated[str, msgspec.Meta(description="the attribute that is the key of its records")] | UnsetType = UNSET


class DeliverGiven(msgspec.Struct, forbid_unknown_fields=True):
    """Where to; one of them."""

    webhook: WebhookGiven | UnsetType = UNSET
    kafka: TopicGiven | UnsetType = UNSET


class Webhook(msgspec.Struct, array_like=True, frozen=True, tag="webhook"):
    """A checked webhook, as it is stored with its subscription."""

    url: str
    secret: str
    secret_before: str = ""  # it signs as well, until then
    secret_before_until_s: float = 0.0

    def __repr__(self) -> str:
        return f"Webhook({self.url!r})"  # secrets do not belong into logs

    def public(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"url": self.url}
        if self.secret_before:
            shown["secret_before_until"] = format_instant(self.secret_before_until_s)
        return {"webhook": shown}


class Topic(msgspec.Struct, array_like=True, frozen=True, tag="kafka"):
    """A checked topic of Kafka, as it is stored with its subscription."""

    topic: str
    key: str = ""  # the attribute that is the key; empty: records have none

    def public(self) -> dict[str, Any]:
        return {"kafka": {"topic": self.topic, "key": self.key} if self.key else {"topic": self.topic}}


Deliver = Webhook | Topic


def id_prefix(deliver: Deliver | None) -> str:
    return _PLAIN_PREFIX if deliver is None else _ADDRESSED_PREFIX


def is_addressed(id: str) -> bool:
    """Whether the subscription of this id is delivered to an address, whoever is connected."""
    return id.startswith(_ADDRESSED_PREFIX)


def check_deliver(given: DeliverGiven) -> Deliver:
    """The address of a new subscription, or the `Problem` that names the wrong field."""
    if (given.webhook is UNSET) == (given.kafka is UNSET):
        raise problems.invalid("$.deliver", "expected where to deliver to, one of them", expected=["webhook", "kafka"])
    if given.webhook is not UNSET:
        if given.webhook.url is UNSET:
            raise problems.invalid("$.deliver.webhook.url", "expected the address to post to")
        return Webhook(_checked_url(given.webhook.url), _checked_secret(given.webhook.secret))
    assert given.kafka is not UNSET
    if given.kafka.topic is UNSET:
        raise problems.invalid("$.deliver.kafka.topic", "expected the topic to write to")
    return Topic(_checked_topic(given.kafka.topic), "" if given.kafka.key is UNSET else _checked_key(given.kafka.key))


def changed_deliver(before: Deliver | None, given: DeliverGiven, now_s: float) -> Deliver:
    """Another place of the same kind."""
    if before is None:
        detail = "this subscription is delivered over connections; one that is delivered to an address is another one"
        raise problems.invalid("$.deliver", detail)
    kind = "webhook" if isinstance(before, Webhook) else "kafka"
    if (given.kafka if kind == "webhook" else given.webhook) is not UNSET:
        raise problems.invalid("$.deliver", f"a subscription that is delivered by '{kind}' stays so; make another one")
    if isinstance(before, Webhook):
        return _changed_webhook(before, given.webhook, now_s)
    return _changed_topic(before, given.kafka)


def _changed_webhook(before: Webhook, given: WebhookGiven | UnsetType, now_s: float) -> Webhook:
    """Another url, or another secret beside which the one before goes on signing for a while."""
    if given is UNSET or (given.url is UNSET and given.secret is UNSET):
        raise problems.invalid("$.deliver", "expected at least one of 'webhook.url', 'webhook.secret'")
    url = before.url if given.url is UNSET else _checked_url(given.url)
    if given.secret is UNSET:
        return msgspec.structs.replace(before, url=url)
    return Webhook(url, _checked_secret(given.secret), before.secret, now_s + ROTATION_S)


def _changed_topic(before: Topic, given: TopicGiven | UnsetType) -> Topic:
    if given is UNSET or (given.topic is UNSET and given.key is UNSET):
        raise problems.invalid("$.deliver", "expected at least one of 'kafka.topic', 'kafka.key'")
    return Topic(
        before.topic if given.topic is UNSET else _checked_topic(given.topic),
        before.key if given.key is UNSET else _checked_key(given.key),
    )


def made_secret(given: DeliverGiven | UnsetType | None, deliver: Deliver | None, *, is_new: bool) -> str:
    """The secret that was made up for this call, which its answer shows, and no other; empty when it was given."""
    if not isinstance(given, DeliverGiven) or given.webhook is UNSET or not isinstance(deliver, Webhook):
        return ""
    was_made = given.webhook.secret is None or (is_new and given.webhook.secret is UNSET)
    return deliver.secret if was_made else ""


def secret_bytes(secret: str) -> bytes:
    """The key that a checked secret stands for."""
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)


def _checked_secret(given: str | UnsetType | None) -> str:
    field = "$.deliver.webhook.secret"
    if given is None or given is UNSET:
        return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES_MADE)).decode()
    if not given.startswith(SECRET_PREFIX):
        raise problems.invalid(field, f"a secret begins with '{SECRET_PREFIX}'; leave it out to have one made up")
    try:
        size = len(secret_bytes(given))
    except (binascii.Error, ValueError):
        raise problems.invalid(field, f"expected base64 behind '{SECRET_PREFIX}'") from None
    if not SECRET_BYTES_MIN <= size <= SECRET_BYTES_MAX:
        detail = f"expected {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes behind '{SECRET_PREFIX}', these are {size}"
        raise problems.invalid(field, detail)
    return given


def _checked_url(given: str) -> str:
    field = "$.deliver.webhook.url"
    if len(given) > URL_LENGTH_MAX:
        raise problems.invalid(field, f"at most {URL_LENGTH_MAX} characters, these are {len(given)}")
    if not given.isascii() or not given.isprintable() or " " in given:
        raise problems.invalid(field, "expected ASCII without spaces; write other characters as %XX, a host as xn--…")
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError as error:
        raise problems.invalid(field, f"not an address: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise problems.invalid(field, "expected an address that begins with https:// or http://")
    if not parts.hostname or port == 0:
        raise problems.invalid(field, "expected an address with a host, such as https://example.com/hook")
    if parts.username is not None or parts.password is not None:
        raise problems.invalid(field, "an address with a password is shown to others; requests are signed instead")
    if parts.fragment or given.endswith("#"):
        raise problems.invalid(field, "what stands behind '#' is never sent; leave it out")
    return given


def _checked_topic(given: str) -> str:
    if not _TOPIC.fullmatch(given) or given in (".", ".."):
        detail = "expected the name of a topic: letters, digits, dots, dashes and underscores, at most 249"
        raise problems.invalid("$.deliver.kafka.topic", detail)
    return given


def _checked_key(given: str) -> str:
    if len(given) > KEY_LENGTH_MAX:
        raise problems.invalid("$.deliver.kafka.key", f"at most {KEY_LENGTH_MAX} characters, these are {len(given)}")
    return given
