"""What the session wants done. Effects of one call are performed in their order."""

from typing import Literal

import msgspec

from braid.client.errors import BraidError
from braid.client.frames import Notification


class Send(msgspec.Struct, frozen=True):
    frame: bytes


class Answered(msgspec.Struct, frozen=True):
    """The call is done; what it returns is the subscription's id, the publications' ids, or nothing."""

    ref: int
    result: str | list[str]


class CallFailed(msgspec.Struct, frozen=True):
    """The call failed; whoever waits for it is told."""

    ref: int
    error: BraidError


class Deliver(msgspec.Struct, frozen=True):
    stream: int
    notification: Notification


class StreamFailed(msgspec.Struct, frozen=True):
    """The subscription is gone and could not be made again: the stream ends with this error."""

    stream: int
    error: BraidError


class DropConnection(msgspec.Struct, frozen=True):
    """This connection is of no use; make another one."""

    reason: str


class Report(msgspec.Struct, frozen=True):
    """For the log and the state callback."""

    kind: Literal["gap", "resubscribing", "error"]
    detail: str


Effect = Send | Answered | CallFailed | Deliver | StreamFailed | DropConnection | Report
