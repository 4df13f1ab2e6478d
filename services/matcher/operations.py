"""What a matcher's store is asked to write."""

import msgspec

from braid.matching.previous import ChainChanges
from braid.messages import KeptBatch
from braid.subscription import SubscriptionRecord


class Put(msgspec.Struct, frozen=True):
    record: SubscriptionRecord
    is_new: bool  # else one of the same id may be there


class Remove(msgspec.Struct, frozen=True):
    """They have ended."""

    ids: list[str]


class Forget(msgspec.Struct, frozen=True):
    """They are another matcher's: nothing of them stays."""

    ids: list[str]


class Keep(msgspec.Struct, frozen=True):
    batches: list[KeptBatch]


class KeepForeign(msgspec.Struct, frozen=True):
    """Another matcher still has them, and has them until they are stored here."""

    batches: list[KeptBatch]


class RemoveKept(msgspec.Struct, frozen=True):
    batches: list[KeptBatch]


class Remember(msgspec.Struct, frozen=True):
    """Distinct ones that have ended."""

    records: list[SubscriptionRecord]


class Mark(msgspec.Struct, frozen=True):
    foreign: bool


class KeepPrevious(msgspec.Struct, frozen=True):
    """What is remembered for `prev` has changed."""

    changes: ChainChanges


Operation = Put | Remove | Forget | Keep | KeepForeign | RemoveKept | Remember | Mark | KeepPrevious


def weight_of(operation: Operation) -> int:
    """How much work it is, in records."""
    match operation:
        case Remove(ids) | Forget(ids):
            return len(ids)
        case Keep(batches) | KeepForeign(batches) | RemoveKept(batches):
            return sum(len(batch.contents) for batch in batches)
        case Remember(records):
            return len(records)
        case _:
            return 1
