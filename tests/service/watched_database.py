"""A database whose writes a test sees, and can let fail."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from braid.leveldb import GroupCommit
from tests.service.waiting import TIMEOUT_S


class Watched(GroupCommit):
    """Remembers every group that was written, and can fail on purpose."""

    def __init__(self, path: Path, fsync: Any = "never", fsync_interval_s: float = 1.0) -> None:
        super().__init__(path, fsync, fsync_interval_s)
        self.groups: list[list[tuple[bytes, bytes | None]]] = []
        self.failing = False

    def _write(self, operations: list[tuple[bytes, bytes | None]], sync: bool) -> None:
        self.groups.append(operations)
        if self.failing:
            raise OSError("no space left on device")
        super()._write(operations, sync)


async def opened(path: Path, **changes: Any) -> Watched:
    database = Watched(path, **changes)
    await database.open()
    return database


async def written(put: Callable[[Callable[[Exception | None], None]], None]) -> Exception | None:
    """Calls with a callback, waits until it is called."""
    answer: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    put(answer.set_result)
    return await asyncio.wait_for(answer, TIMEOUT_S)


def ignore(_failure: Exception | None) -> None: ...
