"""The ingress log: accepted publications on disk, one record per accepted batch.

Key: `p/<origin>/<sequence, 16 hex digits>`; value: msgpack of (publisher, contents, when accepted). Records of one
origin are in the order of their sequences. A record leaves when its batch is confirmed.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from braid.config import Ingress
from braid.leveldb import GroupCommit
from services.connpoint.retrying import Batch

_PREFIX = b"p/"
_encode = msgspec.msgpack.Encoder().encode


class _Logged(msgspec.Struct, array_like=True):
    publisher: int
    contents: list[bytes]
    accepted_s: float = 0.0  # 0.1.0 did not write it


_decode = msgspec.msgpack.Decoder(_Logged).decode


class IngressLog:
    def __init__(self, path: Path, settings: Ingress) -> None:
        self._database = GroupCommit(path, settings.fsync, settings.fsync_interval_s)

    async def open(self) -> list[tuple[str, int, int, list[bytes], float]]:
        """What a predecessor had accepted and not seen confirmed: origin, sequence, publisher, contents, when."""
        await self._database.open()
        batches = []
        for key, value in await self._database.read_all(_PREFIX):
            origin, _, sequence = key[len(_PREFIX) :].decode().rpartition("/")
            logged = _decode(value)
            batches.append((origin, int(sequence, 16), logged.publisher, logged.contents, logged.accepted_s))
        return batches

    def append(self, batch: Batch, done: Callable[[Exception | None], None]) -> None:
        logged = _Logged(batch.publisher, batch.contents, batch.accepted_s)
        self._database.put(_key(batch.origin, batch.sequence), _encode(logged), done)

    def forget(self, batches: list[Batch]) -> None:
        for batch in batches:
            self._database.delete(_key(batch.origin, batch.sequence))

    def flush(self) -> None:
        self._database.flush()

    async def close(self) -> None:
        await self._database.close()


def _key(origin: str, sequence: int) -> bytes:
    return b"%b%b/%016x" % (_PREFIX, origin.encode(), sequence)
