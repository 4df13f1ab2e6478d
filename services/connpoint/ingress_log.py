"""The ingress log: accepted publications on disk, one record per accepted batch.

Key: `p/<origin>/<sequence, 16 hex digits>`; value: msgpack of (publisher, contents). Records of one origin are in the
order of their sequences. A record leaves when its batch is confirmed.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from braid.config import Ingress
from braid.leveldb import GroupCommit
from services.connpoint.ingress import Batch

_PREFIX = b"p/"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, list[bytes]]).decode


class IngressLog:
    def __init__(self, path: Path, settings: Ingress) -> None:
        self._database = GroupCommit(path, settings.fsync, settings.fsync_interval_s)

    async def open(self) -> list[tuple[str, int, int, list[bytes]]]:
        """What a predecessor had accepted and not seen confirmed: origin, sequence, publisher, contents."""
        await self._database.open()
        batches = []
        for key, value in await self._database.read_all(_PREFIX):
            origin, _, sequence = key[len(_PREFIX) :].decode().rpartition("/")
            publisher, contents = _decode(value)
            batches.append((origin, int(sequence, 16), publisher, contents))
        return batches

    def append(self, batch: Batch, done: Callable[[Exception | None], None]) -> None:
        self._database.put(_key(batch.origin, batch.sequence), _encode((batch.publisher, batch.contents)), done)

    def forget(self, batches: list[Batch]) -> None:
        for batch in batches:
            self._database.delete(_key(batch.origin, batch.sequence))

    def flush(self) -> None:
        self._database.flush()

    async def close(self) -> None:
        await self._database.close()


def _key(origin: str, sequence: int) -> bytes:
    return b"%b%b/%016x" % (_PREFIX, origin.encode(), sequence)
