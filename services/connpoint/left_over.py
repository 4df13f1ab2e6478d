"""A log in Kafka where there was one in LevelDB before: what is left in that is sent until it is confirmed."""

from collections.abc import Collection

from braid.messages import Confirmed, Hop
from braid.topology import Configuration
from services.connpoint.log import Done, Log
from services.connpoint.retrying import Batch


class WithLeftOver:
    def __init__(self, log: Log, left_over: Log) -> None:
        self._log = log
        self._left_over = left_over

    async def open(self) -> None:
        await self._left_over.open()
        await self._log.open()

    async def prepare(self) -> None:
        await self._log.prepare()

    async def close(self) -> None:
        await self._log.close()
        await self._left_over.close()

    def refusal(self, publisher: int | None = None) -> str:
        return self._log.refusal(publisher)

    def has_room(self, publisher: int, publications: int, size: int) -> bool:
        return self._log.has_room(publisher, publications, size)

    def append(
        self, publisher: int, contents: list[bytes], accepted_s: float, hops: list[Hop] | None, done: Done
    ) -> None:
        self._log.append(publisher, contents, accepted_s, hops, done)

    @property
    def unconfirmed(self) -> int:
        return self._left_over.unconfirmed + self._log.unconfirmed

    @property
    def is_drained(self) -> bool:
        return self._left_over.is_drained and self._log.is_drained

    def on_confirmed(self, message: Confirmed, exitpoint: str) -> list[Batch]:
        return self._left_over.on_confirmed(message, exitpoint) or self._log.on_confirmed(message, exitpoint)

    def accepted_s(self, origin: str, sequence: int) -> float | None:
        found = self._left_over.accepted_s(origin, sequence)
        return self._log.accepted_s(origin, sequence) if found is None else found

    def on_configuration(self, configuration: Configuration) -> None:
        self._left_over.on_configuration(configuration)
        self._log.on_configuration(configuration)

    def on_connpoints(self, registered: Collection[str]) -> None:
        self._log.on_connpoints(registered)

    def on_slice_returned(self, now_s: float) -> None:
        self._left_over.on_slice_returned(now_s)
        self._log.on_slice_returned(now_s)

    def on_tick(self, now_s: float) -> None:
        self._left_over.on_tick(now_s)
        self._log.on_tick(now_s)
