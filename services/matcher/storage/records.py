"""What is stored, and what comes back: subscriptions, publications, results, damages, usage.

To the storage a record is opaque bytes, and the few things it must know: who it is and when it counts. Times are
seconds since the epoch; a window is from its first moment, included, to its second, excluded.
"""

import enum
import math

import msgspec


class Kind(enum.IntEnum):
    """The flag in a key, and a bit in the sets of kinds that databases keep. Subscriptions lie before publications."""

    SUBSCRIPTION = 1
    PUBLICATION = 2


class Reach(enum.Enum):
    SELF = "self"  # the lists that are named
    LINE = "line"  # also those above and below them in the hierarchy


class StoredSubscription(msgspec.Struct, array_like=True, frozen=True, gc=False):
    id: str
    subscriber: str
    made_s: float  # T_S
    from_s: float = -math.inf  # T_min
    until_s: float = math.inf  # T_max
    distinct: bool = False  # what the subscriber was given already is not given again
    body: bytes = b""

    def accepts(self, published_s: float) -> bool:
        return self.from_s <= published_s < self.until_s


class StoredPublication(msgspec.Struct, array_like=True, frozen=True, gc=False):
    id: str
    made_s: float  # T_P; a repetition has the same
    expires_s: float = math.inf  # T_max; where it is not said, the storage's retention counts
    body: bytes = b""


Stored = StoredSubscription | StoredPublication


class Filed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A record and the lists that it lies in."""

    record: Stored
    lists: tuple[bytes, ...]


class Matched(msgspec.Struct, frozen=True):
    """What a publication or a self-join finds: both newest first."""

    subscriptions: list[StoredSubscription]
    publications: list[StoredPublication]


class Due(msgspec.Struct, frozen=True):
    """The answer of one repeated query."""

    subscription: StoredSubscription
    publications: list[StoredPublication]


class Cursor(msgspec.Struct, array_like=True, frozen=True):
    """Where the next piece of an iteration begins."""

    database: str
    key: bytes


class Piece(msgspec.Struct, frozen=True):
    filed: list[Filed]
    next: Cursor | None  # nothing: this was the last one


class Damage(msgspec.Struct, frozen=True):
    """What a file lost. The rest of its database is served; the damaged files are kept where `kept_at` says.

    Of a database that is not there nothing can be kept, and of a ledger it cannot be said what was lost.
    """

    database: str
    files: tuple[str, ...]  # those that are known to be hurt
    reason: str
    lost_at_least: int  # records; those that were found, are not what was written, and could not be written again
    lost_at_most: int  # records; more than were lost where some had been written twice
    kept_at: str = ""


class Usage(msgspec.Struct):
    """Disk and databases, as they were last measured, and what was given up since the storage was opened.

    What was written and removed since then is counted in `disk_bytes` too.
    """

    disk_bytes: int = 0
    disk_bytes_max: int = 0
    damaged_bytes: int = 0  # of that, what is kept of damaged databases until somebody removes it
    trash_bytes: int = 0  # of that, what belongs to databases that went, and is still to be given back
    databases: int = 0
    entries: int = 0  # written less removed; those that expired count until their database goes
    windows_dropped: int = 0
    windows_evicted: int = 0  # before their time, because the disk was full
    publications_evicted: int = 0
    refused: int = 0  # records that found no room


class StorageFullError(Exception):
    """The bound of the disk is reached, and nothing more can be given up."""
