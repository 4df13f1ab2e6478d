"""Two coordinators beside one ZooKeeper of plain values, under seeded disorder: late news, lost answers, new leaders.

Checked after every write: phases follow each other, no epoch is used twice, the record says what the configuration
says, and only anchored subscriptions lie by a map. In the end every scaling that was asked for has ended.
"""

import random
from collections import Counter, deque

import pytest
from msgspec.structs import replace

from braid.anchor_map import AnchorMap
from braid.config import Slices
from braid.coordination_events import Deposed, Elected, ReportsChanged, ScalingChanged, SlicesChanged
from braid.scaling import NO_MAP, Ask, Report, ScalingRecord, Step
from braid.topology import CONFIGURED_LAYERS, REVERSIBLE, ROUTINGS, Configuration, Layer, Registration
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

STEPS = 1_500
NEXT = {"copying": "moving", "moving": "changing", "changing": "flushing", "flushing": "ending"}
MAPS = {map.version: map for map in (AnchorMap(2, {place: 0}) for place in range(3))}
BEHIND: dict[str, Step] = {"moving": "copied", "changing": "change-ready"}  # what every matcher must have said before


class Candidate:
    def __init__(self) -> None:
        self.core = Coordinator(Slices(accesspoint=1, matcher=2, exitpoint=2))
        self.news: deque[Event] = deque()
        self.terms: deque[int] = deque()  # of the elections that it was not told of yet
        self.term = 0  # under which it writes; ZooKeeper refuses what comes from an earlier one
        self.under_way: deque[tuple[int, Effect]] = deque()


