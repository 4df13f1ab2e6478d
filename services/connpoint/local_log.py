"""The ingress log of one connection point alone: in a LevelDB of its own, under numbers of its own."""

import time
from collections.abc import Collection
from functools import partial

import structlog

from braid import metrics
from braid.messages import Confirmed, Hop
from braid.topology import Configuration
from services.connpoint.ingress import IngressCore
from services.connpoint.ingress_log import IngressLog
from services.connpoint.log import Done, Perform
from services.connpoint.retrying import Batch, RetryLoop

log = structlog.get_logger()


class LocalLog:
    def __init__(self, core: IngressCore, database: IngressLog, perform: Perform) -> None:
        self.core = core
        self._database = database
        self._perform = perform

    async def open(self) -> None:
        self.core.on_recovered(await self._database.open(), time.time())
        log.info("recovered", unconfirmed=self.core.window_publications)

    async def prepare(self) -> None:
        """Everything is here."""

    async def close(self) -> None:
        await self._database.close()

    def refusal(self, publisher: int | None = None) -> str:
        return ""

    def has_room(self, publisher: int, publications: int, size: int) -> bool:
        return self.core.has_room(publications, size)

    def append(
        self, publisher: int, contents: list[bytes], accepted_s: float, hops: list[Hop] | None, done: Done
    ) -> None:
        batch = self.core.accept(publisher, contents, accepted_s, hops)
        self._database.append(batch, partial(self._on_logged, batch, done))

    def _on_logged(self, batch: Batch, done: Done, failure: Exception | None) -> None:
        if failure is None:
            self._perform(self.core.on_logged(batch, time.time(), time.time_ns()))
        else:
            self.core.on_log_failed(batch)
        done(failure)

    @property
    def unconfirmed(self) -> int:
        return self.core.window_publications

    @property
    def is_drained(self) -> bool:
        """Nobody else sends what is in this log."""
        return not self.core.window_publications

    def on_confirmed(self, message: Confirmed, exitpoint: str) -> list[Batch]:
        forgotten = self.core.on_confirmed(message)
        self._perform(self.core.confirmed_elsewhere(forgotten, exitpoint))
        self._database.forget(forgotten)
        return forgotten

    def accepted_s(self, origin: str, sequence: int) -> float | None:
        return self.core.accepted_s(origin, sequence)

    def on_configuration(self, configuration: Configuration) -> None:
        self.core.on_configuration(configuration)

    def on_connpoints(self, registered: Collection[str]) -> None:
        """Nobody else sees to this log."""

    def on_slice_returned(self, now_s: float) -> None:
        self.core.on_slice_returned(now_s)

    def on_tick(self, now_s: float) -> None:
        send_again(self.core, now_s, self._perform)
        self._database.flush()


def send_again(core: RetryLoop, now_s: float, perform: Perform) -> None:
    """What is due, and what the retry loop tells of itself."""
    again = core.on_tick(now_s)
    if again:
        oldest = again[0].messages[0]
        log.warning("sent again", batches=len(again), origin=oldest.origin, sequence=oldest.sequence)
        perform(again)
    metrics.WINDOW_PUBLICATIONS.set(core.window_publications)
    metrics.WINDOW_BYTES.set(core.window_bytes)
    metrics.PUBLICATIONS_AGAIN.set(core.sent_again)
