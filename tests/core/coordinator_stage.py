"""A coordinator's core beside a small ZooKeeper of plain values, so that a test shows only what it is about."""

from msgspec.structs import replace

from braid.anchor_map import AnchorMap
from braid.config import Slices
from braid.coordination_events import Elected, ReportsChanged, ScalingChanged, SlicesChanged
from braid.scaling import Ask, Report, ScalingRecord, Step
from braid.topology import Change, Configuration, Layer, Phase, Registration, Target
from coordinator.core import Coordinator
from coordinator.events import (
    ConfigurationRead,
    ConfigurationWritten,
    Effect,
    Effects,
    Event,
    Inform,
    ReadConfiguration,
    RecordWritten,
    Sweep,
    Tick,
    WriteConfiguration,
    WriteRecord,
)

OLD = Configuration(4, ("accesspoint-1",), ("matcher-1", "matcher-2"), ("exitpoint-1",), epochs=6)
NAMES = ("accesspoint-1", "matcher-1", "matcher-2", "exitpoint-1")
ID = "scaling-1"
GROW = Ask({"matcher": 3})
CLOCK_S = 1_750_000_000.0


def registered(*names: str, incarnations: dict[str, int] | None = None) -> SlicesChanged:
    """All in their first incarnation, but for those named."""
    found = {}
    for name in names:
        layer: Layer = name.rpartition("-")[0]  # type: ignore[assignment]  # a layer by its name
        found[name] = Registration(name, layer, "h:1", "h:2", 1, (incarnations or {}).get(name, 1), "0")
    return SlicesChanged(found)


def asked(ask: Ask = GROW, id: str = ID) -> ScalingRecord:
    return ScalingRecord(id, ask, asked_s=CLOCK_S - 1)


def change(phase: Phase, matchers: tuple[str, ...] = ("matcher-1", "matcher-2", "matcher-3")) -> Change:
    """From `OLD` to other matchers."""
    names = dict.fromkeys((*OLD.accesspoints, *OLD.matchers, *matchers, *OLD.exitpoints), 1)
    return Change(ID, phase, Target(7, OLD.accesspoints, matchers, OLD.exitpoints), names)


def under_way(phase: Phase, matchers: tuple[str, ...] = ("matcher-1", "matcher-2", "matcher-3")) -> Configuration:
    return replace(OLD, change=change(phase, matchers))


def report(step: Step, slice: str, incarnation: int = 1, **details: float) -> Report:
    return Report(ID, step, slice, incarnation, details)


def reports(step: Step, *slices: str) -> tuple[Report, ...]:
    return tuple(report(step, slice) for slice in slices)


class CoordinatorStage:
    """Effects of ZooKeeper are performed when `answer` is called, as late as a test likes."""

    def __init__(self, configuration: Configuration | None = OLD, record: ScalingRecord | None = None) -> None:
        self.core = Coordinator(Slices(matcher=2))
        self.configuration, self.version, self.record = configuration, 10, record
        self.map: AnchorMap | None = None  # that is asked for
        self.ended: list[ScalingRecord] = []
        self.reports: tuple[Report, ...] = ()
        self.now = 0.0
        self.under_way: list[Effect] = []
        self.informs: list[Inform] = []

    def feed(self, event: Event) -> Effects:
        """What touches ZooKeeper; lines for the log are kept aside."""
        effects = self.core.on_event(event, self.now, CLOCK_S + self.now)
        self.informs += [effect for effect in effects if isinstance(effect, Inform)]
        touching: Effects = [effect for effect in effects if not isinstance(effect, Inform)]
        self.under_way += [effect for effect in touching if not isinstance(effect, Sweep)]
        return touching

    def answer(self) -> Effects:
        """Performs the one effect that is under way."""
        (effect,) = self.under_way
        self.under_way.clear()
        match effect:
            case ReadConfiguration(attempt):
                stands = (self.configuration, self.version, self.record, self.reports, self.map)
                return self.feed(ConfigurationRead(attempt, *stands))
            case WriteConfiguration(attempt, configuration, expected_version, record):
                assert expected_version == self.version
                self.configuration, self.version = configuration, self.version + 1
                self._keep(record)
                return self.feed(ConfigurationWritten(attempt, configuration, self.version))
            case WriteRecord(attempt, record):
                self._keep(record)
                return self.feed(RecordWritten(attempt, record))
        raise AssertionError(effect)

    def elect(self, slices: SlicesChanged) -> Effects:
        """Elects a coordinator that knows the slices, and lets it read."""
        self.feed(slices)
        self.feed(Elected())
        return self.answer()

    def ask(self, record: ScalingRecord) -> Effects:
        """Somebody asks; the coordinator is told, and reads it."""
        self.record = record
        assert isinstance(self.feed(ScalingChanged(record))[0], ReadConfiguration)
        return self.answer()

    def tell(self, *more: Report) -> Effects:
        self.reports += more
        return self.feed(ReportsChanged(ID, self.reports, ()))

    def tick(self, now: float) -> Effects:
        self.now = now
        return self.feed(Tick())

    def _keep(self, record: ScalingRecord | None) -> None:
        if record is not None and record.state != "running":
            self.ended.append(record)
            self.record = None
        elif record is not None:
            self.record = record
