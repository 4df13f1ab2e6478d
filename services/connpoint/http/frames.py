"""The frames of `WS /v1/ws`: what a client may send, and what it gets back.

One decoder reads every frame straight into its structure; `op` says which. Each request carries a `ref` that its
answer repeats. Answers come in the order of the requests.

| request                          | answer                                  |
|----------------------------------|-----------------------------------------|
| `subscribe` ref, subscription    | `subscribed` ref, id, subscriber, past  |
| `unsubscribe` ref, id            | `unsubscribed` ref                      |
| `publish` ref, publications      | `published` ref, ids                    |
| `ping` ref                       | `pong` ref                              |
| anything else                    | `error` ref (or null), problem          |

Pushed without being asked: `gap` (detail) and `notify` (event, notifications).
"""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from braid import problems
from braid.content import DECODE_ERRORS, Content
from braid.problems import Problem
from braid.subscription import Subscription
from services.connpoint.http.decoding import check_not_huge, explain, moved, split_index
from services.connpoint.http.past_shown import PastShown

# Integers that survive JavaScript, and strings short enough to be repeated without a thought.
Ref = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | Annotated[str, msgspec.Meta(max_length=256)]


class _Request(msgspec.Struct, tag_field="op", forbid_unknown_fields=True):
    ref: Ref


class Subscribe(_Request, tag="subscribe"):
    subscription: Subscription


class Unsubscribe(_Request, tag="unsubscribe"):
    id: str


class Publish(_Request, tag="publish"):
    publications: list[Content]


class Ping(_Request, tag="ping"):
    pass


AnyRequest = Subscribe | Unsubscribe | Publish | Ping
OPS = ("subscribe", "unsubscribe", "publish", "ping")


class _Answer(msgspec.Struct, tag_field="op", gc=False):
    ref: Ref


class Subscribed(_Answer, tag="subscribed"):
    id: str
    subscriber: str
    event: str  # where to resume when the connection breaks before the first notification
    past: PastShown | msgspec.UnsetType = msgspec.UNSET


class Unsubscribed(_Answer, tag="unsubscribed"):
    pass


class Published(_Answer, tag="published"):
    ids: list[str]


class Pong(_Answer, tag="pong"):
    pass


class Error(msgspec.Struct, tag_field="op", tag="error"):
    ref: Ref | None
    problem: dict[str, Any]


class Gap(msgspec.Struct, tag_field="op", tag="gap"):
    """Notifications are missing before the next `notify`; `detail` says why."""

    subscriber: str
    detail: str


class _Counted(msgspec.Struct):
    publications: list[msgspec.Raw] = []


class _RefOnly(msgspec.Struct):
    ref: Ref


_decode_request: Callable[[str], AnyRequest] = msgspec.json.Decoder(AnyRequest).decode
_decode_ref = msgspec.json.Decoder(_RefOnly).decode
_encode = msgspec.json.Encoder().encode


def read_request(text: str, batch_max: int) -> AnyRequest:
    """Raises the `Problem` of a frame that cannot be used."""
    check_not_huge(text, batch_max, _Counted, "$.publications", "the frame")
    try:
        return _decode_request(text)
    except DECODE_ERRORS as error:
        problem = explain(error, text, "the frame")
        if problem.members.get("field") == "$.op":
            problem = moved(problem, "$.op", expected=list(OPS))
        raise problem from None


def ref_of(text: str) -> Ref | None:
    """The `ref` of a frame that could not be read as a whole, if there is a good one."""
    try:
        return _decode_ref(text).ref
    except DECODE_ERRORS:
        return None


def encode_answer(answer: _Answer | Gap) -> str:
    return _encode(answer).decode()


def encode_error(ref: Ref | None, problem: Problem) -> str:
    return _encode(Error(ref, problem.document())).decode()


def binary_frame() -> Problem:
    return problems.malformed("frames are JSON text; this one is binary")


def in_publications(problem: Problem) -> Problem:
    """A problem that was found behind the door, in the words of a `publish`."""
    field = problem.members.get("field", "")
    if not field.startswith("$") or field.startswith("$.publications"):
        return problem
    index, path = split_index(field)
    return moved(problem, f"$.publications[{index}]{path}")


def in_subscription(problem: Problem) -> Problem:
    """The same for a `subscribe`."""
    field = problem.members.get("field", "")
    return moved(problem, f"$.subscription{field[1:]}") if field.startswith("$") else problem
