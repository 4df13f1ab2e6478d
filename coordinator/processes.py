"""One process of the cluster, as the launcher sees it: how to start and stop it, and when to stop trying."""

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coordinator import tether

DEATHS_MAX = 5
DEATHS_WITHIN_S = 30.0
BACKOFF_S_MIN = 0.1
BACKOFF_S_MAX = 5.0


@dataclass(frozen=True)
class Command:
    """What to run. Its output goes to `log`."""

    name: str
    group: str  # processes of a group are stopped together
    argv: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)  # on top of ours
    directory: Path | None = None


class RestartPolicy:
    """How long to wait before a process that died is started again; pure."""

    def __init__(self) -> None:
        self._deaths: deque[float] = deque()

    def on_death(self, now: float) -> float | None:
        """Seconds to wait; None: it died too often, give up."""
        self._deaths.append(now)
        while now - self._deaths[0] > DEATHS_WITHIN_S:
            self._deaths.popleft()
        if len(self._deaths) > DEATHS_MAX:
            return None
        return min(BACKOFF_S_MIN * 2.0 ** (len(self._deaths) - 1), BACKOFF_S_MAX)


class Child:
    """A process that is started, perhaps several times, and stopped once."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.policy = RestartPolicy()
        self._process: asyncio.subprocess.Process | None = None
        self._changing = asyncio.Lock()
        self._stopped = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def is_stopped(self) -> bool:
        """For good: it is being stopped, or was."""
        return self._stopped

    async def start(self) -> None:
        """Does nothing once it was stopped: a restart that was under way must not outlive the cluster."""
        async with self._changing:
            if self._stopped:
                return
            command = self.command
            # A session of its own: Ctrl-C in the terminal reaches the launcher only, which stops things in order.
            with command.log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), *command.argv),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **command.environment},
                    cwd=command.directory,
                    start_new_session=True,
                )

    async def wait(self) -> int:
        assert self._process is not None, "not started"
        return await self._process.wait()

    async def stop(self, patience_s: float, hurry: asyncio.Event) -> None:
        """SIGTERM, then SIGKILL when patience ends or there is hurry. Returns when the process is gone."""
        self._stopped = True
        async with self._changing:
            if self._process is None or self._process.returncode is not None:
                return
            self._process.terminate()
            ended = asyncio.create_task(self._process.wait())
            hurried = asyncio.create_task(hurry.wait())
            await asyncio.wait([ended, hurried], timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            hurried.cancel()
            if not ended.done():
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
            await ended


def rotate(log: Path) -> None:
    """The log of this run starts empty; that of the run before is kept beside it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists():
        log.replace(log.with_name(f"{log.name}.1"))


def tail(log: Path, lines: int = 15) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            text = file.read().decode(errors="replace")
    except OSError:
        return "(there is no log)"
    return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
