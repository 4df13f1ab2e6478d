"""`python -m coordinator.launcher`: a whole cluster on this machine, one process per slice.

It starts ZooKeeper (unless one is named), a coordinator and the slices, starts again what dies, and stops everything
in order. It starts the slices that a scaling wants, and stops those that are left out. Whatever happens to the launcher
itself, no process outlives it. It compiles the matching engine before a matcher starts, if nobody has done so on this
machine.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from braid.config import ConfigError, Settings, load
from braid.coordination_events import CoordinationUnavailable, CorruptConfiguration, StaleVersion
from braid.kept_configuration import UnreadableConfiguration
from braid.topology import CONFIGURED_LAYERS, Configuration, Layer
from coordinator import compiling, restoring, zookeeper
from coordinator.data_directory import DataDirectory, DataDirectoryRefused
from coordinator.following import Following
from coordinator.growing import Growing, is_needed
from coordinator.plan import (
    STOP_ORDER,
    Plan,
    PortRefused,
    SliceArguments,
    check_ports,
    connpoint_ports,
    parse_slices,
    slice_arguments,
)
from coordinator.processes import Command, tail
from coordinator.readiness import ApiAddresses, why_not_ready
from coordinator.screen import Screen
from coordinator.shape import Shape, ShapeRefused, check_asked, check_first, in_force, layer_of, numbered, taking_part
from coordinator.supervisor import ClusterFailed, Supervisor

READY_S = 60.0
POLL_S = 0.05
STOP_PATIENCE_S = 8.0  # for each group of processes
ZOOKEEPER_READY_S = 30.0
ZOOKEEPER_ATTEMPTS = 3


FAILURES = (
    ClusterFailed,
    CoordinationUnavailable,
    CorruptConfiguration,
    DataDirectoryRefused,
    PortRefused,
    ShapeRefused,
    StaleVersion,
    UnreadableConfiguration,
    compiling.EngineNotCompiled,
    zookeeper.ZooKeeperUnusable,
    OSError,
)


class Launcher:
    """One run of one cluster. `asked` are the numbers of slices that were given for this run."""

    def __init__(
        self,
        settings: Settings,
        config: Path | None,
        asked: Mapping[Layer, int],
        *,
        screen: Screen,
        arguments_of: SliceArguments,
        arguments_of_compiler: compiling.CompilerArguments,
    ) -> None:
        self._settings = settings
        self._config = config
        self._asked = asked
        self._screen = screen
        self._arguments_of = arguments_of
        self._arguments_of_compiler = arguments_of_compiler
        self._data = DataDirectory(settings.cluster.data)
        self._zookeeper = settings.cluster.zookeeper
        self._stop = asyncio.Event()
        self._slices_started = asyncio.Event()
        self._following = Following(settings, self._write_cluster, self._on_shape)
        self._supervisor = Supervisor(screen, self._stop, self._is_needed, self._write_cluster, self._what_to_do)
        self._growing = Growing(self._following, self._supervisor, self._data, screen, self._command_of)
        self._addresses = ApiAddresses(settings, self._supervisor.pids, lambda: self._following.registered)
        self._started = datetime.now(UTC).isoformat(timespec="seconds")

    async def run(self) -> None:
        """Until a signal comes; raises `ClusterFailed` when the cluster cannot be kept up."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup asks to go on without a terminal
                loop.add_signal_handler(number, self._on_signal)
        with self._data.locked():
            check_ports(self._settings)
            if (kept := self._data.read_shape()) is not None:
                check_asked(kept, self._asked, f"the data in {self._data.path}")
            work = asyncio.create_task(self._bring_up())
            growing = asyncio.create_task(self._grow())
            endings: list[asyncio.Future[Any]] = [
                *(asyncio.create_task(self._stop.wait()), growing),
                self._supervisor.failure,
            ]
            try:
                await asyncio.wait([work, *endings], return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    work.result()
                    await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
                for ending in endings:
                    if ending.done():
                        ending.result()
            finally:
                self._stop.set()
                work.cancel()
                growing.cancel()
                await asyncio.wait([work, growing])
                await self._bring_down()

    def _on_signal(self) -> None:
        if self._stop.is_set():
            self._supervisor.hurry.set()  # the second time nobody wants to wait
        self._stop.set()

    async def _bring_up(self) -> None:
        began = time.monotonic()
        self._write_cluster()  # so that 'braid down' finds us from now on
        if not self._zookeeper:
            self._screen.step("starting ZooKeeper")
            await self._start_zookeeper()
        await self._compile()
        self._screen.step("starting the slices")
        await self._following.start(self._zookeeper)
        await self._restore()
        for command in self._plan().commands(self._shape()):
            self._supervisor.supervise(await self._supervisor.start(command))
        self._slices_started.set()
        self._write_cluster()
        await self._wait_ready()
        self._screen.ready(self._addresses.known(), self._data.path, time.monotonic() - began)

    async def _restore(self) -> None:
        """The configuration that matchers of this data followed, if ZooKeeper has lost it.

        One that stands in a ZooKeeper of others is left alone: it may belong to other data. Matchers would refuse it
        one after the other, so that is said before anything is started.
        """
        configuration = self._following.configuration
        stands = configuration is not None
        if configuration is not None and self._settings.cluster.zookeeper:
            self._check_not_refused(configuration)
            return
        try:
            kept = restoring.newest_kept(self._data.path)
        except UnreadableConfiguration as error:
            if not stands:
                raise
            self._screen.note(f"a copy of the configuration cannot be read and is not compared: {error}")
            return
        if kept is not None and await self._following.restore(kept):
            self._screen.note(f"ZooKeeper had lost the configuration; restored {restoring.describe(kept)}")

    def _check_not_refused(self, configuration: Configuration) -> None:
        refusals = restoring.refusals(self._data.path, configuration)
        if refusals:
            reasons = "\n".join(f"  {name}: {reason}" for name, reason in refusals.items())
            what = (
                f"the configuration in ZooKeeper at {self._zookeeper} is refused by what matchers keep here:\n{reasons}"
            )
            raise ClusterFailed(f"{what}\n{self._what_to_do()}")

    def _what_to_do(self) -> str:
        return restoring.what_to_do(self._data.path, self._zookeeper, self._config)

    def _shape(self) -> Shape:
        """Of the slices that are started now. It is kept when they are about to write their first data."""
        configuration = self._following.configuration
        cluster = f"the cluster '{self._settings.cluster.name}' in ZooKeeper at {self._zookeeper}"
        if configuration is not None:
            check_asked(in_force(configuration), self._asked, cluster)
            self._data.keep_shape(in_force(configuration))
            return taking_part(configuration)
        shape = self._data.read_shape() or numbered(self._settings.slices)
        check_first(shape, f"the data in {self._data.path}", cluster)
        self._data.keep_shape(shape)
        return shape

    def _plan(self) -> Plan:
        return Plan(self._settings, self._zookeeper, self._data, self._config, self._arguments_of)

    def _command_of(self, name: str) -> Command:
        layer = layer_of(name)
        assert layer is not None, "only names of slices are wanted"
        return self._plan().slice(layer, name)

    async def _grow(self) -> None:
        await self._slices_started.wait()
        await self._growing.run()

    def _on_shape(self) -> None:
        self._growing.changed.set()

    def _is_needed(self, name: str) -> bool:
        return is_needed(self._following.configuration, name)

    async def _compile(self) -> None:
        arguments = self._arguments_of_compiler()
        if arguments is not None:
            self._screen.step(compiling.ANNOUNCEMENT)
            child = await self._supervisor.start(compiling.compiler_command(arguments, self._data))
            await compiling.wait_compiled(child)
            self._supervisor.forget(child)

    async def _start_zookeeper(self) -> None:
        log = self._data.log("zookeeper")
        for attempt in range(1, ZOOKEEPER_ATTEMPTS + 1):
            server = await asyncio.to_thread(zookeeper.prepare, self._data.zookeeper)
            child = await self._supervisor.start(
                Command("zookeeper", "zookeeper", server.argv, log, directory=server.directory)
            )
            try:
                await zookeeper.wait_ready(server, ZOOKEEPER_READY_S, child.is_running)
            except zookeeper.ZooKeeperUnusable as error:
                # Somebody else may have taken the free port in the meantime.
                if child.is_running() or attempt == ZOOKEEPER_ATTEMPTS:
                    raise ClusterFailed(f"{error}; its log is {log}:\n{tail(log)}") from None
                self._supervisor.forget(child)
            else:
                self._zookeeper = server.hosts
                self._supervisor.supervise(child)
                return

    async def _wait_ready(self) -> None:
        """Until every connection point says that it is ready."""
        self._screen.step("waiting until the connection points are ready")
        deadline = time.monotonic() + READY_S
        for name in connpoint_ports(self._settings):
            while (reason := await why_not_ready(self._addresses.of(name))) is not None:
                if time.monotonic() > deadline:
                    log = self._data.log(name)
                    raise ClusterFailed(
                        f"{name} was not ready within {READY_S:g} s: {reason}; its log is {log}:\n{tail(log)}"
                    )
                await asyncio.sleep(POLL_S)

    def _write_cluster(self) -> None:
        if self._stop.is_set():
            return
        self._data.write_cluster(
            {
                "pid": os.getpid(),
                "zookeeper": self._zookeeper,
                "api": self._addresses.known(),
                "started": self._started,
                "slices": self._supervisor.pids(),
            }
        )

    async def _bring_down(self) -> None:
        await self._following.stop()
        await self._supervisor.stop_all((compiling.COMPILER, *STOP_ORDER), STOP_PATIENCE_S)


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
            "telemetry": {"sink": "files" if arguments.telemetry else None},
        }
        overrides = {
            section: {name: value for name, value in fields.items() if value is not None}
            for section, fields in given.items()
        }
        settings = load(arguments.config, overrides).settings
        asked: dict[Layer, int] = {
            layer: getattr(settings.slices, layer) for layer in CONFIGURED_LAYERS if layer in slices
        }
    except (ConfigError, ValueError) as error:
        screen.error(str(error))
        return 2

    async def run() -> None:
        await Launcher(
            settings,
            arguments.config,
            asked,
            screen=screen,
            arguments_of=arguments_of,
            arguments_of_compiler=arguments_of_compiler,
        ).run()

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
    parser.add_argument("--telemetry", action="store_true", help="slices write samples of themselves to files")
    parser.add_argument("--quiet", action="store_true", help="say only what goes wrong")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