class Disorder:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.configuration: Configuration | None = None
        self.version = -1
        self.record: ScalingRecord | None = None
        self.ended: list[ScalingRecord] = []
        self.asked = 0
        self.epochs = {0}
        self.phases: Counter[tuple[str, str]] = Counter()  # which followed which
        self.mapped = 0  # how often a change that leads to another map was written
        self.reports: dict[tuple[str, str, str], Report] = {}
        self.slices: dict[str, Registration] = {}
        self.incarnations = 0
        self.candidates = [Candidate(), Candidate()]
        self.leader: Candidate | None = None
        self.term = 0
        for name in ("accesspoint-1", "matcher-1", "matcher-2", "exitpoint-1", "exitpoint-2"):
            self.start(name)

    # The world outside the coordinators.

    def start(self, name: str) -> None:
        layer: Layer = name.rpartition("-")[0]  # type: ignore[assignment]  # a layer by its name
        self.incarnations += 1
        self.slices = {**self.slices, name: Registration(name, layer, "h:1", "h:2", 1, self.incarnations, "0")}
        self.tell(SlicesChanged(self.slices))

    def kill(self, name: str) -> None:
        self.slices = {other: each for other, each in self.slices.items() if other != name}
        self.tell(SlicesChanged(self.slices))

    def tell(self, event: Event) -> None:
        for candidate in self.candidates:
            candidate.news.append(event)

    def configured(self) -> list[str]:
        if self.configuration is None:
            return ["accesspoint-1", "matcher-1", "matcher-2", "exitpoint-1", "exitpoint-2"]
        return [name for layer in CONFIGURED_LAYERS for name in self.configuration.union(layer)]

    def ask(self) -> None:
        if self.record is None:
            self.asked += 1
            numbers = {layer: self.random.randint(0, 4) for layer in self.random.sample(CONFIGURED_LAYERS, 2)}
            replaced = tuple(self.random.sample(self.configured(), self.random.randint(0, 1)))
            routing = self.random.choice((None, None, *ROUTINGS))
            map = self.random.choice((None, NO_MAP, *MAPS))
            self.record = ScalingRecord(f"scaling-{self.asked}", Ask(numbers, replaced, routing, map), self.now)
            self.tell(ScalingChanged(self.record))

    def start_missing(self) -> None:
        wanted = [*self.configured(), *(self.record.wants if self.record is not None else ())]
        missing = [name for name in wanted if name not in self.slices]
        if missing:
            self.start(self.random.choice(missing))

    def report(self) -> None:
        change = self.configuration.change if self.configuration is not None else None
        if change is None or not self.slices:
            return
        registration = self.random.choice(list(self.slices.values()))
        steps: dict[str, tuple[Step, ...]] = {
            "matcher": ("copied", "change-ready", "done", "drained"),
            "exitpoint": ("exit-point-matcher-updated", "drained"),
            "accesspoint": ("scale-end", "drained"),
        }
        step = self.random.choice(steps[registration.layer])
        report = Report(change.id, step, registration.name, registration.incarnation)
        if (change.id, step, registration.name) not in self.reports:
            self.reports[change.id, step, registration.name] = report
            self.tell(ReportsChanged(change.id, self.reports_of(change.id), ()))

    def reports_of(self, change: str) -> tuple[Report, ...]:
        return tuple(report for report in self.reports.values() if report.change == change)

    # The coordinators.

    def change_leader(self) -> None:
        if self.leader is not None:
            self.leader.news.append(Deposed())
        self.leader = self.random.choice(self.candidates)
        # A new leader has read who is registered; of a scaling it may still be told late.
        self.leader.news += [SlicesChanged(self.slices), Elected()]
        self.term += 1
        self.leader.terms.append(self.term)

    def feed(self, candidate: Candidate, event: Event) -> None:
        if isinstance(event, Elected):
            candidate.term = candidate.terms.popleft()
        for effect in candidate.core.on_event(event, self.now, self.now):
            if not isinstance(effect, Inform | Sweep):
                candidate.under_way.append((candidate.term, effect))
        assert [term for term, _ in candidate.under_way].count(candidate.term) <= 1

    def deliver(self, candidate: Candidate) -> None:
        if candidate.news:
            self.feed(candidate, candidate.news.popleft())

    def perform(self, candidate: Candidate, rough: bool) -> None:
        if not candidate.under_way:
            return
        term, effect = candidate.under_way.popleft()
        assert not isinstance(effect, Inform | Sweep)
        fate = self.random.choice(["done", "done", "done", "answer lost", "refused"]) if rough else "done"
        answer = self.apply(term, effect) if fate != "refused" else None
        if answer is None or fate == "answer lost":
            answer = AttemptFailed(effect.attempt, fate)
        self.feed(candidate, answer)

    def apply(self, term: int, effect: ReadConfiguration | WriteConfiguration | WriteRecord) -> Event | None:
        match effect:
            case ReadConfiguration(attempt):
                change = self.configuration.change if self.configuration is not None else None
                reports = self.reports_of(change.id) if change is not None else ()
                map = None if self.record is None else MAPS.get(self.record.asked.map or "")
                return ConfigurationRead(attempt, self.configuration, self.version, self.record, reports, map)
            case WriteConfiguration(attempt, configuration, expected_version, record):
                if term != self.term or expected_version != self.version:
                    return None
                self.check(configuration)
                self.configuration, self.version = configuration, self.version + 1
                self.keep(record)
                return ConfigurationWritten(attempt, configuration, self.version)
            case WriteRecord(attempt, record):
                if term != self.term:
                    return None
                self.keep(record)
                return RecordWritten(attempt, record)

    def keep(self, record: ScalingRecord | None) -> None:
        if record is not None:
            assert self.record is not None
            assert self.record.id == record.id
            self.record = record if record.state == "running" else None
            self.ended += [record] if record.state != "running" else []
            self.tell(ScalingChanged(self.record))
        change = self.configuration.change if self.configuration is not None else None
        if change is not None:
            assert self.record is not None
            assert (self.record.id, self.record.phase, self.record.epoch) == (change.id, change.phase, change.to.epoch)
        else:
            assert self.record is None or self.record.phase in ("asked", "gathering")

    def check(self, after: Configuration) -> None:
        before = self.configuration
        to = after.target()
        assert all(each.map is None or each.routing == "anchored" for each in (after, to) if each is not None)
        self.mapped += to is not None and to.map not in (None, after.map)
        if before is None:
            assert (after.epoch, after.change) == (1, None)
            self.epochs.add(1)
        elif before.change is None:
            assert after.change is not None
            assert after.change.phase == "copying"
            assert after.change.to.epoch > max(self.epochs)
            self.epochs.add(after.change.to.epoch)
            assert replace(after, change=None) == before
            assert set(after.change.participants) <= {
                name for layer in CONFIGURED_LAYERS for name in after.union(layer)
            }
        elif after.change is not None:
            assert after == replace(before, change=replace(before.change, phase=NEXT[before.change.phase]))
            if after.change.phase in BEHIND:
                for name in after.union("matcher"):
                    said = self.reports[after.change.id, BEHIND[after.change.phase], name]
                    assert said.incarnation == after.change.participants[name]
            self.phases[before.change.phase, after.change.phase] += 1
        elif before.change.phase in REVERSIBLE:
            self.phases[before.change.phase, "given up"] += 1
            assert after == replace(before, change=None, epochs=before.change.to.epoch)
        else:
            assert before.change.phase == "ending"
            assert after == before.target()

    def run(self) -> None:
        self.change_leader()
        for _ in range(STEPS):
            self.now += self.random.random() * 0.2
            action = self.random.choices(
                ["deliver", "perform", "tick", "report", "start", "kill", "ask", "leader"],
                [20, 20, 10, 20, 5, 0.5, 1, 0.5],
            )[0]
            candidate = self.random.choice(self.candidates)
            match action:
                case "deliver":
                    self.deliver(candidate)
                case "perform":
                    self.perform(candidate, rough=True)
                case "tick":
                    self.feed(candidate, Tick())
                case "report":
                    self.report()
                case "start":
                    self.start_missing()
                case "kill" if self.slices:
                    self.kill(self.random.choice(list(self.slices)))
                case "ask":
                    self.ask()
                case "leader":
                    self.change_leader()
        self.calm_down()

    def calm_down(self) -> None:
        """Nothing goes wrong any more; every deadline may pass."""
        for _ in range(10_000):
            self.now += 0.1
            self.start_missing()
            self.report()
            for candidate in self.candidates:
                self.deliver(candidate)
                self.feed(candidate, Tick())
                self.perform(candidate, rough=False)
            if self.record is None and not any(candidate.news for candidate in self.candidates):
                break


@pytest.mark.parametrize("seed", range(100))
def test_every_scaling_ends_whatever_is_late_or_lost(seed: int) -> None:
    disorder = Disorder(seed)
    disorder.run()
    assert disorder.record is None
    assert disorder.configuration is not None
    assert disorder.configuration.change is None
    assert len(disorder.ended) == disorder.asked
    assert [record.id for record in disorder.ended] == [f"scaling-{n}" for n in range(1, disorder.asked + 1)]


def test_the_disorder_leads_through_every_phase_and_back_from_both_that_allow_it() -> None:
    seen: Counter[tuple[str, str]] = Counter()
    mapped = 0
    for seed in range(20):
        disorder = Disorder(seed)
        disorder.run()
        seen += disorder.phases
        mapped += disorder.mapped
    assert mapped >= 20
    ways = {*NEXT.items(), *((phase, "given up") for phase in REVERSIBLE)}
    assert set(seen) == ways
    assert min(seen.values()) >= 3
