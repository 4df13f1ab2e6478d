"""Starts the processes of one run, starts again what dies, and stops one of them or all."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from braid.kept_configuration import REFUSED
from braid.topology import LAYERS
from coordinator.processes import Child, Command, describe_exit, rotate, tail
from coordinator.screen import Screen


class ClusterFailed(Exception):
    """The cluster cannot go on; the message says why and where to look."""


class Supervisor:
    """`failure` ends with the reason when a process that the cluster needs cannot be kept alive."""

    def __init__(
        self,
        screen: Screen,
        stopping: asyncio.Event,
        is_needed: Callable[[str], bool],
        on_change: Callable[[], None],
        advice: Callable[[], str],
    ) -> None:
        """`advice` is for whoever reads that a slice refuses the configuration."""
        self._screen = screen
        self._stopping = stopping  # the whole cluster
        self._is_needed = is_needed
        self._on_change = on_change
        self._advice = advice
        self._children: list[Child] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.hurry = asyncio.Event()
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.given_up: set[str] = set()  # slices that died too often, and are not needed

    async def start(self, command: Command) -> Child:
        rotate(command.log)
        child = Child(command)
        self._children.append(child)  # before it runs, so that it is stopped whatever happens next
        await child.start()
        return child

    def supervise(self, child: Child) -> None:
        self._spawn(self._keep_alive(child), f"supervise {child.command.name}")

    async def add(self, command: Command) -> None:
        """A slice that the cluster works without until now; one that cannot even be started is given up."""
        try:
            self.supervise(await self.start(command))
        except OSError as error:
            self._screen.note(f"{command.name} cannot be started: {error.strerror}")
            self.given_up.add(command.name)
            self._children = [child for child in self._children if child.command is not command]
        self._on_change()

    def forget(self, child: Child) -> None:
        """It has ended."""
        self._children = [other for other in self._children if other is not child]

    def pids(self) -> dict[str, int]:
        """Of the slices."""
        return {child.command.name: child.pid for child in self._slices() if child.pid is not None}

    def names(self) -> list[str]:
        """Of the slices, also of those that are about to be started again, or are being stopped."""
        return [child.command.name for child in self._slices()]

    def let_go(self, name: str, patience_s: float) -> asyncio.Task[None]:
        """Stops one slice for good. When that is done, another process may have its name."""
        return self._spawn(self._let_go(name, patience_s), f"let go {name}")

    async def stop_all(self, order: Sequence[str], patience_s: float) -> None:
        """Group after group."""
        for group in order:
            children = [child for child in self._children if child.command.group == group]
            if any(child.is_running() for child in children):
                self._screen.step(f"stopping {group}")
            await asyncio.gather(*(child.stop(patience_s, self.hurry) for child in children))
        self._screen.settle()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _slices(self) -> list[Child]:
        return [child for child in self._children if child.command.group in LAYERS]

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._on_ended)
        self._tasks.add(task)
        return task

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failure.done():
            self.failure.set_exception(error)

    async def _let_go(self, name: str, patience_s: float) -> None:
        for child in [child for child in self._slices() if child.command.name == name]:
            await child.stop(patience_s, self.hurry)
            self.forget(child)
        self._on_change()

    async def _keep_alive(self, child: Child) -> None:
        name, log = child.command.name, child.command.log
        while True:
            code = await child.wait()
            ending = describe_exit(code)
            if self._stopping.is_set() or child.is_stopped:
                return
            if code == REFUSED:
                self._give_up(
                    child, f"{name} refuses the configuration in ZooKeeper. {self._advice()}\nIts log is {log}"
                )
                return
            delay_s = child.policy.on_death(time.monotonic())
            if delay_s is None:
                self._give_up(child, f"{name} died again and again (last: {ending}); its log is {log}")
                return
            self._screen.note(f"{name} died ({ending}); starting it again, its log is {log}")
            try:
                await asyncio.wait_for(self._stopping.wait(), delay_s)
                return
            except TimeoutError:
                await child.start()
            self._on_change()

    def _give_up(self, child: Child, what: str) -> None:
        """A slice that only a scaling wants must not end a cluster that works without it."""
        if self._is_needed(child.command.name):
            raise ClusterFailed(f"{what}:\n{tail(child.command.log)}")
        self._screen.note(f"{what}; it is not started again for this scaling")
        self.given_up.add(child.command.name)
        self.forget(child)
        self._on_change()
