"""Kafka under the simulator, connection points whose log is there, and what can happen to them."""

from collections.abc import Callable
from typing import Any

import msgspec

from braid.topology import Registration
from services.connpoint.committed import Committed, note_of, read_note
from services.connpoint.partitions import Logged, PartitionsCore, Record
from tests.simulation.cluster import TRAFFIC_S, Simulation
from tests.simulation.connpoint_node import SimulatedConnPoint
from tests.simulation.network import Scheduler
from tests.simulation.nodes import SimulatedSlice
from tests.simulation.scaling import ScalingSimulation

PARTITIONS = 5
SESSION_S = 1.5
READ_MAX = 3  # records at once, so that somebody may stop between any two


class SimulatedKafka:
    """The ingress topic. What is written arrives in the order in which one connection point wrote it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.records: list[list[Record]] = [[] for _ in range(PARTITIONS)]
        self.committed: dict[int, tuple[int, str]] = {}
        self.readers: list[Callable[[], None]] = []
        self.is_away = False
        self._arrives_s: dict[tuple[str, int], float] = {}
        self._lines: dict[tuple[str, int], list[tuple[bytes, Callable[[], None]]]] = {}

    def write(self, writer: str, partition: int, value: bytes, written: Callable[[], None]) -> None:
        """It is written also when whoever wrote it dies meanwhile."""
        random, now_s = self.scheduler.random, self.scheduler.now_s
        line = self._lines.setdefault((writer, partition), [])
        line.append((value, written))
        arrives_s = max(self._arrives_s.get((writer, partition), 0.0), now_s + random.uniform(0, 0.02))
        self._arrives_s[writer, partition] = arrives_s

        def arrive() -> None:
            if self.is_away:
                self.scheduler.at(0.1, arrive)
                return
            first, told = line.pop(0)
            log = self.records[partition]
            log.append(Record(len(log), int(self.scheduler.now_s * 1000), first))
            self.scheduler.at(random.uniform(0, 0.01), told)
            for read in self.readers:
                self.scheduler.at(random.uniform(0, 0.02), read)

        self.scheduler.at(arrives_s - now_s, arrive)

    def go_away(self, for_s: float) -> None:
        self.scheduler.note(f"Kafka is away for {for_s:.1f} s")
        self.is_away = True

        def come_back() -> None:
            self.scheduler.note("Kafka is back")
            self.is_away = False

        self.scheduler.at(for_s, come_back)


class KafkaConnPoint(SimulatedConnPoint):
    ingress: PartitionsCore  # type: ignore[assignment]  # the same loop over another log

    def __init__(self, *arguments: Any, kafka: SimulatedKafka, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.kafka = kafka
        kafka.readers.append(self._read)

    def reset(self) -> None:
        super().reset()
        self.ingress = PartitionsCore(self.name, PARTITIONS, self.settings)

    def publish(self, publisher: int, ids: list[str], sensor: int, contents: list[bytes]) -> None:
        incarnation, accepted_s = self.incarnation, self.scheduler.now_s

        def written() -> None:
            if self.alive and self.incarnation == incarnation:
                self.ledger.on_acknowledged(publisher, ids, sensor, accepted_s)

        value = msgspec.msgpack.encode(Logged(publisher, contents, accepted_s))
        self.kafka.write(f"{self.name}.{incarnation}", publisher % PARTITIONS, value, written)

    def on_slices(self, slices: dict[str, Registration]) -> None:
        super().on_slices(slices)
        connpoints = {name: r.incarnation for name, r in slices.items() if r.layer == "connpoint"}
        is_registered = connpoints.get(self.name) == self.incarnation
        if taken := self.ingress.on_connpoints(connpoints if is_registered else ()):
            self.scheduler.note(f"{self.name} sees to {taken}")
            self.scheduler.at(self.scheduler.random.uniform(0, 0.05), self._read)

    def lose_session(self) -> None:
        super().lose_session()
        self.ingress.on_connpoints(())

    def _read(self) -> None:
        if not self.alive or self.kafka.is_away:
            return
        now_s = self.scheduler.now_s
        for partition in self.ingress.wanted():
            committed = self.kafka.committed.get(partition)
            self.ingress.on_committed(partition, None if committed is None else read_note(*committed), 0, now_s)
        for partition, position in self.ingress.positions().items():
            records = self.kafka.records[partition][position : position + READ_MAX]
            if records and not self.ingress.is_full:
                self.perform(self.ingress.on_records(partition, records, now_s, 0))
                self.scheduler.at(self.scheduler.random.uniform(0, 0.02), self._read)

    def on_tick(self) -> None:
        super().on_tick()
        self._read()
        if not self.kafka.is_away:
            self._commit(self.ingress.to_commit(self.scheduler.now_s))

    def _commit(self, changed: dict[int, Committed]) -> None:
        """It arrives a little later, also when it is no longer true that the partition is ours."""
        incarnation = self.incarnation

        def arrive() -> None:
            for partition, one in changed.items():
                self.kafka.committed[partition] = (one.offset, note_of(one))
            if self.alive and self.incarnation == incarnation:
                self.ingress.on_commit(changed, self.scheduler.now_s)

        if changed:
            self.scheduler.at(self.scheduler.random.uniform(0, 0.05), arrive)

    def _forget(self, _confirmed: Any) -> None:
        """Kafka does that by itself."""


class KafkaSimulation(Simulation):
    """Links break, one process crashes and starts again, and Kafka goes away for a while."""

    def __init__(self, seed: int, **more: Any) -> None:
        self.kafka: SimulatedKafka | None = None
        super().__init__(seed, **more)

    def _sizes(self) -> list[int]:
        _, *others = super()._sizes()
        return [self.random.randint(2, 3), *others]

    def add_slice(self, name: str) -> SimulatedSlice:
        if not name.startswith("connpoint-"):
            return super().add_slice(name)
        if self.kafka is None:
            self.kafka = SimulatedKafka(self.scheduler)
        slice = KafkaConnPoint(
            name,
            self.scheduler,
            self.network,
            self.zookeeper,
            settings=self._settings,
            ledger=self.ledger,
            kafka=self.kafka,
        )
        self.slices.append(slice)
        self.zookeeper.watchers.append(slice)
        return slice

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        assert self.kafka is not None
        if self.random.random() < 0.5:
            self._at(self.random.uniform(0, TRAFFIC_S), self.kafka.go_away, self.random.uniform(0.1, 4.0))

    def run(self) -> list[str]:
        problems = super().run()
        assert self.kafka is not None
        for partition, records in enumerate(self.kafka.records):
            offset, _ = self.kafka.committed.get(partition, (0, ""))
            if offset != len(records):
                problems.append(f"stuck: {offset} of {len(records)} committed in partition {partition}")
        return problems


class TakenOverSimulation(KafkaSimulation):
    """Connection points die for good, one after the other, until one is left."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, crashes=False)

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        victims = self.random.sample(self.connpoints, len(self.connpoints) - 1)
        for number, victim in enumerate(victims):
            self._at(self.random.uniform(0, TRAFFIC_S / 2) + 3.0 * number, self.end, victim)
        for _ in range(60):
            self.scheduler.at(self.random.uniform(0, TRAFFIC_S), self._publish)

    def end(self, connpoint: SimulatedSlice) -> None:
        assert isinstance(connpoint, KafkaConnPoint)
        connpoint.crash()
        self.ledger.on_disconnected(set(connpoint.delivery.subscribers.values()))
        connpoint.questions.clear()
        self._at(self.random.uniform(0, SESSION_S), self.zookeeper.unregister, connpoint.name)


