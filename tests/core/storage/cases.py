"""What tests of the storage share."""

import math
from collections.abc import Callable
from pathlib import Path

from services.matcher.storage.dual import DualDB
from services.matcher.storage.interface import Storage
from services.matcher.storage.jobs import Tell
from services.matcher.storage.keys import list_id
from services.matcher.storage.list_storage import ListStorage
from services.matcher.storage.records import Cursor, Filed, Kind, StoredPublication, StoredSubscription
from services.matcher.storage.repeating import RepQueries
from services.matcher.storage.settings import StorageSettings
from services.matcher.storage.two import TwoDB

LAYOUTS: dict[str, Callable[[Path, StorageSettings, float], Storage]] = {
    "dual": DualDB,
    "two": TwoDB,
    "repeating": RepQueries,
}
NOW_S = 1_000_000.0
SMALL = StorageSettings(
    window_s=2,
    retention_s=8,
    retention_s_max=32,
    remember_s=6,
    rewrite_from=2,
    rewrite_check_s=5,
    write_buffer_bytes=64 * 1024,
)
A = list_id("a")


def subscription(
    id: str,
    made_s: float = NOW_S,
    *,
    subscriber: str = "alice",
    from_s: float = -math.inf,
    until_s: float = math.inf,
    distinct: bool = False,
    body: bytes = b"",
) -> StoredSubscription:
    return StoredSubscription(id, subscriber, made_s, from_s, until_s, distinct, body)


def publication(id: str, made_s: float = NOW_S, *, expires_s: float = math.inf, body: bytes = b"") -> StoredPublication:
    return StoredPublication(id, made_s, expires_s, body)


def everything(storage: Storage, kind: Kind, now_s: float, limit: int = 7) -> list[Filed]:
    """All records, piece by piece."""
    filed: list[Filed] = []
    after: Cursor | None = None
    while True:
        piece = storage.read_piece(kind, now_s, after, limit)
        assert len(piece.filed) <= limit
        filed += piece.filed
        after = piece.next
        if after is None:
            return filed


def crash(storage: Storage) -> None:
    """Leaves the files as they are, without a last word of ours. LevelDB writes nothing when it is closed."""
    assert isinstance(storage, ListStorage)
    upkeep = storage._upkeep
    going = [job.source for job in upkeep._jobs if isinstance(job, Tell)]
    for database in (*(one for part in storage._parts for one in part.all()), *going):
        if database._database is not None:
            database._database.close()
    upkeep._trash.close()


def maintain_fully(storage: Storage, now_s: float, entries_max: int = 500) -> None:
    for _ in range(100_000):
        if not storage.maintain(now_s, entries_max):
            return
    raise AssertionError("maintenance does not come to an end")
