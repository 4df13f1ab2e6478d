"""The frames of the WebSocket, and the publications and notifications in them.

| sent                                                      | answered                              |
|-----------------------------------------------------------|---------------------------------------|
| `{"op":"subscribe","ref":1,"subscription":{…}}`           | `{"op":"subscribed","ref":1,"id":"…"}`  |
| `{"op":"publish","ref":2,"publications":[…]}`             | `{"op":"published","ref":2,"ids":[…]}`  |
| `{"op":"unsubscribe","ref":3,"id":"…"}`                   | `{"op":"unsubscribed","ref":3}`       |
| `{"op":"ping","ref":4}`                                   | `{"op":"pong","ref":4}`               |

Any of them may be answered `{"op":"error","ref":…,"problem":{…}}`. Pushed: `notify` and, after a resume, `gap`.
Fields that this client does not know are skipped, and so are operations, so that a newer server can be used.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

Value = str | bool | int | float


class Publication(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A publication as its publisher writes it and its subscribers read it.

    Publishing without an `id` makes one. Within a subscriber's de-duplication window one id is one publication.
    """

    id: str = ""
    topic: str = ""
    attributes: dict[str, Value] = {}
    text: str = ""
    zone: dict[str, Any] | None = None
    object: str = ""
    expires: str | int | float | None = None
    data: Any = None


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What of the past a subscription was given when it was made: so many publications.

    Not `complete` when there were more than the cluster gives at once, and the oldest were left out.
    """

    publications: int
    complete: bool


class Notification(msgspec.Struct, kw_only=True):
    """One publication, and the ids of all subscriptions of this subscriber that it matched."""

    subscriptions: list[str]
    publication: Publication


class _Frame(msgspec.Struct, tag_field="op"):
    pass


class Subscribed(_Frame, tag="subscribed"):
    ref: int
    id: str
    event: str = ""  # where to resume when the connection breaks before the first notification
    past: Past | None = None


class Published(_Frame, tag="published"):
    ref: int
    ids: list[str]


class Unsubscribed(_Frame, tag="unsubscribed"):
    ref: int


class Pong(_Frame, tag="pong"):
    ref: int | None = None


class Error(_Frame, tag="error"):
    problem: dict[str, Any]
    ref: int | None = None


class Notify(_Frame, tag="notify"):
    notifications: list[Notification]
    event: str = ""  # resumes after the last notification of this frame


class Gap(_Frame, tag="gap"):
    detail: str = ""


class Unknown(msgspec.Struct):
    """An operation of a newer server."""

    op: str


Frame: TypeAlias = Subscribed | Published | Unsubscribed | Pong | Error | Notify | Gap | Unknown

_KNOWN = {"subscribed", "published", "unsubscribed", "pong", "error", "notify", "gap"}
_decode_known = msgspec.json.Decoder(Subscribed | Published | Unsubscribed | Pong | Error | Notify | Gap).decode
_decode_any = msgspec.json.Decoder(Unknown).decode
_encode = msgspec.json.Encoder().encode


def decode_frame(message: bytes) -> Frame:
    """Raises `msgspec.DecodeError` for what is no frame at all."""
    try:
        frame: Frame = _decode_known(message)
    except msgspec.ValidationError:
        unknown = _decode_any(message)
        if unknown.op in _KNOWN:
            raise
        return unknown
    return frame


def encode_subscribe(ref: int, subscription: dict[str, Any]) -> bytes:
    return _encode({"op": "subscribe", "ref": ref, "subscription": subscription})


def encode_publish(ref: int, publications: Sequence[Publication | dict[str, Any]]) -> bytes:
    return _encode({"op": "publish", "ref": ref, "publications": publications})


def encode_unsubscribe(ref: int, id: str) -> bytes:
    return _encode({"op": "unsubscribe", "ref": ref, "id": id})


def encode_ping(ref: int) -> bytes:
    return _encode({"op": "ping", "ref": ref})
