"""The ingress topic in memory: shared by connection points under test, and away when it is told to be."""

import asyncio
from collections.abc import Iterable

from services.connpoint.committed import Committed, note_of, read_note
from services.connpoint.ingress_topic import LogLost, ToWrite, Unanswered, Unavailable
from services.connpoint.partitions import Record


class Logs:
    """What Kafka keeps."""

    def __init__(self, partitions: int) -> None:
        self.records: list[list[Record]] = [[] for _ in range(partitions)]
        self.begins = [0] * partitions
        self.committed: dict[int, tuple[int, str]] = {}
        self.is_there = asyncio.Event()  # else nobody is answered
        self.is_there.set()
        self.leaderless: dict[int, asyncio.Event] = {}  # partitions that answer nobody until then
        self.unanswered: set[int] = set()  # partitions that nobody answers for, and it is told at once
        self.takes_commits = True  # else whoever takes them is away
        self.tells_committed = True  # else whoever knows it is away
        self.refuses = ""  # what it says to whoever writes

    def delete(self, partition: int, before: int) -> None:
        self.begins[partition] = before

    def cut_off(self, partition: int, behind: int) -> None:
        """What was acknowledged last is gone, as when the only replica in sync was not up to date."""
        del self.records[partition][behind:]

    def make_anew(self) -> None:
        self.records = [[] for _ in self.records]
        self.begins = [0] * len(self.records)
        self.committed = {}


class FakeTopic:
    """As one connection point sees them."""

    name = "ingress"

    def __init__(self, logs: Logs) -> None:
        self.logs = logs
        self.writes: list[tuple[int, int]] = []  # partition, records
        self.commits = 0
        self._positions: dict[int, int] = {}

    async def open(self) -> int:
        if not self.logs.is_there.is_set():
            raise Unavailable("nobody listens")
        return len(self.logs.records)

    async def close(self) -> None:
        """There is nothing to close."""

    async def write(self, partition: int, records: list[ToWrite]) -> int:
        self.writes.append((partition, len(records)))
        await asyncio.sleep(0)
        await self.logs.is_there.wait()
        if (led := self.logs.leaderless.get(partition)) is not None:
            await led.wait()
        if partition in self.logs.unanswered:
            raise Unanswered("LeaderNotAvailableError")
        if self.logs.refuses:
            raise Unavailable(self.logs.refuses)
        log = self.logs.records[partition]
        log += [Record(len(log) + n, record.written_ms, record.value) for n, record in enumerate(records)]
        return len(log) - 1

    def assign(self, positions: dict[int, int]) -> None:
        self._positions = dict(positions)

    async def read(self, most: int, timeout_s: float) -> dict[int, list[Record]]:
        """Waits a moment only: tests do not."""
        await asyncio.sleep(min(timeout_s, 0.002))
        self._check()
        lost = [
            partition
            for partition, position in self._positions.items()
            if not self.logs.begins[partition] <= position <= len(self.logs.records[partition])
        ]
        if lost:
            raise LogLost(lost)
        found = {}
        for partition, position in self._positions.items():
            if records := self.logs.records[partition][position : position + most]:
                self._positions[partition] = records[-1].offset + 1
                found[partition] = records
        return found

    async def bounds(self, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        self._check()
        return {
            p: (self.logs.begins[p], len(self.logs.records[p])) for p in partitions if p not in self.logs.leaderless
        }

    async def first_written_ms(self, partition: int) -> int | None:
        self._check()
        records = self.logs.records[partition][self.logs.begins[partition] :]
        return records[0].written_ms if records else None

    async def committed(self) -> dict[int, Committed]:
        self._check()
        if not self.logs.tells_committed:
            raise Unavailable("no coordinator")
        return {partition: read_note(*kept) for partition, kept in self.logs.committed.items()}

    async def commit(self, committed: dict[int, Committed]) -> None:
        self._check()
        if not self.logs.takes_commits:
            raise Unavailable("no coordinator")
        self.commits += 1
        assert committed.keys() <= self._positions.keys()
        self.logs.committed.update({p: (one.offset, note_of(one)) for p, one in committed.items()})

    def _check(self) -> None:
        if not self.logs.is_there.is_set():
            raise Unavailable("nobody answers")