class TakenForDeadSimulation(KafkaSimulation):
    """A connection point is slow: its session is over, others see to its partitions, and it does not know it.

    It goes on writing, reading, sending and committing until it hears of it; then it registers again.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed, crashes=False)

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        for number in range(2):
            self._at(self.random.uniform(0, TRAFFIC_S / 3) + 3.0 * number, self._expire)
        for _ in range(60):
            self.scheduler.at(self.random.uniform(0, TRAFFIC_S), self._publish)

    def _expire(self) -> None:
        connpoint = self.random.choice(self.connpoints)
        if not connpoint.is_connected():
            return
        self.scheduler.note(f"{connpoint.name} is taken for dead")
        connpoint.deaf = True
        self.zookeeper.unregister(connpoint.name)
        self._at(self.random.uniform(0.1, 2.0), self._hear, connpoint)

    def _hear(self, connpoint: SimulatedConnPoint) -> None:
        """It closes the streams of its subscribers, also of those that came after it was taken for dead."""
        self.ledger.on_disconnected(set(connpoint.delivery.subscribers.values()))
        connpoint.lose_session()
        self._at(self.random.uniform(0.1, 1.0), self._return, connpoint)

    def _return(self, connpoint: SimulatedConnPoint) -> None:
        connpoint.deaf = False
        connpoint.connect()
        self.link_all()


class KafkaScalingSimulation(KafkaSimulation, ScalingSimulation):
    """Connection points crash and come back while publishers move between exit points."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, crashes=True, breaks=True)

    def _victim(self) -> SimulatedSlice:
        return self.random.choice(self.connpoints)
