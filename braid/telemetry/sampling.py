"""Takes a sample of a slice every second and hands it to the sink."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

import psutil
import structlog

from braid.config import Settings
from braid.telemetry.backlog import Line
from braid.telemetry.measures import Measures
from braid.telemetry.sample import Sample, encode_sample
from braid.telemetry.sinks import Sink, sink_of
from braid.topology import Layer

log = structlog.get_logger()


class Who(NamedTuple):
    cluster: str
    slice: str
    layer: Layer
    incarnation: int


class State(NamedTuple):
    """What a slice knows of itself at any moment."""

    epoch: int
    takes_part: bool
    totals: dict[str, int]  # counted since the start; a sample has what was added
    queues: dict[str, int]


class Usage(NamedTuple):
    cpu_s: float  # since the start
    rss_bytes: int


class Sampling:
    def __init__(self, who: Who, sink: Sink, interval_s: float, state: Callable[[], State], measures: Measures) -> None:
        self.measures = measures
        self._who = who
        self._sink = sink
        self._interval_s = interval_s
        self._state = state
        self._number = 0
        self._at_s = 0.0
        self._totals: dict[str, int] = {}
        self._cpu_s = 0.0
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._sink.open()
        usage = await asyncio.to_thread(_look)
        self._begin(usage)
        self._running = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """With a last sample, so that what was counted is told."""
        if self._running is None:
            return
        self._running.cancel()
        await asyncio.wait((self._running,))
        await self._take()
        await self._sink.close()

    def _begin(self, usage: Usage) -> None:
        """What came before is told by nobody."""
        self.measures.take()
        self._at_s = time.monotonic()
        self._totals = self._state().totals
        self._cpu_s = usage.cpu_s

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            due_s = max(due_s + self._interval_s, loop.time())
            await asyncio.sleep(due_s - loop.time())
            await self._take()

    async def _take(self) -> None:
        try:
            sample = self._sample(await asyncio.to_thread(_look))
            self._sink.put(Line(sample.number, encode_sample(sample)))
        except Exception:
            log.exception("a sample could not be taken")  # our own mistake; the slice goes on without it

    def _sample(self, usage: Usage) -> Sample:
        now_s, state, measured = time.monotonic(), self._state(), self.measures.take()
        self._number += 1
        sample = Sample(
            **self._who._asdict(),
            number=self._number,
            epoch=state.epoch,
            takes_part=state.takes_part,
            time_ms=time.time_ns() // 1_000_000,
            seconds=round(now_s - self._at_s, 3),
            counts={what: n - self._totals.get(what, 0) for what, n in state.totals.items()} | measured.counts,
            latencies=measured.latencies,
            queues=state.queues,
            anchors=measured.anchors,
            anchors_missed=measured.anchors_missed,
            cpu_s=round(usage.cpu_s - self._cpu_s, 3),
            rss_bytes=usage.rss_bytes,
        )
        self._at_s, self._totals, self._cpu_s = now_s, state.totals, usage.cpu_s
        return sample


def sampling_of(
    settings: Settings, layer: Layer, slice: str, incarnation: int, state: Callable[[], State]
) -> Sampling | None:
    """None when nobody wants telemetry."""
    sink = sink_of(settings, slice, incarnation)
    if sink is None:
        return None
    who = Who(settings.cluster.name, slice, layer, incarnation)
    return Sampling(who, sink, settings.telemetry.interval_s, state, Measures())


def _look() -> Usage:
    """At this process. It reads a file of the kernel, so it is not done on the event loop."""
    return Usage(time.process_time(), psutil.Process().memory_info().rss)
