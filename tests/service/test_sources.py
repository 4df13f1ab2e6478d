"""Sources with a consumer group in memory: what happens when the group changes while something else is under way."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiokafka.errors import CommitFailedError, IllegalGenerationError, KafkaError

from braid.config import Settings
from braid.messages import Confirmed, Publications, Send
from braid.topology import Configuration
from services.connpoint.sources import reading
from services.connpoint.sources.group import OutOfRange
from services.connpoint.sources.letters import DeadLetter
from services.connpoint.sources.notes import Cut, Note
from services.connpoint.sources.partitions import Partition
from services.connpoint.sources.reading import Sources
from services.connpoint.sources.records import Record
from tests.service.waiting import until

AIR = Partition("air", 0)
NOW_S = 1_700_000_000.0
SETTINGS = Settings.model_validate({"kafka": {"bootstrap": "nowhere:9", "sources": [{"topic": "air"}]}})


class ARecord(msgspec.Struct):
    offset: int
    value: bytes | None
    topic: str = "air"
    partition: int = 0
    timestamp: int = 1_700_000_000_000
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()


class FakeGroup:
    """One partition. Whatever is in `held` is waited for: an answer that takes its time."""

    def __init__(self, partition: Partition = AIR) -> None:
        self.partition = partition
        self.poll_fails: list[Exception] = []
        self.records: list[ARecord] = []
        self.note: Note | None = None
        self.begins = 0
        self.position_at = 0
        self.letters: list[DeadLetter] = []
        self.held: dict[str, asyncio.Event] = {}
        self.reached: set[str] = set()  # calls that wait
        self.commit_fails: list[Exception] = []
        self.opened = 0
        self.left: bool | None = None  # None until it was closed

    def hold(self, call: str) -> None:
        self.held[call] = asyncio.Event()

    async def _wait(self, call: str) -> None:
        if (held := self.held.get(call)) is not None:
            self.reached.add(call)
            await held.wait()

    async def open(self) -> None:
        self.opened += 1

    async def close(self, *, leave: bool = False) -> None:
        self.left = leave

    async def poll(self, partitions: Iterable[Partition], most: int, timeout_s: float) -> dict[Partition, list[Record]]:
        await asyncio.sleep(0.001)
        await self._wait("poll")
        if self.poll_fails:
            raise self.poll_fails.pop()
        if self.position_at < self.begins:
            raise OutOfRange([self.partition])
        found: list[Record] = [record for record in self.records if record.offset >= self.position_at]
        if not found:
            return {}
        self.position_at = found[-1].offset + 1
        return {self.partition: found}

    async def position(self, partition: Partition) -> int:
        await self._wait("position")
        return self.position_at

    def seek(self, partition: Partition, offset: int) -> None:
        self.position_at = offset

    def lag(self, partition: Partition, offset: int) -> int:
        return 0

    async def notes(self, partitions: Iterable[Partition]) -> dict[Partition, Note]:
        return {} if self.note is None else {self.partition: self.note}

    async def bounds(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
        await self._wait("bounds")
        return {self.partition: (self.begins, len(self.records))}

    async def commit(self, notes: dict[Partition, Note]) -> None:
        """As aiokafka does it: from a task of its own, which goes on when nobody waits any more."""
        try:
            await asyncio.shield(asyncio.ensure_future(self._commit(notes)))
        except IllegalGenerationError as error:
            raise CommitFailedError from error

    async def _commit(self, notes: dict[Partition, Note]) -> None:
        await self._wait("commit")
        if self.commit_fails:
            raise self.commit_fails.pop()
        self.note = notes[self.partition]

    async def bury(self, letters: list[DeadLetter]) -> list[Exception | None]:
        written = list(letters)
        await self._wait("bury")
        for letter, one in zip(letters, written, strict=True):
            assert letter is one
        self.letters += letters
        return [None] * len(letters)


class Reading:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[Publications] = []
        self.group = FakeGroup()
        monkeypatch.setattr(reading, "SourceGroup", lambda *_: self.group)
        self.sources = Sources("connpoint-1", SETTINGS, self._perform)
        self.sources.on_configuration(Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",)))

    def _perform(self, sends: list[Send]) -> None:
        self.sent += [message for send in sends for message in send.messages]

    def write(self, *values: bytes) -> None:
        for value in values:
            self.group.records.append(ARecord(len(self.group.records), value))

    async def until_reached(self, call: str) -> None:
        await until(lambda: call in self.group.reached)

    def sequences(self) -> list[int]:
        return [message.sequence for message in self.sent]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is logged as our own mistake."""
    found: list[str] = []
    monkeypatch.setattr(reading.log, "exception", lambda event, **_: found.append(event), raising=False)
    return found


