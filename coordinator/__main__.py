"""`python -m coordinator`: the async shell around the core. Any number may run; one of them leads."""

import argparse
import asyncio
import signal
import sys
import time
from pathlib import Path

import structlog

from braid.config import ConfigError, Settings, load
from braid.coordination import (
    Coordination,
    CoordinationUnavailable,
    CorruptConfiguration,
    Deposed,
    Elected,
    NotLeading,
    ReportsChanged,
    ScalingChanged,
    SessionExpired,
    SessionRestored,
    SessionSuspended,
    SlicesChanged,
    StaleVersion,
)
from braid.coordination import Event as CoordinationEvent
from braid.http_server import HttpServer
from braid.logs import configure_logs
from braid.probes import probes_app
from coordinator.core import Coordinator
from coordinator.events import (
    AttemptFailed,
    ConfigurationRead,
    ConfigurationWritten,
    Effect,
    Event,
    Inform,
    ReadConfiguration,
    RecordWritten,
    Sweep,
    Tick,
    WriteConfiguration,
    WriteRecord,
)

log = structlog.get_logger()

TICK_S = 1.0
SCALING_TICK_S = 0.1


class Shell:
    """Feeds the core one event after the other and performs what it answers, in order."""

    def __init__(self, settings: Settings) -> None:
        cluster = settings.cluster
        self._core = Coordinator(settings.slices)
        # Bounded by its writers: one tick at a time, an answer per effect, and coalesced changes.
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._tick_waits = False
        self._connected = False
        self._coordination = Coordination(
            cluster.zookeeper, cluster.name, cluster.session_timeout_s, self._on_coordination, follow_scalings=True
        )

    async def run(self, stop: asyncio.Event) -> None:
        await self._coordination.start()
        self._connected = True
        tasks = [asyncio.create_task(self._tick()), asyncio.create_task(self._work())]
        stopping = asyncio.create_task(stop.wait())
        try:
            await self._coordination.lead()
            await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, stopping):
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            await self._coordination.stop()
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _on_coordination(self, event: CoordinationEvent) -> None:
        match event:
            case Elected() | Deposed() | SlicesChanged() | ScalingChanged() | ReportsChanged():
                self._events.put_nowait(event)
            case SessionSuspended() | SessionRestored() | SessionExpired():
                self._connected = isinstance(event, SessionRestored)
                log.info("zookeeper", event_kind=type(event).__name__)

    def not_ready(self) -> list[str]:
        """One that does not lead is ready too: it is there to lead when the other one is not."""
        return [] if self._connected else ["not connected to ZooKeeper"]

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(SCALING_TICK_S if self._core.is_scaling else TICK_S)
            if not self._tick_waits:
                self._tick_waits = True
                self._events.put_nowait(Tick())

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            event = await self._events.get()
            if isinstance(event, Tick):
                self._tick_waits = False
            for effect in self._core.on_event(event, loop.time(), time.time()):
                await self._perform(effect)

    async def _perform(self, effect: Effect) -> None:
        match effect:
            case Inform():
                (log.warning if effect.warning else log.info)(effect.message, **effect.fields)
            case Sweep(keep):
                try:
                    await self._coordination.sweep_scalings(keep)
                except (CoordinationUnavailable, NotLeading) as error:
                    log.info("what scalings left behind is removed the next time", reason=str(error))
            case ReadConfiguration() | WriteConfiguration() | WriteRecord():
                try:
                    self._events.put_nowait(await self._ask(effect))
                except (CoordinationUnavailable, CorruptConfiguration, StaleVersion, NotLeading) as error:
                    self._events.put_nowait(AttemptFailed(effect.attempt, str(error)))

    async def _ask(self, effect: ReadConfiguration | WriteConfiguration | WriteRecord) -> Event:
        match effect:
            case ReadConfiguration(attempt):
                configuration, version = await self._coordination.read_configuration()
                record = await self._coordination.read_running_scaling()
                change = configuration.change if configuration is not None else None
                reports = await self._coordination.read_reports(change.id) if change is not None else ()
                asked = None if record is None else record.asked.named_map
                map = None if asked is None else await self._coordination.read_map(asked)
                return ConfigurationRead(attempt, configuration, version, record, reports, map)
            case WriteConfiguration(attempt, configuration, expected_version, record):
                version = await self._coordination.write_configuration(configuration, expected_version, record)
                return ConfigurationWritten(attempt, configuration, version)
            case WriteRecord(attempt, record):
                await self._coordination.write_record(record)
                return RecordWritten(attempt, record)


async def serve(settings: Settings, http_port: int | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    shell = Shell(settings)
    probes: HttpServer | None = None
    if http_port is not None:
        probes = HttpServer(probes_app("coordinator", shell.not_ready), settings.cluster.host, http_port)
        await probes.start()
    try:
        await shell.run(stop)
    finally:
        if probes is not None:
            await probes.stop()
    log.info("stopped")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m coordinator", description="coordinates one cluster")
    parser.add_argument("--config", type=Path, help="TOML file with settings")
    parser.add_argument("--zookeeper", help="host:port,… of ZooKeeper")
    parser.add_argument("--data", type=Path, help="directory of all state on this machine")
    parser.add_argument("--http-port", type=int, help="of probes and metrics; without it there are none")
    arguments = parser.parse_args(argv)
    given = {"zookeeper": arguments.zookeeper, "data": arguments.data}
    overrides = {"cluster": {name: value for name, value in given.items() if value is not None}}
    try:
        settings = load(arguments.config, overrides).settings
        if not settings.cluster.zookeeper:
            raise ConfigError(
                "no ZooKeeper is given: name one with --zookeeper host:port, "
                "or start a whole cluster with the embedded one: python -m coordinator.launcher"
            )
        configure_logs(settings.logs, process="coordinator")
        asyncio.run(serve(settings, arguments.http_port))
    except (ConfigError, CoordinationUnavailable, OSError) as error:
        print(f"coordinator: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
