"""The ingress log in Kafka: what is accepted here is written into the partition of its publisher, and whoever sees to
that partition, this connection point or another one, reads it and sends it until it is confirmed.

Some things go on side by side: writing (`kafka_writing.py`), reading the partitions that are ours (`_read`), asking
where those begin that have fallen to us (`_find_positions`) and where those go on of which records are gone
(`_find_lost`), writing down what is confirmed (`_settle`), and giving a name to those that get theirs here
(`_name_anew`). `partitions.py` decides, and `docs/kafka-ingress.md` says why it is right.
"""

import asyncio
import time
from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

import msgspec
import structlog

from braid import metrics
from braid.config import Settings
from braid.messages import Confirmed, Hop
from braid.topology import Configuration
from services.connpoint.committed import Committed
from services.connpoint.ingress_topic import LogLost, ToWrite, Unavailable
from services.connpoint.kafka_writing import KafkaWriting
from services.connpoint.local_log import send_again
from services.connpoint.log import Done, Perform
from services.connpoint.partitions import Logged, PartitionsCore, Record
from services.connpoint.retrying import Batch

log = structlog.get_logger()

_READ_S = 0.1  # how long is waited for records before it is asked again whose the partitions are
_READ_MAX = 500  # records at once
_PAUSE_S = 0.5  # after Kafka did not answer
_PAUSE_S_MAX = 15.0  # to ask again where partitions are to be read; doubled each time up to this
_BACKLOG_S = 1.0  # how often is asked what others have confirmed
_COMPLAIN_S = 10.0
_encode = msgspec.msgpack.Encoder().encode


class Topic(Protocol):
    """What is needed of `ingress_topic.IngressTopic`; every call may raise `Unavailable`."""

    name: str

    async def open(self) -> int: ...
    async def close(self) -> None: ...
    async def write(self, partition: int, records: list[ToWrite]) -> int: ...
    def assign(self, positions: dict[int, int]) -> None: ...
    async def read(self, most: int, timeout_s: float) -> dict[int, list[Record]]: ...
    async def bounds(self, partitions: Iterable[int]) -> dict[int, tuple[int, int]]: ...
    async def first_written_ms(self, partition: int) -> int | None: ...
    async def committed(self) -> dict[int, Committed]: ...
    async def commit(self, committed: dict[int, Committed]) -> None: ...


