"""What lies on disk for webhooks: notifications that wait, requests, dead letters; and their keys."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import msgspec

from services.connpoint.delivery import payload_of
from services.connpoint.past_order import Key

ENDPOINT, WAITING, REQUEST, DEAD, ARRIVED = b"e/", b"n/", b"r/", b"d/", b"t/"
_DIGITS = 16  # of a number in a key


class Notification(msgspec.Struct, array_like=True, frozen=True, gc=False):
    received_s: float
    key: Key
    content: bytes  # the publication, as it is delivered


class Request(msgspec.Struct, array_like=True, frozen=True):
    """Notifications that are posted together, whenever that is."""

    id: str
    notifications: list[Notification]

    @property
    def size(self) -> int:
        return sum([len(notification.content) for notification in self.notifications])


class DeadLetter(msgspec.Struct, array_like=True, frozen=True):
    at_s: float
    reason: str
    attempts: int
    request: Request


class Seen(msgspec.Struct, array_like=True, frozen=True):
    """What has arrived: should it be sent here again, it is not posted again."""

    id: str
    keys: list[Key]


encode = msgspec.msgpack.Encoder().encode
decode_notification = msgspec.msgpack.Decoder(Notification).decode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_dead_letter = msgspec.msgpack.Decoder(DeadLetter).decode
decode_seen = msgspec.msgpack.Decoder(Seen).decode


def key_below(prefix: bytes, id: str, number: int) -> bytes:
    return b"%b%b/%0*x" % (prefix, id.encode(), _DIGITS, number)


def all_below(prefix: bytes, id: str) -> bytes:
    return b"%b%b/" % (prefix, id.encode())


def arrived_key(at_s: float, id: str, number: int) -> bytes:
    return b"%b%012x/%b/%0*x" % (ARRIVED, int(at_s * 1000), id.encode(), _DIGITS, number)


def number_in(key: bytes) -> int:
    return int(key[-_DIGITS:], 16)


def made_request(id: str, notifications: list[Notification]) -> Request:
    """The same notifications of the same subscription always make the same request."""
    named = blake2b(id.encode(), digest_size=12)
    for origin, sequence, place in (notification.key for notification in notifications):
        named.update(b"\n%b %d %d" % (origin.encode(), sequence, place))
    return Request(f"msg_{named.hexdigest()}", notifications)


def body_of(request: Request, id: str, subscriber: str) -> bytes:
    """Like a `notify` frame; contents are spliced in as they are."""
    payloads = [payload_of([id], notification.content) for notification in request.notifications]
    whose = msgspec.json.encode(subscriber)
    return b'{"op":"notify","subscriber":%b,"notifications":[%b]}' % (whose, b",".join(payloads))


def in_requests(
    waiting: Iterable[tuple[bytes, Notification]], notifications_max: int, bytes_max: int
) -> Iterator[list[tuple[bytes, Notification]]]:
    """With their keys, as many as may go together; one that is larger than that goes alone."""
    together: list[tuple[bytes, Notification]] = []
    size = 0
    for one in waiting:
        size += len(one[1].content)
        if together and (len(together) >= notifications_max or size > bytes_max):
            yield together
            together, size = [], len(one[1].content)
        together.append(one)
    if together:
        yield together
