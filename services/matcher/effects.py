"""What the matcher's core asks its shell to do."""

from typing import Any

import msgspec

from braid.matching.previous import ChainChanges
from braid.messages import FindPublications, KeptBatch, Send, SubscriptionRemoved, SubscriptionStored, UnderWay
from braid.scaling import ReportStep
from braid.subscription import SubscriptionRecord
from services.matcher.storage.records import Cursor


class Answer(msgspec.Struct, frozen=True):
    """Goes back the way the question came, through the access point."""

    accesspoint: str
    message: SubscriptionStored | SubscriptionRemoved
    anchor: str = ""  # which every access point must know before; empty for none


class Store(msgspec.Struct, frozen=True):
    """Ordering duty: `MatcherCore.on_written` is called with the answer only when the record is written."""

    record: SubscriptionRecord
    answer: Answer
    is_new: bool = False  # nothing of the same id is stored


class Erase(msgspec.Struct, frozen=True):
    """Ordering duty: `MatcherCore.on_written` is called with the answer, if any, only when all are erased."""

    ids: list[str]
    answer: Answer | None


class Forget(msgspec.Struct, frozen=True):
    """These are another matcher's now, and nothing of them stays here. Nobody waits for it, but see `WhenForgotten`."""

    ids: list[str]


class StoreState(msgspec.Struct, frozen=True):
    """A chunk of another matcher's state. Ordering duty: `on_state_stored` is called only when it is written."""

    records: list[SubscriptionRecord]
    known: set[str]  # of these another record may be stored
    removed: list[str]
    matcher: str
    epoch: int
    chunk: int
    ends: str


class Keep(msgspec.Struct, frozen=True):
    """Publications to be stored. `MatcherCore.on_kept` is called with the ticket when they are, or could not be.

    Ordering duty: tickets come back in the order in which they were given out.
    """

    ticket: int
    batches: list[KeptBatch]


class StorePrevious(msgspec.Struct, frozen=True):
    """What is remembered for `prev` has changed. `MatcherCore.on_previous_stored` is called when it is written.

    Ordering duty: tickets come back together with those of `Keep`, in the order in which both were given out.
    """

    ticket: int  # 0: nothing waits for it
    changes: ChainChanges
    taken: dict[str, int] = {}  # by matcher, the number of the last part that it handed over
    epoch: int = 0  # of these


class Search(msgspec.Struct, frozen=True):
    """`MatcherCore.on_searched` is to be called with what was found among all that was to be kept before."""

    accesspoint: str
    question: FindPublications
    under_way: dict[str, UnderWay]  # of that


class KeepForeign(msgspec.Struct, frozen=True):
    """What another matcher hands over. `on_foreign_kept` is called only when all of it is stored."""

    matcher: str
    epoch: int
    number: int
    batches: list[KeptBatch]
    ended: list[SubscriptionRecord] = []  # distinct ones that are to be remembered


class ReadKept(msgspec.Struct, frozen=True):
    """`on_kept_read` is to be called with some of all kept publications, from here on, and with the reader."""

    after: Cursor | None
    reader: int = 0


class RemoveKept(msgspec.Struct, frozen=True):
    """Another matcher has stored them. Nobody waits for it; where it fails, they are kept twice until they expire."""

    batches: list[KeptBatch]


class ExpectForeign(msgspec.Struct, frozen=True):
    """From now on the store may hold what belongs to others, until the opposite is written. Survives a crash.

    Ordering duty: written before any chunk that follows, and the opposite after everything is forgotten that was to be
    before it.
    """

    expected: bool


class WhenForgotten(msgspec.Struct, frozen=True):
    """`MatcherCore.on_all_forgotten` is to be called when everything is that was to be before it."""


class Continue(msgspec.Struct, frozen=True):
    """`MatcherCore.on_continue` is to be called when other messages had their turn."""


Effect = (
    Send
    | Store
    | Erase
    | Forget
    | StoreState
    | Keep
    | StorePrevious
    | KeepForeign
    | ReadKept
    | RemoveKept
    | Search
    | ExpectForeign
    | WhenForgotten
    | Continue
    | ReportStep
)
Effects = list[Any]  # of Effect; lists of one kind are joined all the time
