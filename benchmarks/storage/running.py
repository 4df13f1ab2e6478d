"""Runs the same operations against several storages in turn, and measures times, disks and matches."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

import msgspec

from benchmarks.storage.workloads import LIFE_S, Operation
from services.matcher.storage.keys import by_id_entry, entries_of
from services.matcher.storage.records import StoredSubscription

Tell = Callable[[str], None]
_CHUNK = 500  # operations of one variant, before the next has its turn
_SAMPLES = 20
_TICK_S = 0.1  # of the operations' clock: how often queries that are due are asked, and upkeep has its turn


class Target(Protocol):
    """What is measured: a storage behind one of the ways to use it, or another database."""

    def subscribe(self, operation: Operation, lists: Sequence[bytes]) -> int:
        """How many publications it is given."""

    def publish(self, operation: Operation, lists: Sequence[bytes]) -> int:
        """How many subscriptions it concerns."""

    def due(self, now_s: float) -> int: ...

    def maintain(self, now_s: float) -> None: ...

    def disk_bytes(self) -> int: ...

    def close(self) -> None: ...


class Step(msgspec.Struct):
    """An operation with the lists it is for, and the group by which it is reported."""

    operation: Operation
    lists: Sequence[bytes]
    group: str = ""


class Group(msgspec.Struct):
    operations: int = 0
    seconds: float = 0.0

    @property
    def us(self) -> float:
        return self.seconds / self.operations * 1e6 if self.operations else 0.0


class Sample(msgspec.Struct):
    operations: int
    at_s: float  # of the operations' clock
    us_per_operation: float  # since the last sample
    disk_bytes: int
    live_bytes: int  # keys and values of what has not expired


class Measured(msgspec.Struct):
    variant: str
    operations: int = 0
    subscribing: Group = msgspec.field(default_factory=Group)  # with the repeated queries, which are its price
    publishing: Group = msgspec.field(default_factory=Group)
    cpu_seconds: float = 0.0  # of our own process, with LevelDB's thread
    upkeep_seconds: float = 0.0
    upkeep_ms_max: float = 0.0
    matches: int = 0
    groups: dict[str, Group] = {}
    samples: list[Sample] = []

    @property
    def us(self) -> float:
        """Of an operation, with its share of the upkeep."""
        seconds = self.subscribing.seconds + self.publishing.seconds + self.upkeep_seconds
        return seconds / self.operations * 1e6 if self.operations else 0.0

    @property
    def disk_to_live_max(self) -> float:
        """After the first turnovers: by then as much goes as comes."""
        settled = [sample for sample in self.samples if sample.at_s >= 2 * LIFE_S and sample.live_bytes]
        return max((sample.disk_bytes / sample.live_bytes for sample in settled), default=0.0)


def run_together(
    targets: dict[str, Target], steps: Callable[[str], Iterator[Step]], count: int, tell: Tell
) -> list[Measured]:
    """All variants take turns, so that whatever else the machine does disturbs all of them alike."""
    runs = [(_Run(variant, target, count), steps(variant)) for variant, target in targets.items()]
    measured = [one.measured for one, _ in runs]
    try:
        for begin in range(0, count, _CHUNK):
            runs.append(runs.pop(0))  # nobody always follows the same one
            for one, own_steps in runs:
                one.take(list(islice(own_steps, min(_CHUNK, count - begin))))
            shown = ", ".join(f"{one.variant} {one.us:.0f} µs" for one in measured)
            tell(f"{min(begin + _CHUNK, count):,} of {count:,}: {shown}")
    finally:
        for target in targets.values():
            target.close()
    return measured


class _Run:
    def __init__(self, variant: str, target: Target, count: int) -> None:
        self.measured = Measured(variant, groups={}, samples=[])
        self._target = target
        self._count = count
        self._live: deque[tuple[float, int]] = deque()
        self._begin_s: float | None = None
        self._tick_s = 0.0
        self._sampled = (0, 0.0)

    def take(self, chunk: list[Step]) -> None:
        begin = time.process_time()
        self._chunk(chunk)
        self.measured.cpu_seconds += time.process_time() - begin
        for step in chunk:
            self._note_live(step)
        if self.measured.operations >= len(self.measured.samples) * self._count / _SAMPLES:
            self._sample(chunk[-1].operation.now_s)

    def _chunk(self, chunk: list[Step]) -> None:
        measured, target, clock = self.measured, self._target, time.perf_counter
        for step in chunk:
            now_s = step.operation.now_s
            if now_s >= self._tick_s:
                self._tick(now_s)
            begin = clock()
            if isinstance(step.operation.record, StoredSubscription):
                measured.matches += target.subscribe(step.operation, step.lists)
                group = measured.subscribing
            else:
                measured.matches += target.publish(step.operation, step.lists)
                group = measured.publishing
            seconds = clock() - begin
            group.seconds += seconds
            group.operations += 1
            measured.operations += 1
            if step.group:
                own = measured.groups.setdefault(step.group, Group())
                own.seconds += seconds
                own.operations += 1

    def _tick(self, now_s: float) -> None:
        if self._begin_s is None:
            self._begin_s = now_s
        self._tick_s = now_s + _TICK_S
        begin = time.perf_counter()
        self.measured.matches += self._target.due(now_s)
        asked = time.perf_counter()
        self._target.maintain(now_s)
        kept = time.perf_counter() - asked
        self.measured.subscribing.seconds += asked - begin
        self.measured.upkeep_seconds += kept
        self.measured.upkeep_ms_max = max(self.measured.upkeep_ms_max, kept * 1000)

    def _note_live(self, step: Step) -> None:
        record = step.operation.record
        expires_s = record.until_s if isinstance(record, StoredSubscription) else record.expires_s
        entries = entries_of(record, step.lists)
        if isinstance(record, StoredSubscription):
            entries.append(by_id_entry(record, step.lists))
        self._live.append((expires_s, sum(len(key) + len(value) for key, value in entries)))

    def _sample(self, now_s: float) -> None:
        self._live = deque(one for one in self._live if one[0] > now_s)
        live_bytes = sum(size for _, size in self._live)
        operations, seconds = self.measured.operations, self.measured.us * self.measured.operations
        before, seconds_before = self._sampled
        self._sampled = operations, seconds
        self.measured.samples.append(
            Sample(
                operations,
                now_s - (self._begin_s or now_s),
                (seconds - seconds_before) / max(operations - before, 1),
                self._target.disk_bytes(),
                live_bytes,
            )
        )
