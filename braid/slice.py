"""The shell that all four layers share: it registers the slice, keeps its links, and turns messages into handler calls.

A layer's shell says which slices it links to and handles runs of messages of one kind; everything else is here.
"""

import asyncio
import gc
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import structlog

from braid import garbage, metrics
from braid.addresses import announced_host
from braid.claiming import ClaimedName
from braid.codec import PROTOCOL, PROTOCOL_VERSION, Hello
from braid.config import Settings
from braid.coordination import Coordination
from braid.coordination_events import (
    ConfigurationChanged,
    Event,
    Registered,
    RegistrationRefused,
    SessionExpired,
    SessionRestored,
    SessionSuspended,
    SlicesChanged,
)
from braid.draining import Draining
from braid.http_server import HttpServer
from braid.kept_configuration import REFUSED
from braid.leaving import Known
from braid.links import LinkPool
from braid.logs import set_log_field
from braid.longest import LongestSteps
from braid.messages import AnyMessage, Send
from braid.probes import probes_app
from braid.reporting import Reporting
from braid.scaling import ReportStep
from braid.telemetry.sampling import Sampling, State, sampling_of
from braid.telemetry.totals import total_of
from braid.topology import Configuration, Layer, Registration
from braid.tracing import TRACED_KINDS, log_traced
from braid.version import VERSION

log = structlog.get_logger()

TICK_S = 0.1


