"""ZooKeeper and the coordinators under the simulator: one truth, which everybody hears of a little later."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from braid import znodes
from braid.anchor_map import AnchorMap
from braid.config import Slices
from braid.coordination_events import Deposed, Elected, ReportsChanged, ScalingChanged, SlicesChanged
from braid.scaling import Report, ScalingRecord
from braid.topology import Configuration, Registration
from coordinator.core import Coordinator
from coordinator.events import (
    AttemptFailed,
    ConfigurationRead,
    ConfigurationWritten,
    Event,
    Inform,
    ReadConfiguration,
    RecordWritten,
    Sweep,
    Tick,
    WriteConfiguration,
    WriteRecord,
)
from coordinator.scaling import Deadlines
from tests.simulation.network import Scheduler

HEARD_WITHIN_S = 0.03
DEADLINES = Deadlines(gathering_s_max=10.0, moving_s_max=20.0, changing_s_max=5.0, flushing_s_max=5.0, ending_s_max=5.0)


class Watcher(Protocol):
    """A process with a session. It hears the newest of each area, not everything in between."""

    name: str

    def is_connected(self) -> bool: ...
    def on_slices(self, slices: dict[str, Registration]) -> None: ...
    def on_configuration(self, configuration: Configuration) -> None: ...


class SimulatedZooKeeper:
    def __init__(self, scheduler: Scheduler, configuration: Configuration) -> None:
        self.scheduler = scheduler
        self.configuration = configuration
        self.version = 0
        self.slices: dict[str, Registration] = {}
        self.record: ScalingRecord | None = None
        self.maps: dict[str, bytes] = {}  # by version
        self.ended: list[ScalingRecord] = []
        self.reports: dict[str, dict[tuple[str, str], Report]] = {}
        self.watchers: list[Watcher] = []
        self.coordinators: list[SimulatedCoordinator] = []
        self.on_record: Callable[[ScalingRecord | None], None] = lambda _record: None
        self.heard_within_s = HEARD_WITHIN_S
        self.heard_late_s: dict[str, float] = {}  # by layer, where it hears later than the others
        self.is_away = False
        self._told: set[tuple[str, str]] = set()

    def register(self, registration: Registration) -> None:
        self.slices = {**self.slices, registration.name: registration}
        self._tell("slices")

    def unregister(self, name: str) -> None:
        self.slices = {other: registration for other, registration in self.slices.items() if other != name}
        self._tell("slices")

    def go_away(self, for_s: float) -> None:
        """Nobody hears or writes anything; everybody goes on with what it knows. Sessions outlive it."""
        self.scheduler.note(f"ZooKeeper is away for {for_s:.1f} s")
        self.is_away = True
        for coordinator in self.coordinators:
            coordinator.on_away()

        def return_() -> None:
            self.scheduler.note("ZooKeeper is back")
            self.is_away = False
            for watcher in self.watchers:
                self.tell_all(watcher)
            for coordinator in self.coordinators:
                self.tell_all(coordinator)

        self.scheduler.at(for_s, return_)

    def ask(self, record: ScalingRecord, map: AnchorMap | None = None) -> bool:
        """False while another scaling runs."""
        if self.record is not None or self.is_away:
            return False
        self.scheduler.note(f"asked: {record.asked}")
        if map is not None:
            self.maps[map.version] = map.encode()
        self._set_record(record)
        return True

    def report(self, report: Report) -> None:
        self.scheduler.note(f"{report.slice} reports {report.step}")
        self.reports.setdefault(report.change, {})[report.step, report.slice] = report
        self._tell("reports")

    def write(self, configuration: Configuration | None, expected_version: int, record: ScalingRecord | None) -> bool:
        if configuration is not None:
            if expected_version != self.version:
                return False
            self.version += 1
            self.configuration = self._read_back(configuration)
            change = configuration.change
            self.scheduler.note(f"configuration: epoch {configuration.epoch}, {change.phase if change else 'settled'}")
            self._tell("configuration")
        if record is not None:
            self._set_record(record)
        return True

    def _read_back(self, configuration: Configuration) -> Configuration:
        """As others read it, which fails when a map that it names is not there."""
        payload = znodes.encode(configuration)
        maps = {version: self.read_map(version) for version in znodes.maps_named_in(payload)}
        return znodes.decode_configuration(payload, maps)

    def read_map(self, version: str) -> AnchorMap:
        return AnchorMap.decode(self.maps[version])

    def sweep(self) -> None:
        """Maps that nobody names go, unless a scaling runs."""
        if self.record is None and not self.is_away:
            named = znodes.maps_named_in(znodes.encode(self.configuration))
            self.maps = {version: payload for version, payload in self.maps.items() if version in named}

    def _set_record(self, record: ScalingRecord) -> None:
        if record.state != "running":
            self.scheduler.note(f"{record.state}: {record.reason}")
            self.ended.append(record)
        self.record = record if record.state == "running" else None
        self.on_record(self.record)
        self._tell("record")

    def tell_all(self, watcher: "Watcher | SimulatedCoordinator") -> None:
        for area in ("slices", "configuration", "record", "reports"):
            self._tell_one(watcher, area)

    def _tell(self, area: str) -> None:
        for watcher in self.watchers:
            if area in ("slices", "configuration"):
                self._tell_one(watcher, area)
        for coordinator in self.coordinators:
            self._tell_one(coordinator, area)

    def _tell_one(self, watcher: "Watcher | SimulatedCoordinator", area: str) -> None:
        if (watcher.name, area) in self._told:
            return
        self._told.add((watcher.name, area))

        def tell() -> None:
            self._told.discard((watcher.name, area))
            if not watcher.is_connected() or self.is_away:
                return
            if isinstance(watcher, SimulatedCoordinator):
                watcher.on_area(area)
            elif area == "slices":
                watcher.on_slices(self.slices)
            elif area == "configuration":
                watcher.on_configuration(self.configuration)

        within_s = self.heard_late_s.get(watcher.name.rpartition("-")[0], self.heard_within_s)
        self.scheduler.at(self.scheduler.random.uniform(0, within_s), tell)


class SimulatedCoordinator:
    """The real core; its requests take a while, and those of a crashed one are not answered."""

    def __init__(self, name: str, zookeeper: SimulatedZooKeeper) -> None:
        self.name = name
        self.zookeeper = zookeeper
        self.scheduler = zookeeper.scheduler
        self.alive = False
        self._life = 0
        self._leads = False

    def is_connected(self) -> bool:
        return self.alive

    def start(self) -> None:
        self.alive, self._leads = True, False
        self._life += 1
        life = self._life
        self.core = Coordinator(Slices(), DEADLINES)

        def tick() -> None:
            if self.alive and self._life == life:
                self._lead_if_first()
                self._feed(Tick())
                self.scheduler.at(self.scheduler.tick_s, tick)

        self.scheduler.at(self.scheduler.tick_s, tick)
        self.zookeeper.tell_all(self)

    def crash(self) -> None:
        self.scheduler.note(f"{self.name} crashes")
        self.alive = False

    def on_away(self) -> None:
        """Whoever cannot know whether it leads does not."""
        if self.alive and self._leads:
            self._leads = False
            self._feed(Deposed())

    def _lead_if_first(self) -> None:
        if self.zookeeper.is_away:
            return
        first = next((c for c in self.zookeeper.coordinators if c.alive), None)
        if (first is self) != self._leads:
            self._leads = first is self
            self._feed(Elected() if self._leads else Deposed())

    def on_area(self, area: str) -> None:
        zookeeper = self.zookeeper
        if area == "slices":
            self._feed(SlicesChanged(zookeeper.slices))
        elif area == "record":
            self._feed(ScalingChanged(zookeeper.record))
        elif area == "reports" and zookeeper.configuration.change is not None:
            change = zookeeper.configuration.change.id
            self._feed(ReportsChanged(change, self._reports(change), ()))

    def _reports(self, change: str) -> tuple[Report, ...]:
        return tuple(self.zookeeper.reports.get(change, {}).values())

    def _feed(self, event: Event) -> None:
        for effect in self.core.on_event(event, self.scheduler.now_s, self.scheduler.now_s):
            if isinstance(effect, Inform):
                if effect.warning:
                    self.scheduler.note(f"{self.name}: {effect.message} {dict(effect.fields)}")
            elif isinstance(effect, Sweep):
                self.zookeeper.sweep()
            else:
                self._request(effect)  # ZooKeeper is asked, and answers later

    def _request(self, effect: ReadConfiguration | WriteConfiguration | WriteRecord) -> None:
        life = self._life
        pause = self.scheduler.random.uniform

        def perform() -> None:
            if not self.alive or self._life != life:
                return
            # The request has its effect whether or not anybody lives to hear the answer.
            answer = AttemptFailed(effect.attempt, "away") if self.zookeeper.is_away else self._perform(effect)

            def hear() -> None:
                if self.alive and self._life == life:
                    self._feed(answer)

            self.scheduler.at(pause(0, 0.01), hear)

        self.scheduler.at(pause(0, 0.01), perform)

    def _perform(self, effect: ReadConfiguration | WriteConfiguration | WriteRecord) -> Event:
        zookeeper = self.zookeeper
        match effect:
            case ReadConfiguration(attempt):
                configuration = zookeeper.configuration
                change = configuration.change
                reports = () if change is None else self._reports(change.id)
                record = zookeeper.record
                asked = None if record is None else record.asked.named_map
                map = None if asked is None else zookeeper.read_map(asked)
                return ConfigurationRead(attempt, configuration, zookeeper.version, record, reports, map)
            case WriteConfiguration(attempt, configuration, expected_version, record):
                if self._leads and zookeeper.write(configuration, expected_version, record):
                    return ConfigurationWritten(attempt, configuration, zookeeper.version)
                return AttemptFailed(attempt, "another version")
            case WriteRecord(attempt, record):
                if self._leads and zookeeper.write(None, 0, record):
                    return RecordWritten(attempt, record)
                return AttemptFailed(attempt, "not leading")


def registration_of(name: str, incarnation: int) -> Registration:
    layer = name.rpartition("-")[0]
    return msgspec.convert(
        {
            "name": name,
            "layer": layer,
            "address": f"{name}:1",
            "http": "",
            "pid": 1,
            "incarnation": incarnation,
            "version": "simulated",
        },
        Registration,
    )
