"""Reads the source topics and publishes their records: poll, cut, bury what is bad, note, send; one loop.

`partitions.py` decides, `group.py` speaks to Kafka, and `docs/kafka.md` says why it is right. Whatever goes wrong ends
the membership in the group, except with dead letters (`burying.py`); then it begins anew, from what is committed.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Collection

import structlog
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from braid import metrics
from braid.config import Settings
from braid.kafka_clients import text_of
from braid.messages import Confirmed, Send
from braid.topology import Configuration
from services.connpoint.sources.burying import Burying
from services.connpoint.sources.group import OutOfRange, SourceGroup
from services.connpoint.sources.letters import dead_letter
from services.connpoint.sources.notes import Note
from services.connpoint.sources.partitions import Partition, Read, SourceCore
from services.connpoint.sources.records import Record, RecordReader

log = structlog.get_logger()

_POLL_S = 0.1
_POLLS_PER_NOTE = 4  # while there is more: a note costs a round trip to Kafka
_PAUSE_S = 0.5  # after something went wrong; doubled each time up to the most
_PAUSE_S_MAX = 15.0
_GOODBYE_S = 1.0
_COMMIT_S_MAX = 30.0  # without an answer; then the membership ends
_ANSWER_S = 1.0  # for a commit that is given up


class Sources:
    def __init__(self, name: str, settings: Settings, perform: Callable[[list[Send]], None]) -> None:
        self._settings = settings
        self._perform = perform
        self._core = SourceCore(settings.ingress)
        self._group = SourceGroup(name, settings, self)
        self._sources = {source.topic: source for source in settings.kafka.sources}
        self._readers = {topic: RecordReader(source, settings.limits) for topic, source in self._sources.items()}
        self._unclaimed: set[Partition] = set()  # assigned, and it is not known yet where to read from
        self._claim_at_s = self._claim_pause_s = 0.0  # for those that did not say where they begin
        self._changes = 0  # of the group
        self._has_noted = False  # something, in this membership: joining alone is no progress
        self._burying = Burying(self._group.bury)
        self._committing: asyncio.Future[None] | None = None
        self._is_leaving = False
        self._registered = asyncio.Event()
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # Life

    def start(self) -> None:
        if self._sources:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def leave(self) -> None:
        """Others read from now on, from what is committed; what is unconfirmed they send again as the same."""
        self._is_leaving = True
        await self.close()

    async def close(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause_s = _PAUSE_S
        while True:
            await self._registered.wait()
            joined_s, self._has_noted = math.inf, False
            try:
                await self._group.open()
                joined_s = time.monotonic()
                log.info("reading Kafka", topics=sorted(self._sources))
                while self._registered.is_set():
                    await self._step()
            except (KafkaError, OSError, TimeoutError) as error:
                log.warning("Kafka cannot be read", reason=text_of(error))
                metrics.KAFKA_SOURCE_FAILURES.inc()
            except Exception:
                # Our own mistake, or aiokafka's: it begins anew from what is committed, as after any other failure.
                log.exception("reading Kafka failed")
                metrics.KAFKA_SOURCE_FAILURES.inc()
            finally:
                await self._close_group()
            if self._has_noted or time.monotonic() - joined_s > _PAUSE_S_MAX:
                pause_s = _PAUSE_S
            log.info("reading Kafka pauses", pause_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    async def _close_group(self) -> None:
        """What is confirmed and not committed would be sent again by whoever comes next."""
        try:
            async with asyncio.timeout(_GOODBYE_S):
                if notes := self._core.to_note(time.time(), 0.0, self._burying.held):
                    await self._group.commit(notes)
        except (KafkaError, OSError, TimeoutError) as error:
            log.info("what is confirmed is not committed, and will be sent again", reason=text_of(error))
        except Exception:
            log.exception("leaving Kafka failed")
        await self.on_revoked()
        await self._burying.close()
        await self._group.close(leave=self._is_leaving)

    # The group

    async def on_revoked(self) -> None:
        """What is committed from now on would be taken for that of the next membership: nothing may be under way."""
        self._changes += 1
        self._core.on_revoked(self._core.ours)
        self._unclaimed.clear()
        self._burying.forget()
        if self._committing is not None:
            await _given_up(self._committing)

    async def on_assigned(self, partitions: Collection[Partition]) -> None:
        log.info("partitions", ours=sorted(f"{topic}-{number}" for topic, number in partitions))
        self._changes += 1
        self._unclaimed = set(partitions)
        self._claim_at_s = self._claim_pause_s = 0.0

    async def _claim(self) -> None:
        """Finds out where whoever had these before has got to; and where a partition begins, if nobody had it.

        One that has no leader does not say so: it is asked again later, and all others are read between two askings.
        """
        wanted, changes = list(self._unclaimed), self._changes
        if not wanted or time.monotonic() < self._claim_at_s:
            return
        notes = await self._group.notes(wanted)
        unknown = [partition for partition in wanted if partition not in notes]
        bounds = await self._group.bounds(unknown) if unknown else {}
        if changes != self._changes:
            return
        for partition, (begins, ends) in bounds.items():
            notes[partition] = Note(begins if self._sources[partition.topic].begin == "earliest" else ends)
        for partition in [partition for partition in wanted if partition in notes]:
            self._group.seek(partition, self._core.on_assigned(partition, notes[partition], time.time()))
            self._unclaimed.discard(partition)
        pause_s = min(2 * self._claim_pause_s, _PAUSE_S_MAX) or _PAUSE_S
        self._claim_pause_s = pause_s if self._unclaimed else 0.0
        self._claim_at_s = time.monotonic() + self._claim_pause_s

    # The loop

    async def _step(self) -> None:
        await self._claim()
        try:
            await self._read()
        except OutOfRange as error:
            await self._find_bounds(error.partitions)
        await self._burying.settle()
        if notes := self._core.to_note(time.time(), self._settings.kafka.commit_s, self._burying.held):
            await self._commit(notes)
        self._perform(self._core.to_send(time.time(), time.time_ns(), self._burying.held))

    async def _read(self) -> None:
        held = self._burying.held
        readable = self._core.readable(held)
        if not readable:
            self._room.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._room.wait()
            return
        for poll in range(_POLLS_PER_NOTE):
            found = await self._group.poll(readable, self._settings.kafka.poll_records_max, 0.0 if poll else _POLL_S)
            ours = set(self._core.ours)
            for partition, records in found.items():
                if partition in ours:
                    self._take(partition, records)
            readable = self._core.readable(held)
            if not found or not readable:
                break
            await asyncio.sleep(0)  # others have a turn
        for partition in self._core.awaited():
            changes, position = self._changes, await self._group.position(partition)
            if changes != self._changes:
                return
            self._core.on_read(partition, (), position, time.time())

    def _take(self, partition: Partition, records: list[Record]) -> None:
        contents, bad = self._readers[partition.topic].read_all(records)
        letters = self._sources[partition.topic].dead_letter_topic
        self._burying.add(partition, [dead_letter(record, reason, letters) for record, reason in bad])
        taken = list(map(Read, [record.offset for record in records], contents))
        metrics.KAFKA_SOURCE_RECORDS.labels(partition.topic, "published").inc(len(records) - len(bad))
        metrics.KAFKA_SOURCE_RECORDS.labels(partition.topic, "dead letter").inc(len(bad))
        self._core.on_read(partition, taken, records[-1].offset + 1, time.time())

    async def _find_bounds(self, partitions: list[Partition]) -> None:
        changes, bounds = self._changes, await self._group.bounds(partitions)
        if changes != self._changes:
            return
        for partition, (begins, ends) in bounds.items():
            if partition not in self._core.ours:
                continue  # it is ours anew, and not claimed yet
            log.error("records are gone before they were read", partition=partition, begins=begins, ends=ends)
            if begins <= (position := self._core.read_to(partition)) <= ends:
                log.error("the log was shorter a moment ago; what was written since may not be read", position=position)
            self._group.seek(partition, self._core.on_out_of_range(partition, begins, ends, time.time()))

    async def _commit(self, notes: dict[Partition, Note]) -> None:
        """What is noted may be sent; a change of the group meanwhile undoes all of it."""
        changes, committing = self._changes, asyncio.ensure_future(self._group.commit(notes))
        self._committing = committing
        try:
            _, unanswered = await asyncio.wait((committing,), timeout=_COMMIT_S_MAX)
        finally:
            self._committing = None
            await _given_up(committing)
        if unanswered:
            raise TimeoutError(f"a commit was not answered within {_COMMIT_S_MAX:g} s")
        if committing.cancelled():
            return
        try:
            committing.result()
        except (CommitFailedError, IllegalStateError) as error:
            log.warning("the group has changed", reason=text_of(error))
            if changes == self._changes:
                await self.on_revoked()  # aiokafka joins again by itself
        else:
            self._has_noted = True
            self._core.on_noted(notes, time.time())

    # The cluster

    def on_registration(self, registered: bool) -> None:
        """One that is not part of the cluster leaves its partitions to others."""
        if registered:
            self._registered.set()
        else:
            self._registered.clear()

    def on_configuration(self, configuration: Configuration) -> None:
        self._core.on_configuration(configuration)

    def on_slice_returned(self, now_s: float) -> None:
        self._core.on_slice_returned(now_s)

    def on_confirmed(self, message: Confirmed, exitpoint: str) -> None:
        forgotten = self._core.on_confirmed(message)
        self._perform(self._core.confirmed_elsewhere(forgotten, exitpoint))
        if forgotten:
            self._room.set()

    def on_tick(self, now_s: float) -> None:
        again = self._core.on_tick(now_s)
        if again:
            oldest = again[0].messages[0]
            log.warning("sent again", batches=len(again), origin=oldest.origin, sequence=oldest.sequence)
            self._perform(again)
        lags = dict.fromkeys(self._sources, 0)
        for partition, offset in self._core.offsets().items():
            lags[partition.topic] += self._group.lag(partition, offset)
        for topic, lag in lags.items():
            metrics.KAFKA_SOURCE_LAG.labels(topic).set(lag)
        metrics.KAFKA_SOURCE_PARTITIONS.set(len(self._core.ours))
        metrics.KAFKA_SOURCE_WINDOW.set(self._core.window_publications)
        metrics.KAFKA_SOURCE_AGAIN.set(self._core.sent_again)
        metrics.KAFKA_SOURCE_LOST.set(self._core.lost)


async def _given_up(committing: asyncio.Future[None]) -> None:
    """Waits for its answer, which comes soon or never: aiokafka sends a commit from a task of its own, and when that
    fails after nobody waits for it any more, asyncio tells of an exception that was never retrieved.
    """
    if not committing.done():
        await asyncio.wait((committing,), timeout=_ANSWER_S)
        committing.cancel()
        await asyncio.wait((committing,))
    if not committing.cancelled():
        committing.exception()