class Slice(ABC):
    """One running process of a layer."""

    layer: ClassVar[Layer]
    pause_upstream: ClassVar[bool] = True  # backpressure: stop reading upstream while downstream is full
    held_messages_max: ClassVar[int] = 20_000  # for a downstream slice that is being started again

    def __init__(self, name: str, settings: Settings, http_port: int) -> None:
        self.name = name
        self.settings = settings
        self.incarnation = time.time_ns() // 1_000_000
        self.directory: Path = settings.cluster.data / name
        self._http_port = http_port
        self._slices: dict[str, Registration] = {}
        self._configuration: Configuration | None = None
        self._registered = False
        self._disconnected_at_s: float | None = None  # when the connection to ZooKeeper was lost, of the loop's time
        self._claimed: ClaimedName | None = None  # the name, unless it was given
        self._draining: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._slices_known = asyncio.Event()
        self.exit_code = 0
        self.links = LinkPool(
            self,
            Hello(PROTOCOL, PROTOCOL_VERSION, settings.cluster.name, name, self.layer, self.incarnation),
            settings.links,
            pause_upstream=self.pause_upstream,
            held_messages_max=self.held_messages_max,
        )
        self.coordination = Coordination(
            settings.cluster.zookeeper, settings.cluster.name, settings.cluster.session_timeout_s, self._on_event
        )
        self._reporting = Reporting(name, self.incarnation, self.coordination)
        self.longest_steps = LongestSteps(self.layer)
        self._unwatch: Callable[[], None] = lambda: None  # of garbage
        self._sampling: Sampling | None = sampling_of(settings, self.layer, name, self.incarnation, self._state)
        self.measures = None if self._sampling is None else self._sampling.measures  # None: nobody wants telemetry

    # What a layer fills in

    async def open(self) -> None:
        """Opens what the layer keeps on disk, before anybody can reach it."""

    @abstractmethod
    async def serve_http(self, host: str, port: int) -> int:
        """Starts the layer's HTTP door and returns its port."""

    async def close(self) -> None:
        """The reverse of `open` and `serve_http`."""

    async def prepare(self) -> None:
        """The cluster is known, and does not know of this slice yet: whatever takes long is done now."""

    async def drain(self) -> str:
        """Told to stop: lets others take over, then says why it may stop. Bounded by `cluster.drain_s`."""
        return await Draining(self.name, self.layer, self.coordination, self._known_for_leaving).run()

    @abstractmethod
    def targets(self) -> list[str]:
        """Names of the slices this one keeps links to."""

    def needed(self) -> list[str]:
        """Those of them without which it does not count as ready."""
        return self.targets()

    @abstractmethod
    def handle(self, peer: Hello, kind: type[AnyMessage], run: list[Any]) -> None:
        """One run of messages of one kind, in order. The visible `match` of every layer."""

    def objection(self, _configuration: Configuration) -> str:
        """Why this slice must not follow a configuration; it stops instead. Empty when it may."""
        return ""

    def on_configured(self, configuration: Configuration) -> None: ...
    def on_slices(self, slices: dict[str, Registration]) -> None: ...
    def on_registration(self, registered: bool) -> None: ...
    def on_peer_up(self, peer: Hello) -> None: ...
    def on_peer_down(self, peer: Hello) -> None: ...
    def on_tick(self, now_s: float) -> None: ...

    def totals(self) -> dict[str, int]:
        """For telemetry: what the metrics have counted since the start."""
        return {"messages": total_of(metrics.MESSAGES, layer=self.layer)}

    def queues(self) -> dict[str, int]:
        """For telemetry: what waits in this slice."""
        return {"link_bytes": self.links.unsent_bytes}

    # Messages

    def on_messages(self, peer: Hello, messages: list[AnyMessage]) -> None:
        for kind, group in groupby(messages, type):
            run = list(group)
            name = kind.__name__
            started, started_processor = time.perf_counter(), time.thread_time()
            self.handle(peer, kind, run)
            if kind in TRACED_KINDS:
                log_traced(run)
            handling, count, size = self._metrics_of(name)
            handling.observe(time.perf_counter() - started)
            self.longest_steps.note(name, time.thread_time() - started_processor)
            count.inc(len(run))
            size.observe(len(run))

    def reject(self, peer: Hello, kind: type[AnyMessage]) -> None:
        """A message that this layer never gets from an honest peer."""
        log.error("a message this layer does not handle", peer=peer.name, message=kind.__name__)
        metrics.MESSAGES_DROPPED.labels(self.layer, "not for this layer").inc()

    def perform(self, effects: Sequence[Send | ReportStep]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.links.send(effect.to, effect.messages)
            else:
                self._reporting.report(effect)

    def show_progress(self, details: dict[str, float]) -> None:
        """How far this slice is in the scaling under way, if there is one."""
        self._reporting.show(details)

    def _metrics_of(self, message: str) -> tuple[Any, Any, Any]:
        found = _METRICS.get(message)
        if found is None:
            found = _METRICS[message] = (
                metrics.HANDLING_SECONDS.labels(self.layer, message),
                metrics.MESSAGES.labels(self.layer, message),
                metrics.BATCH_SIZE.labels(self.layer, message),
            )
        return found

    # Coordination

    def configuration(self) -> Configuration | None:
        return self._configuration

    def slices(self) -> list[Registration]:
        return list(self._slices.values())

    def _state(self) -> State:
        configuration = self._configuration
        if configuration is None:
            return State(0, self.layer == "connpoint", self.totals(), self.queues())
        in_force = configuration.in_force()
        takes_part = self.layer == "connpoint" or self.name in in_force.of_layer(self.layer)
        return State(in_force.epoch, takes_part, self.totals(), self.queues())

    @property
    def is_registered(self) -> bool:
        return self._registered

    @property
    def is_draining(self) -> bool:
        return self._draining is not None

    def _on_event(self, event: Event) -> None:
        match event:
            case SlicesChanged(slices):
                self._slices = dict(slices)
                self._slices_known.set()
                self.on_slices(self._slices)
                self._retarget()
            case ConfigurationChanged(configuration) if configuration is not None:
                if objection := self.objection(configuration):
                    log.error("the configuration in ZooKeeper is refused", reason=objection)
                    self.exit_code = REFUSED
                    self._stopping.set()
                    return
                self._configuration = configuration
                epoch = configuration.in_force().epoch
                metrics.EPOCH.labels(self.layer).set(epoch)
                set_log_field("epoch", epoch)
                change = configuration.change
                log.info("configured", phase="" if change is None else change.phase)
                self._reporting.on_change(None if change is None else change.id)
                self._retarget()  # before it is told, so that what it has to say to new slices waits for their links
                with self.longest_steps.noting("configuration"):
                    self.on_configured(configuration)
            case ConfigurationChanged():
                log.info("waiting for a configuration")
            case Registered():
                log.info("registered")
                self._registered = True
                self.links.answer_again()
                self.on_registration(True)
                self._retarget()
            case SessionExpired():
                log.warning("the ZooKeeper session is lost; not answering until registered again")
                self._registered, self._disconnected_at_s = False, None
                self.links.stop_answering("the slice lost its ZooKeeper session")
                self.on_registration(False)
            case SessionSuspended():
                log.warning("ZooKeeper cannot be reached; going on under the configuration in force")
                self._disconnected_at_s = asyncio.get_running_loop().time()
            case SessionRestored():
                log.info("ZooKeeper is reached again")
                self._disconnected_at_s = None
            case RegistrationRefused():
                log.error("the registration was refused", reason=str(event))
                self.exit_code = 1
                self._stopping.set()
            case _:
                log.debug("an event of no interest", coordination_event=type(event).__name__)

    def _retarget(self) -> None:
        if self._registered:
            wanted = self.targets()
            known = {name: self._slices[name].address for name in wanted if name in self._slices}
            self.links.retarget(known, [name for name in wanted if name not in known])

    # Life

    def succeed(self, claimed: ClaimedName) -> None:
        """This slice has its name by a claim: whoever held it before is gone, whatever ZooKeeper says."""
        self._claimed = claimed
        claimed.hold_as(self.incarnation)

    def stop(self) -> None:
        """Ends `run`."""
        self._stopping.set()

    def on_signal(self) -> None:
        """The first one lets others take over, if there is time for that; the second one ends it."""
        if self._draining is None and self._registered and self.settings.cluster.drain_s > 0:
            self._draining = asyncio.get_running_loop().create_task(self._drain())
        else:
            self._stopping.set()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.on_signal)
        stopping = asyncio.create_task(self._stopping.wait())
        starting = asyncio.create_task(self._start())
        try:
            await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await self._tick_until_stopped()
        except Exception as error:
            log.error("the slice cannot run", reason=str(error), kind=type(error).__name__)
            self.exit_code = 1
        finally:
            tasks = [task for task in (starting, stopping, self._draining) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._shut_down()
        return self.exit_code

    async def _start(self) -> None:
        host = self.settings.cluster.host
        self.directory.mkdir(parents=True, exist_ok=True)
        await self.open()
        port = await self.links.listen(host, 0)
        http_host = self.settings.api.host if self.layer == "connpoint" else host
        http_port = await self.serve_http(http_host, self._http_port)
        await self.coordination.start()
        # Whoever links to this slice may count on it to know the others: an exit point that knows no connection
        # point would take every notification for undeliverable.
        async with asyncio.timeout(self.settings.cluster.session_timeout_s):
            await self._slices_known.wait()
        await self.prepare()
        cluster = self.settings.cluster
        announced = await asyncio.to_thread(announced_host, host, cluster)
        announced_http = await asyncio.to_thread(announced_host, http_host, cluster)
        registration = Registration(
            self.name,
            self.layer,
            f"{announced}:{port}",
            f"{announced_http}:{http_port}",
            os.getpid(),
            self.incarnation,
            VERSION,
        )
        predecessor = None if self._claimed is None else self._claimed.predecessor
        await self.coordination.register(registration, predecessor)
        if self._sampling is not None:
            await self._sampling.start()
        gc.freeze()  # what was imported will not become garbage
        self._unwatch = garbage.watch(self.longest_steps.note)

    async def _tick_until_stopped(self) -> None:
        loop = asyncio.get_running_loop()
        lag = metrics.LOOP_LAG_SECONDS.labels(self.layer)
        while not self._stopping.is_set():
            expected = loop.time() + TICK_S
            await asyncio.sleep(TICK_S)
            lag.set(max(0.0, loop.time() - expected))
            with self.longest_steps.noting("tick"):
                self.on_tick(time.time())
            self.longest_steps.show(loop.time())

    async def _drain(self) -> None:
        patience_s = self.settings.cluster.drain_s
        log.info("told to stop; others take over first", seconds_max=patience_s)
        metrics.DRAINING.labels(self.layer).set(1)
        try:
            async with asyncio.timeout(patience_s):
                log.info("may stop", why=await self.drain())
        except TimeoutError:
            log.warning("stops although others have not taken over: cluster.drain_s is over")
        finally:
            self._stopping.set()

    def _known_for_leaving(self) -> Known:
        since_s = self._disconnected_at_s
        disconnected_s = 0.0 if since_s is None else asyncio.get_running_loop().time() - since_s
        return Known(self._configuration, self._slices, disconnected_s)

    async def _shut_down(self) -> None:
        log.info("stopping")
        self._unwatch()
        self._reporting.close()
        if self._sampling is not None:
            await self._sampling.stop()
        await self.coordination.stop()
        await self.close()
        await self.links.close()
        log.info("stopped")


class ProbedSlice(Slice):
    """A slice without a public interface: its HTTP door has probes and metrics only."""

    _http: HttpServer | None = None

    async def serve_http(self, host: str, port: int) -> int:
        self._http = HttpServer(probes_app(self.name, self.not_ready), host, port)
        return await self._http.start()

    async def close(self) -> None:
        if self._http is not None:
            await self._http.stop()

    def not_ready(self) -> list[str]:
        reasons = [] if self.is_registered else ["not registered with ZooKeeper"]
        if self.configuration() is None:
            reasons.append("no configuration yet")
        return reasons + [f"no link to {name}" for name in self.needed() if not self.links.is_linked(name)]


_METRICS: dict[str, tuple[Any, Any, Any]] = {}
