"""What a slice reports of a scaling, brought to ZooKeeper however long that is away."""

import asyncio

import structlog

from braid.coordination import Coordination, CoordinationUnavailable
from braid.scaling import Progress, Report, ReportStep

log = structlog.get_logger()

RETRY_S = 0.2
PROGRESS_EVERY_S = 0.5


class Reporting:
    def __init__(self, name: str, incarnation: int, coordination: Coordination) -> None:
        self._name = name
        self._incarnation = incarnation
        self._coordination = coordination
        self._change: str | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._shown_s = 0.0
        self._showing: asyncio.Task[None] | None = None

    def on_change(self, change: str | None) -> None:
        self._change = change

    def report(self, step: ReportStep) -> None:
        """Repeated until it stands there, or the change is over."""
        report = Report(step.change, step.step, self._name, self._incarnation, step.details)
        log.info("reports", step=step.step, change=step.change, **step.details)
        task = asyncio.get_running_loop().create_task(self._bring(report))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def show(self, details: dict[str, float]) -> None:
        """How far it is, for people; at most twice a second, and never waited for."""
        loop = asyncio.get_running_loop()
        if self._change is None or not details or loop.time() < self._shown_s + PROGRESS_EVERY_S:
            return
        if self._showing is None or self._showing.done():
            self._shown_s = loop.time()
            self._showing = loop.create_task(self._show(Progress(self._change, self._name, details)))

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._showing is not None:
            self._showing.cancel()

    async def _bring(self, report: Report) -> None:
        while True:
            try:
                await self._coordination.report(report)
                return
            except CoordinationUnavailable as error:
                if self._change != report.change:
                    return
                log.warning("a report waits for ZooKeeper", step=report.step, reason=str(error))
                await asyncio.sleep(RETRY_S)

    async def _show(self, progress: Progress) -> None:
        try:
            await self._coordination.show_progress(progress)
        except CoordinationUnavailable:
            log.debug("progress is not shown")