class KafkaLog:
    def __init__(self, name: str, settings: Settings, topic: Topic, perform: Perform) -> None:
        self._name = name
        self._settings = settings
        self._topic = topic
        self._perform = perform
        self._configuration: Configuration | None = None
        self._connpoints: Collection[str] = ()
        self._partitions = 0
        self._core: PartitionsCore | None = None  # until it is known how many partitions there are
        self._writing = KafkaWriting(topic.write, settings.ingress)
        self._claims: dict[int, int] = {}  # what is assigned now
        self._unnamed: set[int] = set()  # had no name when they were assigned: what is read of them is thrown away
        self._ask_at_s = self._ask_pause_s = 0.0  # where partitions are to be read that have fallen to us
        self._committed: dict[int, Committed] = {}  # by partition, as far as it was last heard
        self._settled_s = self._asked_s = 0.0
        self._settling: asyncio.Task[None] | None = None
        self._finding: asyncio.Task[None] | None = None
        self._looking: dict[int, asyncio.Task[None]] = {}  # by partition, of which records are gone; none is assigned
        self._naming: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._has_room = asyncio.Event()
        self._complained_at = -_COMPLAIN_S
        self.taken_over = 0

    # Life

    async def open(self) -> None:
        """There is nothing on this machine."""

    async def prepare(self) -> None:
        """Whoever is registered has to see to its partitions, so it waits until it can."""
        while True:
            try:
                self._partitions = await self._topic.open()
                break
            except Unavailable as error:
                self._complain("Kafka cannot be reached", str(error))
                await asyncio.sleep(_PAUSE_S)
        self._core = PartitionsCore(self._name, self._partitions, self._settings.ingress)
        if self._configuration is not None:
            self._core.on_configuration(self._configuration)
        self.on_connpoints(self._connpoints)
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def close(self) -> None:
        await self._writing.close()
        begun_by_reading = (self._finding, *self._looking.values(), self._naming)
        for task in (self._reading, *begun_by_reading):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._settling is not None:
            await self._settling
        if self._core is not None:
            await self._settle(self._core)
        await self._topic.close()

    # Publications

    def refusal(self, publisher: int | None = None) -> str:
        if self._core is None:
            return f"Kafka at {self._settings.kafka.bootstrap} has not answered yet"
        if publisher is None:
            return self._told(self._writing.silent_s(), "")
        partition = publisher % self._partitions
        if self._writing.is_doubtful(partition):
            where = f"partition {partition} of {self._topic.name}"
            return f"Kafka at {self._settings.kafka.bootstrap} did not answer for {where}, which is tried again soon"
        return self._overdue(partition)

    def _overdue(self, partition: int) -> str:
        """Others may be written: a partition has no leader for a while when the broker that had it is gone."""
        return self._told(self._writing.waits_s(partition), f" of partition {partition} of {self._topic.name}")

    def _told(self, waits_s: float, where: str) -> str:
        if waits_s < self._settings.ingress.write_s_max:
            return ""
        return f"Kafka at {self._settings.kafka.bootstrap} has not answered for {waits_s:.0f} s{where}"

    def has_room(self, publisher: int, publications: int, size: int) -> bool:
        return self._writing.has_room(publications, size) and self._has_small_backlog(publisher % self._partitions)

    def append(
        self, publisher: int, contents: list[bytes], accepted_s: float, hops: list[Hop] | None, done: Done
    ) -> None:
        value = _encode(Logged(publisher, contents, accepted_s, hops))
        record = ToWrite(publisher.to_bytes(8), value, int(accepted_s * 1000))
        self._writing.queue(publisher % self._partitions, record, len(contents), done)

    @property
    def unconfirmed(self) -> int:
        return self._writing.publications + (0 if self._core is None else self._core.window_publications)

    @property
    def is_drained(self) -> bool:
        """What is in Kafka is seen to by others; with what they write, there may always be something unconfirmed."""
        return not self._writing.publications

    def on_confirmed(self, message: Confirmed, exitpoint: str) -> list[Batch]:
        if self._core is None:
            return []
        forgotten = self._core.on_confirmed(message)
        self._perform(self._core.confirmed_elsewhere(forgotten, exitpoint))
        self._has_room.set()
        return forgotten

    def accepted_s(self, origin: str, sequence: int) -> float | None:
        return None if self._core is None else self._core.accepted_s(origin, sequence)

    def _has_small_backlog(self, partition: int) -> bool:
        return self._backlog(partition) < self._settings.ingress.backlog_batches_max

    def _backlog(self, partition: int) -> int:
        """Unconfirmed, of what was there when something was last written from here; 0 while nobody knows it."""
        committed = self._committed.get(partition)
        return 0 if committed is None else max(0, self._writing.end_of(partition) - committed.offset)

    # The cluster

    def on_configuration(self, configuration: Configuration) -> None:
        self._configuration = configuration
        if self._core is not None:
            self._core.on_configuration(configuration)

    def on_connpoints(self, registered: Collection[str]) -> None:
        self._connpoints = registered
        if self._core is None:
            return
        before = len(self._core.claims())
        taken = self._core.on_connpoints(registered)
        if taken or len(self._core.claims()) != before:
            log.info("partitions", ours=sorted(self._core.claims()), taken_over=taken)
        self.taken_over += len(taken)
        if taken:
            self._ask_at_s = self._ask_pause_s = 0.0
        self._has_room.set()

    def on_slice_returned(self, now_s: float) -> None:
        if self._core is not None:
            self._core.on_slice_returned(now_s)

    def on_tick(self, now_s: float) -> None:
        core = self._core
        if core is None:
            return
        send_again(core, now_s, self._perform)
        for partition in range(self._partitions):
            if overdue := self._overdue(partition):
                self._writing.give_up(partition, f"{overdue}; what was sent may be published all the same")
        if self._settling is None and now_s - self._settled_s >= self._settings.ingress.commit_s:
            self._settled_s = now_s
            self._settling = asyncio.get_running_loop().create_task(self._settle(core))
        metrics.INGRESS_PARTITIONS.set(len(core.claims()))
        metrics.INGRESS_TAKEN_OVER.set(self.taken_over)
        metrics.INGRESS_WAITING.set(self._writing.publications)
        metrics.INGRESS_BACKLOG.set(max(map(self._backlog, range(self._partitions)), default=0))
        metrics.INGRESS_WRITES_FAILED.set(self._writing.failures)
        metrics.INGRESS_LOST_RECORDS.labels("deleted").set(core.missing)
        metrics.INGRESS_LOST_RECORDS.labels("unreadable").set(core.unreadable)

    # Reading

    async def _read(self) -> None:
        core = self._core
        assert core is not None
        while True:
            try:
                await self._read_some(core)
            except Unavailable as error:
                self._complain("Kafka cannot be read", str(error))
                await asyncio.sleep(_PAUSE_S)
            except Exception:
                # Our own mistake, or aiokafka's: what is ours is read again from where it was taken last.
                log.exception("reading Kafka failed")
                self._claims = {}
                await asyncio.sleep(_PAUSE_S)

    async def _read_some(self, core: PartitionsCore) -> None:
        if self._finding is None and core.wanted() and time.monotonic() >= self._ask_at_s:
            self._finding = asyncio.get_running_loop().create_task(self._find_positions(core))
        self._assign(core)
        if self._unnamed and self._naming is None:
            self._naming = asyncio.get_running_loop().create_task(self._name_anew(core))
        if not self._claims:
            if self._finding is not None:
                await asyncio.wait((self._finding,), timeout=_READ_S)
            else:
                await asyncio.sleep(_READ_S)
            return
        try:
            found = await self._topic.read(_READ_MAX, _READ_S)
        except LogLost as error:
            self._look_for(core, error.partitions)
            return
        for partition, records in found.items():
            await self._take(core, partition, records)

    async def _find_positions(self, core: PartitionsCore) -> None:
        """Others are read meanwhile. Who does not say it is asked again later."""
        is_known = False
        try:
            is_known = await self._ask_positions(core)
        except Unavailable as error:
            self._complain("partitions cannot be read yet", str(error))
        except Exception:
            log.exception("partitions cannot be read yet")  # our own mistake; it is tried again
        finally:
            self._ask_pause_s = 0.0 if is_known else min(2 * self._ask_pause_s, _PAUSE_S_MAX) or _PAUSE_S
            self._ask_at_s = time.monotonic() + self._ask_pause_s
            self._finding = None

    async def _ask_positions(self, core: PartitionsCore) -> bool:
        """How far whoever had before what is ours has got; and where a partition begins, if that is not known, which
        one without a leader does not say. Returns whether all have answered.
        """
        wanted, claims = core.wanted(), core.claims()
        committed = await self._topic.committed()
        unknown = [partition for partition in wanted if partition not in committed]
        bounds = await self._topic.bounds(unknown) if unknown else {}
        silent = [partition for partition in unknown if partition not in bounds]
        for partition in wanted:
            if partition not in silent and core.claims().get(partition) == claims[partition]:
                begins, _ = bounds.get(partition, (0, 0))
                core.on_committed(partition, committed.get(partition), begins, time.time())
        if silent:
            self._complain("partitions cannot be read yet", f"nobody answers for {silent}")
        return not silent

    def _assign(self, core: PartitionsCore) -> None:
        """Whatever is ours and of which it is known where to read.

        Those without a name are among them, since nothing is committed of others; named, they are read once more. Those
        of which records are gone are not, until it is known where they go on.
        """
        positions = {p: position for p, position in core.positions().items() if p not in self._looking}
        claims = {partition: claim for partition, claim in core.claims().items() if partition in positions}
        unnamed = claims.keys() & core.to_name().keys()
        if claims != self._claims or unnamed != self._unnamed:
            self._claims, self._unnamed = claims, unnamed
            self._topic.assign(positions)

    async def _name_anew(self, core: PartitionsCore) -> None:
        """Others are read meanwhile: whoever takes commits may be away. What was settled before comes first."""
        try:
            while self._settling is not None:
                await asyncio.wait((self._settling,))
            names = {p: one for p, one in core.to_name().items() if self._claims.get(p) == core.claims()[p]}
            if names:
                await self._topic.commit(names)
                core.on_named(names, time.time())
                self._has_room.set()  # of what is read again, nothing is sent under the name before any more
        except Unavailable as error:
            self._complain("the name of a log cannot be written down", str(error))
            await asyncio.sleep(_PAUSE_S)
        except Exception:
            log.exception("the name of a log cannot be written down")  # our own mistake; it is tried again
            await asyncio.sleep(_PAUSE_S)
        finally:
            self._naming = None

    async def _take(self, core: PartitionsCore, partition: int, records: list[Record]) -> None:
        """As there is room; unless it is no longer ours, or is ours anew: then it is read again."""
        claim = self._claims[partition]
        if partition in self._unnamed:
            return
        for part in _parts(records):
            while core.is_full and core.claims().get(partition) == claim:
                self._has_room.clear()
                await self._has_room.wait()
            if core.claims().get(partition) != claim:
                return
            self._perform(core.on_records(partition, part, time.time(), time.time_ns()))

    def _look_for(self, core: PartitionsCore, partitions: Iterable[int]) -> None:
        for partition in self._claims.keys() & partitions:
            looking = self._find_lost(core, partition, self._claims[partition], partition not in self._unnamed)
            self._looking[partition] = asyncio.get_running_loop().create_task(looking)

    async def _find_lost(self, core: PartitionsCore, partition: int, claim: int, is_named: bool) -> None:
        """Others are read meanwhile: whoever leads this one may be gone again."""
        try:
            await self._ask_what_is_left(core, partition, claim, is_named)
        except Unavailable as error:
            self._complain("partitions cannot be read yet", str(error))
            await asyncio.sleep(_PAUSE_S)
        except Exception:
            log.exception("partitions cannot be read yet")  # our own mistake; it is tried again
            await asyncio.sleep(_PAUSE_S)
        finally:
            del self._looking[partition]

    async def _ask_what_is_left(self, core: PartitionsCore, partition: int, claim: int, is_named: bool) -> None:
        bounds = await self._topic.bounds([partition])
        if partition not in bounds:
            raise Unavailable(f"nobody answers for {[partition]}")
        begins, ends = bounds[partition]
        first_ms = None if begins else await self._topic.first_written_ms(partition)
        position = core.position(partition)
        if core.claims().get(partition) != claim or position is None:
            return
        log.error("records of the ingress log are gone", partition=partition, begins=begins, ends=ends)
        if begins <= position <= ends and is_named:
            log.error("the log was shorter a moment ago; what was written since may not be read", position=position)
        core.on_lost(partition, begins, ends, first_ms, time.time())

    # What is confirmed

    async def _settle(self, core: PartitionsCore) -> None:
        """Writes down what is confirmed, and asks how far the others are."""
        now_s = time.time()
        try:
            changed = {p: one for p, one in core.to_commit(now_s).items() if self._claims.get(p) == core.claims()[p]}
            if changed:
                await self._topic.commit(changed)
                core.on_commit(changed, now_s)
            if now_s - self._asked_s >= _BACKLOG_S:
                self._asked_s = now_s
                await self._on_committed(core, await self._topic.committed())
        except Unavailable as error:
            self._complain("what is confirmed cannot be written down", str(error))
        except Exception:
            log.exception("what is confirmed cannot be written down")  # our own mistake; the next one is tried
        finally:
            self._settling = None

    async def _on_committed(self, core: PartitionsCore, committed: dict[int, Committed]) -> None:
        """How far everybody is. The topic may have been made anew, or the consumer group deleted, since then."""
        for partition, before in self._committed.items():
            now = committed.get(partition)
            if now is None or now.log != before.log:
                self._writing.forget_end(partition)
        self._committed = committed
        if forgotten := core.committed() - committed.keys():
            log.warning("Kafka has forgotten what is confirmed", partitions=sorted(forgotten))
            for partition, (_, ends) in (await self._topic.bounds(forgotten)).items():
                core.on_forgotten(partition, ends)

    def _complain(self, event: str, reason: str) -> None:
        """Now and then, while it is tried all the time."""
        now = time.monotonic()
        if now - self._complained_at >= _COMPLAIN_S:
            self._complained_at = now
            log.warning(event, reason=reason)


def _parts(records: list[Record]) -> Iterator[list[Record]]:
    """Small enough that the window is not exceeded by much."""
    for start in range(0, len(records), 16):
        yield records[start : start + 16]
