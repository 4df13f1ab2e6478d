"""The subscriptions of one matcher on disk: `s/<id>` -> msgpack of the record.

`foreign` stands there while subscriptions of other matchers may be among them: from the moment a scaling begins until
the last one that moved away is erased.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from braid.config import Matching
from braid.leveldb import GroupCommit
from braid.subscription import SubscriptionRecord

_PREFIX = b"s/"
_FOREIGN = b"foreign"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SubscriptionRecord).decode


class SubscriptionStore:
    def __init__(self, path: Path, settings: Matching) -> None:
        self._database = GroupCommit(path, settings.fsync, settings.fsync_interval_s)
        self._foreign_expected = False
        self._mark_failed = False  # to be written again

    async def open(self) -> tuple[list[SubscriptionRecord], bool]:
        """All records, and whether some of them may belong to others."""
        await self._database.open()
        records = [_decode(value) for _, value in await self._database.read_all(_PREFIX)]
        return records, await self._database.has(_FOREIGN)

    def put(self, record: SubscriptionRecord, done: Callable[[Exception | None], None]) -> None:
        self._database.put(_PREFIX + record.id.encode(), _encode(record), done)

    def take_chunk(
        self, records: list[SubscriptionRecord], removed: list[str], done: Callable[[Exception | None], None]
    ) -> None:
        """Of another matcher. The mark goes with it in one write, so that it is never there without."""
        pairs = [(_PREFIX + record.id.encode(), _encode(record)) for record in records]
        ended = [(_PREFIX + id.encode(), None) for id in removed]
        self._database.put_all([(_FOREIGN, b""), *pairs, *ended], done)

    def erase(self, ids: list[str], done: Callable[[Exception | None], None] | None) -> None:
        """`done` is told when all are erased."""
        for id in ids[:-1]:
            self._database.delete(_PREFIX + id.encode())
        if ids:
            self._database.delete(_PREFIX + ids[-1].encode(), done)

    def when_written(self, done: Callable[[Exception | None], None]) -> None:
        self._database.put_all([], done)

    def expect_foreign(self, expected: bool) -> None:
        self._foreign_expected, self._mark_failed = expected, False
        if expected:
            self._database.put(_FOREIGN, b"", self._on_mark)
        else:
            self._database.delete(_FOREIGN)

    def _on_mark(self, failure: Exception | None) -> None:
        self._mark_failed = failure is not None and self._foreign_expected

    def flush(self) -> None:
        if self._mark_failed:
            self.expect_foreign(True)
        self._database.flush()

    @property
    def queued(self) -> int:
        return self._database.queued

    async def close(self) -> None:
        await self._database.close()