@asynccontextmanager
async def reading_air(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[FakeGroup], object] = id
) -> AsyncIterator[Reading]:
    monkeypatch.setattr(reading, "_PAUSE_S", 0.001)
    here = Reading(monkeypatch)
    before(here.group)
    here.sources.start()
    here.sources.on_registration(True)
    await here.sources.on_assigned([AIR])
    try:
        yield here
    finally:
        for held in here.group.held.values():
            held.set()
        await here.sources.close()


async def test_a_commit_that_a_change_of_the_group_overtakes_is_answered_before_it_joins_again(
    monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    """Frozen for longer than its session, a connection point finds a commit under way that Kafka does not take."""
    unretrieved: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unretrieved.append(context))
    async with reading_air(monkeypatch) as here:
        here.group.hold("commit")
        here.write(b"{}")
        await here.until_reached("commit")
        here.group.commit_fails.append(IllegalGenerationError())
        revoking = asyncio.create_task(here.sources.on_revoked())
        await asyncio.sleep(0.01)
        assert not revoking.done(), "nothing may be under way when it joins again"
        here.group.held.pop("commit").set()
        await revoking
        assert here.sent == []
        await here.sources.on_assigned([AIR])
        await until(lambda: here.sequences() == [1])
    gc.collect()
    await asyncio.sleep(0)
    assert (unretrieved, told) == ([], [])


async def test_a_commit_that_is_not_answered_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_ANSWER_S", 0.01)
    async with reading_air(monkeypatch) as here:
        here.group.hold("commit")
        here.write(b"{}")
        await here.until_reached("commit")
        await here.sources.on_revoked()
        assert here.sent == []


