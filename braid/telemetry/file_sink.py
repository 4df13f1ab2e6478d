"""Samples into files, from a thread of their own: one finished file every few seconds."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog

from braid import metrics
from braid.telemetry.backlog import Backlog, Line
from braid.telemetry.sample_files import SampleFiles

log = structlog.get_logger()

_CLOSING_S_MAX = 2.0  # a disk that hangs does not keep a slice from stopping


class FileSink:
    def __init__(self, files: SampleFiles, file_s: float) -> None:
        self._files = files
        self._file_s = file_s
        self._backlog = Backlog()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="telemetry")
        self._write_at_s = 0.0
        self._writing: asyncio.Task[None] | None = None
        self._fails = False

    async def open(self) -> None:
        try:
            await self._run(self._files.open)
        except OSError as error:  # the slice runs without telemetry; each write tries anew
            self._note_failure(error)
        self._write_at_s = asyncio.get_running_loop().time() + self._file_s

    def put(self, line: Line) -> None:
        self._backlog.put(line)
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._write_at_s and self._writing is None:
            self._write_at_s = now_s + self._file_s
            self._writing = asyncio.create_task(self._write())

    async def close(self) -> None:
        try:
            async with asyncio.timeout(_CLOSING_S_MAX):
                if self._writing is not None:
                    await self._writing
                await self._write()
        except TimeoutError:
            log.warning("telemetry was not written to the end", samples=len(self._backlog))
        self._thread.shutdown(wait=False)

    async def _write(self) -> None:
        lines = self._backlog.take()
        try:
            if lines:
                await self._run(self._files.write, lines)
        except OSError as error:
            self._backlog.put_back(lines)
            self._note_failure(error)
        else:
            self._fails = False
            metrics.TELEMETRY_SAMPLES.labels("files").inc(len(lines))
        finally:
            self._writing = None

    def _note_failure(self, error: OSError) -> None:
        if not self._fails:
            log.warning("telemetry cannot be written", sink="files", error=str(error))
        self._fails = True

    async def _run(self, work: Callable[..., None], *arguments: object) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
