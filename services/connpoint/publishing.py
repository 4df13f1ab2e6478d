"""Accepting publications: checked, given ids, let into the window in order, logged, sent."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import structlog

from braid import metrics, problems
from braid.config import Settings
from braid.content import Content, ContentWriter
from braid.messages import Confirmed, Hop
from braid.problems import Problem
from braid.selector import hash64
from braid.tracing import LOGGED_IDS_MAX
from services.connpoint.log import Log
from services.connpoint.retrying import Batch

log = structlog.get_logger()

_TRACES_MAX = 1000
_BATCH_MAX = 200  # a large request travels in parts of so many publications, so that others get their turn
_BATCH_BYTES_MAX = 1024 * 1024


class _Checked(msgspec.Struct, eq=False):
    """A batch that may enter the window as soon as there is room."""

    publisher: int
    ids: list[str]
    contents: list[bytes]
    size: int
    hops: list[Hop] | None
    logged: asyncio.Future[None]
    parts_left: int = 0  # in the log, once it is there


class Publishing:
    def __init__(self, name: str, incarnation: int, ingress_log: Log, settings: Settings) -> None:
        self._name = name
        self._log = ingress_log
        self._settings = settings
        self._writer = ContentWriter(settings.limits)
        self._waiting: deque[_Checked] = deque()
        self._waiting_bytes = 0
        # A batch has to fit into a frame, also when its partial carries it once for each of several connection points.
        self._part_bytes_max = min(_BATCH_BYTES_MAX, settings.links.frame_bytes_max // 4)
        self._id_prefix = f"{name}-{incarnation:x}".replace("connpoint-", "p").replace(".", "-")
        self._ids_made = 0
        self._publisher_hashes: OrderedDict[str, int] = OrderedDict()
        self._traces: OrderedDict[str, list[Hop]] = OrderedDict()
        self._traced: dict[int, list[str]] = {}  # by the time of arrival, which the first hop tells
        self.on_done: Callable[[list[Batch]], None] | None = None  # for telemetry: batches that are confirmed

    async def publish(self, publisher: str, contents: list[Content], *, wait: bool, trace: bool) -> list[str]:
        if not contents:
            return []
        hops: list[Hop] | None = [(self._name, time.time_ns(), 0)] if trace else None
        encoded = self._check(contents)
        ids = [content.id for content in contents]
        logged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        batch = _Checked(self._hash_of(publisher), ids, encoded, sum(map(len, encoded)), hops, logged)
        # Up to here nothing was awaited: batches enter the window in the order of the calls.
        if refusal := self._log.refusal(batch.publisher):
            metrics.PUBLICATIONS_REFUSED.labels("unavailable").inc(len(ids))
            raise problems.unavailable(refusal)
        if not self._waiting and self._log.has_room(batch.publisher, len(encoded), batch.size):
            self._enter(batch)
        else:
            self._queue(batch, wait)
        try:
            await logged
        except asyncio.CancelledError:
            if batch in self._waiting:
                self._waiting.remove(batch)
                self._waiting_bytes -= batch.size
                self._admit_waiting()
            raise
        metrics.PUBLICATIONS_ACCEPTED.inc(len(ids))
        return ids

    def on_confirmed(self, message: Confirmed, exitpoint: str) -> None:
        forgotten = self._log.on_confirmed(message, exitpoint)
        if forgotten:
            metrics.CONFIRM_SECONDS.observe(max(0.0, time.time() - forgotten[0].accepted_s))
            if self.on_done is not None:
                self.on_done(forgotten)
        for _, hops in message.traces:
            name, arrived_ns, _ = hops[0]
            for id in self._traced.pop(arrived_ns, ()) if name == self._name else ():
                if id in self._traces:
                    self._traces[id] = hops
        if self._waiting:
            self._admit_waiting()

    def trace_of(self, publication_id: str) -> list[Hop] | None:
        return self._traces.get(publication_id)

    def on_tick(self, now_s: float) -> None:
        self._log.on_tick(now_s)
        for batch in [batch for batch in self._waiting if self._log.refusal(batch.publisher)]:
            self._waiting.remove(batch)
            self._refuse(batch, self._log.refusal(batch.publisher))
        if self._waiting:
            self._admit_waiting()

    @property
    def is_drained(self) -> bool:
        """Whether nothing that was taken in waits for this connection point."""
        return self._log.is_drained and not self._waiting

    def close(self) -> None:
        """Whoever waits for room is told that there will be none."""
        while self._waiting:
            self._refuse(self._waiting.popleft(), "the connection point is stopping")

    def _refuse(self, batch: _Checked, reason: str) -> None:
        self._waiting_bytes -= batch.size
        if not batch.logged.done():
            batch.logged.set_exception(problems.unavailable(reason))

    def _check(self, contents: list[Content]) -> list[bytes]:
        limits = self._settings.limits
        if len(contents) > limits.batch_publications_max:
            raise problems.limit_exceeded("limits.batch_publications_max", limits.batch_publications_max, len(contents))
        now, write = time.time(), self._writer.write
        encoded: list[bytes] = []
        try:
            for content in contents:
                if not content.id:
                    self._ids_made += 1
                    content.id = f"{self._id_prefix}-{self._ids_made:x}"
                encoded.append(write(content, now))
        except Problem as problem:
            if len(contents) > 1:
                field = str(problem.members.get("field", "$"))
                problem.members["field"] = field.replace("$", f"$[{len(encoded)}]", 1)
            raise
        return encoded

    def _queue(self, batch: _Checked, wait: bool) -> None:
        if not wait or self._waiting_bytes + batch.size > self._settings.ingress.window_bytes_max:
            metrics.PUBLICATIONS_REFUSED.labels("overloaded").inc(len(batch.ids))
            raise problems.overloaded(
                f"{self._log.unconfirmed} publications wait for delivery; send this again in a moment"
            )
        self._waiting.append(batch)
        self._waiting_bytes += batch.size

    def _admit_waiting(self) -> None:
        """In the order of arrival: nobody overtakes a batch that waits."""
        while self._waiting:
            batch = self._waiting[0]
            if not self._log.has_room(batch.publisher, len(batch.ids), batch.size):
                return
            self._waiting.popleft()
            self._waiting_bytes -= batch.size
            self._enter(batch)

    def _enter(self, checked: _Checked) -> None:
        now = time.time()
        parts = list(self._parts(checked))
        checked.parts_left = len(parts)
        for number, (start, end) in enumerate(parts):
            hops = checked.hops
            if hops is not None:
                # The moment of arrival is also what each part is known by when its trace comes back.
                hops = [(self._name, hops[0][1] + number, 0)]
                self._expect_traces(hops[0][1], checked.ids[start:end])
            done = partial(self._on_logged, checked)
            self._log.append(checked.publisher, checked.contents[start:end], now, hops, done)

    def _parts(self, checked: _Checked) -> Iterator[tuple[int, int]]:
        """Where the parts of a request begin and end; one publication may be larger than a part should be."""
        contents = checked.contents
        if len(contents) <= _BATCH_MAX and checked.size <= self._part_bytes_max:
            yield 0, len(contents)
            return
        start = size = 0
        for place, content in enumerate(contents):
            size += len(content)
            if place > start and (place - start == _BATCH_MAX or size > self._part_bytes_max):
                yield start, place
                start, size = place, len(content)
        yield start, len(contents)

    def _on_logged(self, checked: _Checked, failure: Exception | None) -> None:
        """All of its parts are safe, or it is not accepted."""
        checked.parts_left -= 1
        if not checked.logged.done():
            if failure is not None:
                checked.logged.set_exception(problems.unavailable(f"the ingress log cannot be written: {failure}"))
            elif not checked.parts_left:
                checked.logged.set_result(None)
        if self._waiting:
            self._admit_waiting()

    def _hash_of(self, publisher: str) -> int:
        found = self._publisher_hashes.get(publisher)
        if found is None:
            found = self._publisher_hashes[publisher] = hash64(publisher)
            if len(self._publisher_hashes) > 10_000:
                self._publisher_hashes.popitem(last=False)
        return found

    def _expect_traces(self, arrived_ns: int, ids: list[str]) -> None:
        self._traced[arrived_ns] = ids
        for id in ids:
            self._traces[id] = []
        log.info("traced", message="accepted", arrived_ns=arrived_ns, publications=ids[:LOGGED_IDS_MAX])
        while len(self._traces) > _TRACES_MAX:
            self._traces.popitem(last=False)
        while len(self._traced) > _TRACES_MAX:
            del self._traced[next(iter(self._traced))]