async def test_a_commit_without_an_answer_ends_the_membership(monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
    """Kafka may be away for long; nobody waits for one answer for ever."""
    for wait in ("_COMMIT_S_MAX", "_ANSWER_S", "_GOODBYE_S"):
        monkeypatch.setattr(reading, wait, 0.01)
    async with reading_air(monkeypatch) as here:
        here.group.hold("commit")
        here.write(b"{}")
        await until(lambda: here.group.opened == 2)
        assert here.sent == []
        here.group.held.pop("commit").set()
        await here.sources.on_assigned([AIR])
        await until(lambda: here.sequences() == [1])
    assert told == []


async def test_a_change_of_the_group_while_dead_letters_are_written(
    monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    async with reading_air(monkeypatch) as here:
        here.group.hold("bury")
        here.write(b"{", b"{}")
        await here.until_reached("bury")
        await here.sources.on_revoked()
        here.group.held.pop("bury").set()
        await here.sources.on_assigned([AIR])
        await until(lambda: here.sequences() == [1])
        assert here.group.opened == 1
        assert len(here.group.letters) == 2, "again by whoever reads it again"
    assert told == []


async def test_a_change_of_the_group_while_it_is_asked_where_it_is(
    monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    def noted(group: FakeGroup) -> None:
        """By an earlier one, of whose records some are missing."""
        group.note = Note(0, 1, (Cut(5, 1),))
        group.hold("position")

    async with reading_air(monkeypatch, noted) as here:
        await here.until_reached("position")
        await here.sources.on_revoked()
        here.group.held.pop("position").set()
        await here.sources.on_assigned([AIR])
        here.write(*[b"{}"] * 5)
        await until(lambda: here.sequences() == [1])
        assert here.group.opened == 1
    assert told == []


async def test_what_is_gone_of_a_partition_that_is_ours_anew(monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
    async with reading_air(monkeypatch) as here:
        await until(lambda: here.sources._core.ours)
        here.group.hold("poll")
        await here.until_reached("poll")
        await here.sources.on_revoked()
        await here.sources.on_assigned([AIR])
        here.write(*[b"{}"] * 5)
        here.group.begins = 3
        here.group.held.pop("poll").set()
        await until(lambda: here.sequences() == [4])
        assert here.group.opened == 1
    assert told == []


@pytest.mark.parametrize(("begins", "is_told"), [(0, True), (3, False)])
async def test_a_log_that_was_shorter_and_has_grown_again_is_told(
    monkeypatch: pytest.MonkeyPatch, begins: int, is_told: bool
) -> None:
    """Nobody knows where it was cut. One that was deleted before it was read is something else."""
    errors: list[str] = []
    monkeypatch.setattr(reading.log, "error", lambda event, **_: errors.append(event), raising=False)
    async with reading_air(monkeypatch) as here:
        here.write(b"{}", b"{}")
        await until(lambda: here.sequences() == [1])
        here.group.hold("poll")
        await here.until_reached("poll")
        here.write(b"{}", b"{}")
        here.group.begins = begins
        here.group.poll_fails.append(OutOfRange([AIR]))
        here.group.held.pop("poll").set()
        await until(lambda: here.sequences() == [1, 3])
    assert ("the log was shorter a moment ago; what was written since may not be read" in errors) == is_told


async def test_one_that_is_ours_again_is_read_from_where_it_was_sent(
    monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    """It was found shorter, and before that was noted the group has changed."""
    async with reading_air(monkeypatch) as here:
        here.write(*[b"{}"] * 5)
        await until(lambda: here.sequences() == [1])
        note = here.group.note
        core = here.sources._core
        here.group.hold("poll")
        await here.until_reached("poll")
        core.on_out_of_range(AIR, 0, 3, NOW_S)
        await here.sources.on_revoked()
        assert core.window_publications == 5
        assert here.group.note == note
        await here.sources.on_assigned([AIR])
        here.group.held.pop("poll").set()
        await until(lambda: AIR in core.ours)
        assert here.group.position_at == 5
        here.sources.on_confirmed(Confirmed(1, here.sent[0].origin, [1]), "exitpoint-1")
        await here.sources.on_revoked()
        assert core.window_publications == 0
    assert told == []


async def test_it_goes_on_when_it_cannot_even_be_closed(monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
    async with reading_air(monkeypatch) as here:
        here.group.commit_fails += [ValueError("no idea"), ValueError("no idea")]
        here.write(b"{}")
        await until(lambda: here.group.opened == 2)
        await here.sources.on_assigned([AIR])
        await until(lambda: here.sequences() == [1])
    assert told == ["reading Kafka failed", "leaving Kafka failed"]


async def test_pauses_grow_until_something_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joining the group is no progress: whoever fails right behind it would join at the first pace for ever."""
    pauses: list[float] = []

    def told_info(event: str, **members: Any) -> None:
        if event == "reading Kafka pauses":
            pauses.append(members["pause_s"])

    monkeypatch.setattr(reading.log, "info", told_info, raising=False)
    async with reading_air(monkeypatch) as here:
        for count in range(1, 5):
            await until(lambda count=count: here.group.opened == count)  # type: ignore[misc]
            here.group.poll_fails.append(KafkaError("no idea"))
            await here.sources.on_assigned([AIR])
            await until(lambda count=count: len(pauses) == count)  # type: ignore[misc]
        assert pauses == [0.001, 0.002, 0.004, 0.008]
        await until(lambda: here.group.opened == 5)
        here.write(b"{}")
        await here.sources.on_assigned([AIR])
        await until(lambda: here.sequences() == [1])
        here.group.poll_fails.append(KafkaError("no idea"))
        await until(lambda: len(pauses) == 5)
        assert pauses[4] == 0.001


async def test_whoever_lets_others_take_over_commits_what_is_confirmed_and_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with reading_air(monkeypatch) as here:
        here.write(b"{}")
        await until(lambda: here.sequences() == [1])
        here.sources.on_confirmed(Confirmed(1, here.sent[0].origin, [1]), "exitpoint-1")
        await here.sources.leave()
        assert here.group.left
        assert here.group.note is not None
        assert here.group.note.offset == 1
        here.write(b"{}")
        await asyncio.sleep(0.02)
        assert here.sequences() == [1]


async def test_whoever_stops_at_once_is_expected_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with reading_air(monkeypatch) as here:
        await until(lambda: here.group.opened)
    assert here.group.left is False
