"""What happens to an endpoint, and what it wants to be done."""

import msgspec

from braid.deliver import Webhook


class Tried(msgspec.Struct, frozen=True):
    """The request of an attempt."""

    number: int
    notifications: int
    oldest_s: float  # when the first of them came


# Events


class Arrived(msgspec.Struct, frozen=True):
    """Notifications are on disk."""


class NothingLeft(msgspec.Struct, frozen=True):
    """There was nothing to be posted."""


class Delivered(msgspec.Struct, frozen=True):
    """The receiver has the request."""

    tried: Tried


class Failed(msgspec.Struct, frozen=True):
    """It has not, or nobody knows."""

    tried: Tried
    reason: str
    is_refusal: bool = False  # trying again will hardly help
    retry_after_s: float = 0.0  # what the receiver asks for


class Gone(msgspec.Struct, frozen=True):
    """The receiver wants no more requests, neither this one."""

    tried: Tried


class DiskFailed(msgspec.Struct, frozen=True):
    """The next request could not be had."""


class Due(msgspec.Struct, frozen=True):
    """The pause is over."""


class Changed(msgspec.Struct, frozen=True):
    """The subscription has another address or secret."""

    webhook: Webhook


class Replayed(msgspec.Struct, frozen=True):
    """Dead letters wait again."""


class Ended(msgspec.Struct, frozen=True):
    """Nothing more will come. What waits is still posted."""


# Effects. The facts are written with each of those that write.


class Attempt(msgspec.Struct, frozen=True):
    """Take the next request and post it."""


class Wake(msgspec.Struct, frozen=True):
    """Tell `Due` then, unless there was an attempt meanwhile."""

    at_s: float


class Settle(msgspec.Struct, frozen=True):
    """The request has arrived. Ordering duty: before the next attempt."""

    number: int


class Bury(msgspec.Struct, frozen=True):
    """The request is a dead letter. Ordering duty: before the next attempt."""

    number: int
    attempts: int
    reason: str


class BuryWaiting(msgspec.Struct, frozen=True):
    """So is whatever waits and came before that moment."""

    before_s: float
    reason: str


class Note(msgspec.Struct, frozen=True):
    """Write the facts."""


class Remove(msgspec.Struct, frozen=True):
    """Forget everything of the endpoint."""


Event = Arrived | NothingLeft | Delivered | Failed | Gone | DiskFailed | Due | Changed | Replayed | Ended
Effect = Attempt | Wake | Settle | Bury | BuryWaiting | Note | Remove
Effects = list[Effect]
