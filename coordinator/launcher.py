"""`python -m coordinator.launcher`: a whole cluster on this machine, one process per slice.

It starts ZooKeeper (unless one is named), a coordinator and the slices, starts again what dies, and stops everything
in order. Whatever happens to the launcher itself, no process outlives it. It compiles the matching engine before a
matcher starts, if nobody has done so on this machine.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from braid.config import ConfigError, Settings, load
from braid.coordination import CoordinationUnavailable
from braid.topology import LAYERS
from coordinator import compiling, zookeeper
from coordinator.data_directory import DataDirectory, DataDirectoryRefused
from coordinator.plan import (
    STOP_ORDER,
    PortRefused,
    SliceArguments,
    check_ports,
    cluster_commands,
    connpoint_ports,
    parse_slices,
    slice_arguments,
)
from coordinator.processes import Child, Command, describe_exit, rotate, tail
from coordinator.readiness import ApiAddresses, why_not_ready
from coordinator.screen import Screen

READY_S = 60.0
POLL_S = 0.05
STOP_PATIENCE_S = 8.0  # for each group of processes
ZOOKEEPER_READY_S = 30.0
ZOOKEEPER_ATTEMPTS = 3


class ClusterFailed(Exception):
    """The cluster cannot go on; the message says why and where to look."""


FAILURES = (
    ClusterFailed,
    CoordinationUnavailable,
    DataDirectoryRefused,
    PortRefused,
    compiling.EngineNotCompiled,
    zookeeper.ZooKeeperUnusable,
    OSError,
)


class Launcher:
    """One run of one cluster."""

    def __init__(
        self,
        settings: Settings,
        config: Path | None,
        screen: Screen,
        arguments_of: SliceArguments,
        arguments_of_compiler: compiling.CompilerArguments,
    ) -> None:
        self._settings = settings
        self._config = config
        self._screen = screen
        self._arguments_of = arguments_of
        self._arguments_of_compiler = arguments_of_compiler
        self._data = DataDirectory(settings.cluster.data)
        self._zookeeper = settings.cluster.zookeeper
        self._children: list[Child] = []
        self._supervisors: set[asyncio.Task[None]] = set()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._addresses = ApiAddresses(settings, self._pids, self._write_cluster)
        self._started = datetime.now(UTC).isoformat(timespec="seconds")

    async def run(self) -> None:
        """Until a signal comes; raises `ClusterFailed` when the cluster cannot be kept up."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup asks to go on without a terminal
                loop.add_signal_handler(number, self._on_signal)
        with self._data.locked():
            check_ports(self._settings)
            self._data.check_shape(self._settings.slices)
            work = asyncio.create_task(self._bring_up())
            endings: list[asyncio.Future[Any]] = [asyncio.create_task(self._stop.wait()), self._failure]
            try:
                await asyncio.wait([work, *endings], return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    work.result()
                    await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
                if self._failure.done():
                    self._failure.result()
            finally:
                self._stop.set()
                work.cancel()
                await asyncio.wait([work])
                await self._bring_down()

    def _on_signal(self) -> None:
        if self._stop.is_set():
            self._hurry.set()  # the second time nobody wants to wait
        self._stop.set()

    async def _bring_up(self) -> None:
        began = time.monotonic()
        self._write_cluster()  # so that 'braid down' finds us from now on
        if not self._zookeeper:
            self._screen.step("starting ZooKeeper")
            await self._start_zookeeper()
        await self._compile()
        self._screen.step("starting the slices")
        self._data.keep_shape(self._settings.slices)
        commands = cluster_commands(self._settings, self._zookeeper, self._data, self._config, self._arguments_of)
        for command in commands:
            self._supervise(await self._start_child(command))
        self._write_cluster()
        await self._wait_ready()
        self._screen.ready(self._addresses.known(), self._data.path, time.monotonic() - began)

    async def _compile(self) -> None:
        arguments = self._arguments_of_compiler()
        if arguments is not None:
            self._screen.step(compiling.ANNOUNCEMENT)
            child = await self._start_child(compiling.compiler_command(arguments, self._data))
            await compiling.wait_compiled(child)
            self._children.remove(child)

    async def _start_child(self, command: Command) -> Child:
        rotate(command.log)
        child = Child(command)
        self._children.append(child)  # before it runs, so that it is stopped whatever happens next
        await child.start()
        return child

    async def _start_zookeeper(self) -> None:
        log = self._data.log("zookeeper")
        for attempt in range(1, ZOOKEEPER_ATTEMPTS + 1):
            server = await asyncio.to_thread(zookeeper.prepare, self._data.zookeeper)
            child = await self._start_child(
                Command("zookeeper", "zookeeper", server.argv, log, directory=server.directory)
            )
            try:
                await zookeeper.wait_ready(server, ZOOKEEPER_READY_S, child.is_running)
            except zookeeper.ZooKeeperUnusable as error:
                # Somebody else may have taken the free port in the meantime.
                if child.is_running() or attempt == ZOOKEEPER_ATTEMPTS:
                    raise ClusterFailed(f"{error}; its log is {log}:\n{tail(log)}") from None
                self._children.remove(child)
            else:
                self._zookeeper = server.hosts
                self._supervise(child)
                return

    def _supervise(self, child: Child) -> None:
        task = asyncio.create_task(self._keep_alive(child), name=f"supervise {child.command.name}")
        task.add_done_callback(self._on_supervised)
        self._supervisors.add(task)

    def _on_supervised(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _keep_alive(self, child: Child) -> None:
        while True:
            ending = describe_exit(await child.wait())
            if self._stop.is_set():
                return
            name, log = child.command.name, child.command.log
            delay_s = child.policy.on_death(time.monotonic())
            if delay_s is None:
                raise ClusterFailed(f"{name} died again and again (last: {ending}); its log is {log}:\n{tail(log)}")
            self._screen.note(f"{name} died ({ending}); starting it again, its log is {log}")
            try:
                await asyncio.wait_for(self._stop.wait(), delay_s)
                return
            except TimeoutError:
                await child.start()
            self._write_cluster()

    async def _wait_ready(self) -> None:
        """Until every connection point says that it is ready."""
        self._screen.step("waiting until the connection points are ready")
        deadline = time.monotonic() + READY_S
        await self._addresses.start(self._zookeeper)
        for name in connpoint_ports(self._settings):
            while (reason := await why_not_ready(self._addresses.of(name))) is not None:
                if time.monotonic() > deadline:
                    log = self._data.log(name)
                    raise ClusterFailed(
                        f"{name} was not ready within {READY_S:g} s: {reason}; its log is {log}:\n{tail(log)}"
                    )
                await asyncio.sleep(POLL_S)

    def _pids(self) -> dict[str, int]:
        return {
            child.command.name: child.pid
            for child in self._children
            if child.command.group in LAYERS and child.pid is not None
        }

    def _write_cluster(self) -> None:
        if self._stop.is_set():
            return
        self._data.write_cluster(
            {
                "pid": os.getpid(),
                "zookeeper": self._zookeeper,
                "api": self._addresses.known(),
                "started": self._started,
                "slices": self._pids(),
            }
        )

    async def _bring_down(self) -> None:
        await self._addresses.stop()
        for group in (compiling.COMPILER, *STOP_ORDER):
            children = [child for child in self._children if child.command.group == group]
            if any(child.is_running() for child in children):
                self._screen.step(f"stopping {group}")
            await asyncio.gather(*(child.stop(STOP_PATIENCE_S, self._hurry) for child in children))
        self._screen.settle()
        if self._supervisors:
            await asyncio.wait(self._supervisors)


def main(
    argv: Sequence[str] | None = None,
    arguments_of: SliceArguments = slice_arguments,
    arguments_of_compiler: compiling.CompilerArguments = compiling.compiler_arguments,
) -> int:
    """The last two give the commands of a slice and of the compiler; tests put in their own."""
    arguments = _parse(argv)
    screen = Screen(arguments.quiet)
    try:
        slices = parse_slices(arguments.slices) if arguments.slices else {}
        given = {
            "cluster": {"data": arguments.data, "zookeeper": arguments.zookeeper},
            "api": {"port": arguments.port},
            "slices": slices,
        }
        overrides = {
            section: {name: value for name, value in fields.items() if value is not None}
            for section, fields in given.items()
        }
        settings = load(arguments.config, overrides).settings
    except (ConfigError, ValueError) as error:
        screen.error(str(error))
        return 2

    async def run() -> None:
        await Launcher(settings, arguments.config, screen, arguments_of, arguments_of_compiler).run()

    try:
        asyncio.run(run())
    except FAILURES as error:
        screen.error(str(error))
        return 1
    screen.note("stopped")
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m coordinator.launcher", description=__doc__)
    parser.add_argument("--config", type=Path, help="TOML file with settings")
    parser.add_argument("--data", type=Path, help="directory of all state on this machine")
    parser.add_argument("--port", type=int, help="of the first connection point; 0 lets the system choose")
    parser.add_argument("--zookeeper", help="host:port,… of a ZooKeeper that runs; default: the embedded one")
    parser.add_argument("--slices", help="connpoint=1,accesspoint=1,matcher=1,exitpoint=1")
    parser.add_argument("--quiet", action="store_true", help="say only what goes wrong")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
