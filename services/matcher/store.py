"""The subscriptions of one matcher on disk: `s/<id>` -> msgpack of the record."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from braid.config import Matching
from braid.leveldb import GroupCommit
from braid.subscription import SubscriptionRecord

_PREFIX = b"s/"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SubscriptionRecord).decode


class SubscriptionStore:
    def __init__(self, path: Path, settings: Matching) -> None:
        self._database = GroupCommit(path, settings.fsync, settings.fsync_interval_s)

    async def open(self) -> list[SubscriptionRecord]:
        await self._database.open()
        return [_decode(value) for _, value in await self._database.read_all(_PREFIX)]

    def put(self, record: SubscriptionRecord, done: Callable[[Exception | None], None]) -> None:
        self._database.put(_PREFIX + record.id.encode(), _encode(record), done)

    def erase(self, id: str, done: Callable[[Exception | None], None] | None) -> None:
        self._database.delete(_PREFIX + id.encode(), done)

    def flush(self) -> None:
        self._database.flush()

    @property
    def queued(self) -> int:
        return self._database.queued

    async def close(self) -> None:
        await self._database.close()
