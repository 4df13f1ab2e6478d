"""The ingress log in Kafka, with a topic in memory: writing, reading, committing, taking over, waiting, refusing."""

import asyncio
import gc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from braid.config import Settings
from braid.messages import Confirmed
from braid.problems import Problem
from braid.selector import hash64
from braid.standing_in import log_name, owner_of
from services.connpoint.committed import Committed, read_note
from services.connpoint.ingress import IngressCore
from services.connpoint.ingress_log import IngressLog
from services.connpoint.ingress_topic import LogLost, ToWrite
from services.connpoint.left_over import WithLeftOver
from services.connpoint.local_log import LocalLog
from services.connpoint.partitions import Record
from tests.service.fake_topic import Logs
from tests.service.kafka_points import ONE, OTHER, PARTITIONS, Point, point, until
from tests.service.waiting import TIMEOUT_S


async def test_acknowledged_when_kafka_has_it_and_sent_when_it_is_read() -> None:
    logs = Logs(PARTITIONS)
    async with point(logs) as here:
        assert await here.publish("p", "a", "b") == ["a", "b"]
        partition = hash64("p") % PARTITIONS
        (record,) = logs.records[partition]
        await here.until_sent("a", "b")
        (sent,) = here.sent
        assert (sent.origin, sent.sequence, sent.publisher) == (
            f"{log_name(partition)}.{record.written_ms:x}",
            1,
            hash64("p"),
        )
        assert sent.contents == [b'{"id":"a"}', b'{"id":"b"}']


async def test_publishers_have_their_partitions_and_their_order() -> None:
    logs = Logs(PARTITIONS)
    async with point(logs) as here:
        calls = [here.publish(f"p{n % 5}", f"{n % 5}-{n:03d}") for n in range(100)]
        await asyncio.gather(*calls)
        await until(lambda: len(here.sent) == 100)
        for publisher in range(5):
            own = [id for id in here.ids() if id.startswith(f"{publisher}-")]
            assert own == sorted(own)
            assert len(own) == 20
        assert len(here.topic.writes) < 50, "whatever is ready is one write"


async def test_what_is_confirmed_is_committed_and_not_sent_again_after_a_restart() -> None:
    logs = Logs(PARTITIONS)
    async with point(logs) as here:
        for id in ("a", "b", "c"):
            await here.publish("p", id)
        await here.until_sent("a", "b", "c")
        here.confirm(here.sent[0], here.sent[2])
        partition = hash64("p") % PARTITIONS
        await until(lambda: logs.committed.get(partition, (0, ""))[0] == 1)
        assert read_note(*logs.committed[partition]).confirmed == ((2, 2),)
    async with point(logs) as again:
        await again.until_sent("b")
        assert (again.sent[0].origin, again.sent[0].sequence) == (here.sent[1].origin, 2)
        assert again.sent[0].attempt > here.sent[1].attempt
        again.confirm(again.sent[0])
        await until(lambda: logs.committed[partition][0] == 3)


async def test_closing_writes_down_what_is_confirmed() -> None:
    logs = Logs(PARTITIONS)
    async with point(logs, commit_s=60) as here:
        await here.publish("p", "a")
        await here.until_sent("a")
        here.confirm(*here.sent)
    assert logs.committed[hash64("p") % PARTITIONS][0] == 1


async def test_what_another_one_accepted_is_sent_by_whoever_sees_to_the_partition() -> None:
    logs = Logs(PARTITIONS)
    both = (ONE, OTHER)
    publishers = [f"p{n}" for n in range(20)]
    async with point(logs, ONE, both) as one, point(logs, OTHER, both) as other:
        for publisher in publishers:
            await one.publish(publisher, publisher)
        await until(lambda: len(one.sent) + len(other.sent) == len(publishers))
        for here, name in ((one, ONE), (other, OTHER)):
            assert here.sent
            for message in here.sent:
                assert owner_of(message.origin.rpartition(".")[0], both) == name


async def test_nobody_who_stops_waits_for_what_is_in_kafka() -> None:
    """There is always something of it while others write; they see to it."""
    logs = Logs(PARTITIONS)
    both = (ONE, OTHER)
    async with point(logs, ONE, both) as one, point(logs, OTHER, both) as other:
        for n in range(20):
            await other.publish(f"p{n}", f"{n}")
        await until(lambda: len(one.sent) + len(other.sent) == 20)
        assert one.log.unconfirmed == len(one.sent) > 0
        assert one.publishing.is_drained
        logs.is_there.clear()
        call = asyncio.create_task(one.publish("p", "a"))
        await asyncio.sleep(0)
        assert not one.publishing.is_drained
        logs.is_there.set()
        await call
        assert one.publishing.is_drained


async def test_what_is_left_in_leveldb_is_waited_for(tmp_path: Path) -> None:
    logs = Logs(PARTITIONS)
    async with point(logs) as here:
        core = IngressCore("connpoint-1.1", Settings().ingress)
        batch = core.accept(1, [b"{}"], 0.0)
        both = WithLeftOver(
            here.log, LocalLog(core, IngressLog(tmp_path / "ingress", Settings().ingress), here.perform)
        )
        assert not both.is_drained
        core.on_log_failed(batch)
        assert both.is_drained


async def test_another_one_takes_over_from_what_is_committed() -> None:
    logs = Logs(PARTITIONS)
    publishers = [f"p{n}" for n in range(20)]
    async with point(logs, OTHER, (ONE, OTHER)) as other:
        async with point(logs, ONE, (ONE, OTHER)) as one:
            for publisher in publishers:
                await one.publish(publisher, publisher)
            await until(lambda: len(one.sent) + len(other.sent) == len(publishers))
            unconfirmed = one.sent[1:]
            one.confirm(one.sent[0])
            other.confirm(*other.sent)
            other.sent.clear()
        other.log.on_connpoints((OTHER,))
        await until(lambda: len(other.sent) == len(unconfirmed))
        assert sorted((m.origin, m.sequence, m.contents) for m in other.sent) == sorted(
            (m.origin, m.sequence, m.contents) for m in unconfirmed
        )


async def test_one_that_was_taken_for_dead_forgets_what_it_had_and_begins_anew() -> None:
    logs = Logs(PARTITIONS)
    async with point(logs) as here:
        await here.publish("p", "a")
        await here.until_sent("a")
        here.log.on_connpoints(())
        assert here.log.unconfirmed == 0
        here.log.on_connpoints((ONE,))
        await here.until_sent("a", "a")
        assert here.sent[0].sequence == here.sent[1].sequence


async def test_publishers_wait_while_kafka_is_away() -> None:
    logs = Logs(PARTITIONS)
    async with point(logs) as here:
        await here.publish("p", "a")
        await here.until_sent("a")
        logs.is_there.clear()
        call = asyncio.create_task(here.publish("p", "b"))
        await asyncio.sleep(0.02)
        here.confirm(*here.sent)
        assert not call.done()
        logs.is_there.set()
        assert await call == ["b"]
        await here.until_sent("a", "b")


async def test_for_so_long_and_no_longer() -> None:
    logs = Logs(PARTITIONS)
    async with point(logs, write_s_max=0.05, window_publications_max=2) as here:
        logs.is_there.clear()
        writing = asyncio.create_task(here.publish("p", "a"))
        await asyncio.sleep(0)
        queued = asyncio.create_task(here.publish("p", "b"))
        waiting = asyncio.create_task(here.publish("p", "c"))
        await asyncio.sleep(0)
        with pytest.raises(Problem) as raised:
            await here.publish("p", "d", wait=False)
        assert raised.value.status == 429
        for call in (writing, queued, waiting):
            with pytest.raises(Problem, match="has not answered") as raised:
                await call
            assert (raised.value.status, raised.value.members["retry_after_s"]) == (503, 1)
        with pytest.raises(Problem, match="Kafka at kafka:9092 has not answered for") as raised:
            await here.publish("p", "e")
        assert raised.value.status == 503
        logs.is_there.set()
        await until(lambda: not here.log.refusal())
        assert await here.publish("p", "f") == ["f"]
        await here.until_sent("a", "f")  # nobody knew of the first what would become of it


async def test_a_partition_without_a_leader_refuses_only_its_own_publishers() -> None:
    logs = Logs(PARTITIONS)
    stuck = hash64("p") % PARTITIONS
    others = [f"q{n}" for n in range(20) if hash64(f"q{n}") % PARTITIONS != stuck]
    async with point(logs, write_s_max=0.05, window_publications_max=4) as here:
        led = logs.leaderless[stuck] = asyncio.Event()
        calls = [asyncio.create_task(here.publish("p", id)) for id in ("a", "b", "c", "d", "e")]  # one of them waits
        behind = asyncio.create_task(here.publish(others[0], "f"))
        for call in calls:
            with pytest.raises(Problem, match=f"has not answered for . s of partition {stuck} of ingress"):
                await call
        assert await behind == ["f"]
        for publisher in others:
            assert await here.publish(publisher, publisher) == [publisher]
        with pytest.raises(Problem, match="has not answered") as raised:
            await here.publish("p", "g")
        assert raised.value.status == 503
        assert here.log.refusal() == "", "it is ready"
        led.set()
        await until(lambda: not here.log.refusal(hash64("p")))
        assert await here.publish("p", "h") == ["h"]


async def test_a_partition_that_nobody_answers_for_is_tried_again_later_and_with_one_call_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("services.connpoint.kafka_writing._DOUBT_S", 0.05)
    logs = Logs(PARTITIONS)
    stuck = hash64("p") % PARTITIONS
    other = next(f"q{n}" for n in range(20) if hash64(f"q{n}") % PARTITIONS != stuck)
    async with point(logs, window_publications_max=4) as here:
        logs.unanswered.add(stuck)
        with pytest.raises(Problem, match="cannot be written: LeaderNotAvailableError"):
            await here.publish("p", "a")
        for _ in range(9):
            with pytest.raises(Problem, match=f"did not answer for partition {stuck} of ingress") as raised:
                await here.publish("p", "b")
            assert raised.value.status == 503
        assert len(here.topic.writes) == 1
        assert await here.publish(other, "c", wait=False) == ["c"]
        assert here.log.refusal() == "", "it is ready"
        await until(lambda: not here.log.refusal(hash64("p")))
        led = logs.leaderless[stuck] = asyncio.Event()
        logs.unanswered.clear()
        tried = asyncio.create_task(here.publish("p", "d"))
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="did not answer"):
            await here.publish("p", "e")
        led.set()
        assert await tried == ["d"]
        assert await here.publish("p", "f") == ["f"]


async def test_what_kafka_refuses_is_refused_with_all_that_waited_behind_it() -> None:
    logs = Logs(PARTITIONS)
    async with point(logs) as here:
        logs.refuses = "too large"
        calls = [asyncio.create_task(here.publish("p", id)) for id in ("a", "b")]
        for call in calls:
            with pytest.raises(Problem, match="cannot be written: too large"):
                await call
        logs.refuses = ""
        assert await here.publish("p", "c") == ["c"]
        await here.until_sent("c")
        assert here.log.unconfirmed == 1


async def test_a_mistake_while_writing_is_told_and_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(PARTITIONS)
    async with point(logs, write_s_max=60) as here:
        write, failures = here.topic.write, [ValueError("no idea")]

        async def failing(partition: int, records: list[ToWrite]) -> int:
            if failures:
                raise failures.pop()
            return await write(partition, records)

        monkeypatch.setattr(here.log._writing, "_write", failing)
        with pytest.raises(Problem, match="cannot be written: no idea") as raised:
            await here.publish("p", "a")
        assert raised.value.status == 503
        assert here.log.unconfirmed == 0
        assert await here.publish("p", "b") == ["b"]


async def test_the_window_bounds_what_is_read_and_not_confirmed() -> None:
    logs = Logs(PARTITIONS)
    async with point(logs, window_publications_max=4) as here:
        for n in range(30):
            await here.publish("p", f"{n:02d}")
        confirmed = 0
        while confirmed < 30:
            await until(lambda before=confirmed: len(here.sent) > before)  # type: ignore[misc]
            assert len(here.sent) - confirmed <= 4 + 15, "a part of what was read, at the most"
            here.confirm(*here.sent[confirmed:])
            confirmed = len(here.sent)
        assert here.ids() == [f"{n:02d}" for n in range(30)]


async def test_the_backlog_of_a_partition_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.connpoint.kafka_log._BACKLOG_S", 0.0)
    logs = Logs(PARTITIONS)
    async with point(logs, backlog_batches_max=3) as here:
        for id in ("a", "b", "c"):
            await here.publish("p", id)
        await here.until_sent("a", "b", "c")
        await asyncio.sleep(0.02)
        with pytest.raises(Problem) as raised:
            await here.publish("p", "d", wait=False)
        assert raised.value.status == 429
        waiting = asyncio.create_task(here.publish("p", "d"))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        here.confirm(here.sent[0])
        assert await waiting == ["d"]


async def confirmed_more_than_may_wait(here: Point, whoever_reads: Point, publisher: str) -> None:
    for n in range(6):
        await here.publish(publisher, f"{n}")
        await until(lambda n=n: len(whoever_reads.sent) == n + 1)  # type: ignore[misc]
        whoever_reads.confirm(whoever_reads.sent[-1])
    partition = hash64(publisher) % PARTITIONS
    await until(lambda: here.topic.logs.committed.get(partition, (0, ""))[0] == 6)


async def until_there_is_room(here: Point, publisher: str) -> None:
    await until(lambda: here.log.has_room(hash64(publisher), 1, 1), lambda: "there is no room")


async def test_a_topic_that_was_made_anew_has_no_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.connpoint.kafka_log._BACKLOG_S", 0.0)
    logs = Logs(PARTITIONS)
    async with point(logs, backlog_batches_max=3) as here:
        await confirmed_more_than_may_wait(here, here, "p")
        logs.make_anew()
        await asyncio.sleep(0.02)
        await until_there_is_room(here, "p")
        await here.publish("p", "a", wait=False)
        await until(lambda: here.ids()[6:] == ["a"])
        assert here.log._writing.end_of(hash64("p") % PARTITIONS) == 1


async def test_nor_for_one_that_has_not_written_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """It hears of the other log from what is committed."""
    monkeypatch.setattr("services.connpoint.kafka_log._BACKLOG_S", 0.0)
    logs, both = Logs(PARTITIONS), (ONE, OTHER)
    publisher = next(f"p{n}" for n in range(99) if owner_of(log_name(hash64(f"p{n}") % PARTITIONS), both) == OTHER)
    async with point(logs, ONE, both, backlog_batches_max=3) as one, point(logs, OTHER, both) as other:
        await confirmed_more_than_may_wait(one, other, publisher)
        logs.make_anew()
        logs.committed[hash64(publisher) % PARTITIONS] = (1, "1 abc ")
        await asyncio.sleep(0.02)
        await until_there_is_room(one, publisher)


async def test_what_is_confirmed_is_written_down_again_when_the_group_was_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("services.connpoint.kafka_log._BACKLOG_S", 0.0)
    logs = Logs(PARTITIONS)
    async with point(logs, backlog_batches_max=3) as here:
        await confirmed_more_than_may_wait(here, here, "p")
        before = dict(logs.committed)
        logs.committed.clear()
        await until(lambda: logs.committed == before)
        await until_there_is_room(here, "p")


async def test_a_connection_point_waits_for_kafka_before_it_is_registered() -> None:
    logs = Logs(PARTITIONS)
    logs.is_there.clear()
    here = Point(ONE, logs, Settings.model_validate({"kafka": {"bootstrap": "kafka:9092"}}))
    preparing = asyncio.create_task(here.log.prepare())
    await asyncio.sleep(0.02)
    assert not preparing.done()
    assert here.log.refusal() == "Kafka at kafka:9092 has not answered yet"
    logs.is_there.set()
    await asyncio.wait_for(preparing, TIMEOUT_S)
    assert here.log.refusal() == ""
    await here.log.close()


async def test_records_that_are_gone_are_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(PARTITIONS)
    partition = hash64("p") % PARTITIONS
    async with point(logs, connpoints=()) as here:
        for id in ("a", "b", "c"):
            await here.publish("p", id)
        logs.committed[partition] = (0, "1 5 ")
        logs.delete(partition, before=2)
        here.log.on_connpoints((ONE,))
        await here.until_sent("c")
        logs.make_anew()
        await here.publish("p", "d")
        await here.until_sent("c", "d")
        assert here.sent[0].origin == f"{log_name(partition)}.5"
        assert here.sent[1].origin == f"{log_name(partition)}.{read_note(*logs.committed[partition]).log:x}"
        assert here.sent[1].sequence == 1


async def test_what_follows_a_lost_tail_is_sent_under_another_name_that_is_committed_first() -> None:
    logs = Logs(PARTITIONS)
    partition = hash64("p") % PARTITIONS
    async with point(logs) as here:
        for id in ("a", "b", "c"):
            await here.publish("p", id)
        await here.until_sent("a", "b", "c")
        here.confirm(*here.sent)
        await until(lambda: logs.committed.get(partition, (0, ""))[0] == 3)
        logs.cut_off(partition, behind=1)
        await until(lambda: logs.committed[partition][0] == 1)
        await here.publish("p", "d")
        await here.until_sent("a", "b", "c", "d")
        log = read_note(*logs.committed[partition]).log
        assert here.sent[3].origin == f"{log_name(partition)}.{log:x}" != here.sent[0].origin
        assert here.sent[3].sequence == 2


@pytest.mark.parametrize(("position", "is_told"), [(0, False), (1, True)])
async def test_a_log_that_was_shorter_and_has_grown_again_is_told(
    monkeypatch: pytest.MonkeyPatch, position: int, is_told: bool
) -> None:
    """Nobody knows where it was cut. One that was deleted before it was read is something else."""
    told: list[str] = []
    monkeypatch.setattr("services.connpoint.kafka_log.log.error", lambda event, **_: told.append(event), raising=False)
    logs = Logs(PARTITIONS)
    partition = hash64("p") % PARTITIONS
    async with point(logs, connpoints=()) as here:
        await here.publish("p", "a")
        await here.publish("p", "b")
        logs.committed[partition] = (position, "1 5 ")
        logs.delete(partition, before=1)
        read, failures = here.topic.read, [LogLost([partition])]

        async def failing(most: int, timeout_s: float) -> dict[int, list[Record]]:
            if failures:
                raise failures.pop()
            return await read(most, timeout_s)

        monkeypatch.setattr(here.topic, "read", failing)
        here.log.on_connpoints((ONE,))
        await here.until_sent("b")
    assert ("the log was shorter a moment ago; what was written since may not be read" in told) == is_told


async def test_one_partition_without_a_leader_does_not_stop_reading_the_others() -> None:
    logs = Logs(PARTITIONS)
    both = (ONE, OTHER)
    async with point(logs, ONE, both) as here:
        ours = set(here.log._core.claims())  # type: ignore[union-attr]
        stuck = next(partition for partition in range(PARTITIONS) if partition not in ours)
        healthy = [f"p{n}" for n in range(99) if hash64(f"p{n}") % PARTITIONS != stuck][:9]
        sick = next(f"p{n}" for n in range(99) if hash64(f"p{n}") % PARTITIONS == stuck)
        await here.publish(sick, "waits")
        led = logs.leaderless[stuck] = asyncio.Event()
        here.log.on_connpoints((ONE,))
        for publisher in healthy:
            await here.publish(publisher, publisher)
        await here.until_sent(*healthy)
        del logs.leaderless[stuck]
        led.set()
        await here.until_sent(*healthy, "waits")


async def test_one_whose_name_cannot_be_committed_does_not_stop_reading_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing of it is sent before, and nothing is left out when it is named: not what was there, nor what came."""
    monkeypatch.setattr("services.connpoint.kafka_log._PAUSE_S", 0.01)
    logs = Logs(PARTITIONS)
    named = hash64("p") % PARTITIONS
    other = next(f"q{n}" for n in range(20) if hash64(f"q{n}") % PARTITIONS != named)
    logs.committed[named] = (1, "")
    logs.takes_commits = False
    async with point(logs, connpoints=()) as here:
        for id in ("a", "b", "c"):
            await here.publish("p", id)
        here.log.on_connpoints((ONE,))
        for n in range(10):
            await here.publish(other, f"{n}")
            await asyncio.wait_for(here.until_sent(*map(str, range(n + 1))), 1.0)
            await here.publish("p", f"d{n}")
        logs.takes_commits = True
        await here.until_sent(*map(str, range(10)), "b", "c", *[f"d{n}" for n in range(10)])
        assert [message.sequence for message in here.sent if message.publisher == hash64("p")] == [*range(2, 14)]
        log = read_note(*logs.committed[named]).log
        assert {m.origin for m in here.sent if m.publisher == hash64("p")} == {f"{log_name(named)}.{log:x}"}


async def test_a_name_is_committed_behind_what_was_settled_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the name before would stand there."""
    logs = Logs(PARTITIONS)
    partition = hash64("p") % PARTITIONS
    async with point(logs, commit_s=60) as here:
        await here.publish("p", "a")
        await here.publish("p", "b")
        await here.until_sent("a", "b")
        here.confirm(*here.sent)
        commit, answer, calls = here.topic.commit, asyncio.Event(), []

        async def first_is_slow(committed: dict[int, Committed]) -> None:
            calls.append(committed)
            if len(calls) == 1:
                await asyncio.wait_for(answer.wait(), TIMEOUT_S)
            await commit(committed)

        monkeypatch.setattr(here.topic, "commit", first_is_slow)
        here.log._settled_s = 0.0
        await until(lambda: bool(calls))
        logs.cut_off(partition, behind=1)
        await until(lambda: here.log._core.position(partition) == 1)  # type: ignore[union-attr]
        await here.publish("p", "c")
        await asyncio.sleep(0.05)
        assert (len(here.sent), len(calls)) == (2, 1)
        answer.set()
        await here.until_sent("a", "b", "c")
        log = read_note(*logs.committed[partition]).log
        assert here.sent[2].origin == f"{log_name(partition)}.{log:x}" != here.sent[0].origin


async def test_whoever_waits_for_room_is_told_when_a_name_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives room: what is read again is not sent under the name before any more."""
    logs = Logs(PARTITIONS)
    partition = hash64("p") % PARTITIONS
    other = next(f"q{n}" for n in range(20) if hash64(f"q{n}") % PARTITIONS != partition)
    async with point(logs, window_publications_max=4) as here:
        for id in ("a", "b", "c", "d"):
            await here.publish("p", id)
        await here.until_sent("a", "b", "c", "d")
        commit, answer = here.topic.commit, asyncio.Event()

        async def slow(committed: dict[int, Committed]) -> None:
            await asyncio.wait_for(answer.wait(), TIMEOUT_S)
            await commit(committed)

        monkeypatch.setattr(here.topic, "commit", slow)
        logs.cut_off(partition, behind=3)
        await until(lambda: here.log._naming is not None)
        await here.publish(other, "x")
        await asyncio.sleep(0.05)
        assert here.ids() == ["a", "b", "c", "d"], "there is no room"
        answer.set()
        await here.until_sent("a", "b", "c", "d", "x", "a", "b", "c")


async def test_what_is_read_while_a_name_is_committed_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before it was thrown away: whoever took what comes behind it would leave that out."""
    logs = Logs(PARTITIONS)
    partition = hash64("p") % PARTITIONS
    logs.committed[partition] = (0, "")
    async with point(logs, connpoints=(), commit_s=60) as here:
        commit, read, answer = here.topic.commit, here.topic.read, asyncio.Event()
        found_unnamed: list[int] = []

        async def slow(committed: dict[int, Committed]) -> None:
            await asyncio.wait_for(answer.wait(), TIMEOUT_S)
            await commit(committed)

        async def reading(most: int, timeout_s: float) -> dict[int, list[Record]]:
            found = await read(most, timeout_s)
            if partition in found and not answer.is_set():
                found_unnamed.append(len(found[partition]))
                if len(found_unnamed) == 2:
                    answer.set()
                    await until(lambda: here.log._naming is None)
            return found

        monkeypatch.setattr(here.topic, "commit", slow)
        monkeypatch.setattr(here.topic, "read", reading)
        await here.publish("p", "a")
        here.log.on_connpoints((ONE,))
        await until(lambda: found_unnamed == [1])
        await here.publish("p", "b")
        await here.until_sent("a", "b")
        assert here.ids() == ["a", "b"]


async def test_a_mistake_while_naming_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.connpoint.kafka_log._PAUSE_S", 0.001)
    logs = Logs(PARTITIONS)
    logs.committed[hash64("p") % PARTITIONS] = (0, "")
    async with point(logs, connpoints=(), commit_s=60) as here:
        commit, failures = here.topic.commit, [ValueError("no idea")]

        async def failing(committed: dict[int, Committed]) -> None:
            if failures:
                raise failures.pop()
            await commit(committed)

        monkeypatch.setattr(here.topic, "commit", failing)
        here.log.on_connpoints((ONE,))
        await here.publish("p", "a")
        await here.until_sent("a")
        assert not failures


async def test_a_mistake_while_reading_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.connpoint.kafka_log._PAUSE_S", 0.001)
    logs = Logs(PARTITIONS)
    async with point(logs) as here:
        read, failures = here.topic.read, [ValueError("no idea")]

        async def failing(most: int, timeout_s: float) -> dict[int, list[Record]]:
            found = await read(most, timeout_s)
            if found and failures:
                raise failures.pop()
            return found

        monkeypatch.setattr(here.topic, "read", failing)
        await here.publish("p", "a")
        await here.until_sent("a")
        assert not failures


async def test_a_mistake_while_something_is_gone_does_not_end_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.connpoint.kafka_log._PAUSE_S", 0.001)
    logs = Logs(PARTITIONS)
    async with point(logs, connpoints=()) as here:
        for id in ("a", "b"):
            await here.publish("p", id)
        partition = hash64("p") % PARTITIONS
        logs.committed[partition] = (0, "1 5 ")
        logs.delete(partition, before=1)
        bounds, failures = here.topic.bounds, [ValueError("no idea")]

        async def failing(partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
            if failures and list(partitions) == [partition]:
                raise failures.pop()
            return await bounds(partitions)

        monkeypatch.setattr(here.topic, "bounds", failing)
        here.log.on_connpoints((ONE,))
        await here.until_sent("b")
        assert not failures


async def test_a_mistake_while_committing_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    unretrieved: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unretrieved.append(context))
    logs = Logs(PARTITIONS)
    async with point(logs) as here:
        commit, failures = here.topic.commit, [ValueError("no idea")]

        async def failing(committed: dict[int, Committed]) -> None:
            if failures:
                raise failures.pop()
            await commit(committed)

        monkeypatch.setattr(here.topic, "commit", failing)
        await here.publish("p", "a")
        await here.until_sent("a")
        here.confirm(*here.sent)
        await until(lambda: logs.committed.get(hash64("p") % PARTITIONS, (0, ""))[0] == 1)
    gc.collect()
    await asyncio.sleep(0)
    assert unretrieved == []


async def test_a_trace_comes_back_to_whoever_accepted_it() -> None:
    logs = Logs(PARTITIONS)
    async with point(logs) as here:
        await here.publish("p", "a", trace=True)
        await here.until_sent("a")
        hops = here.sent[0].hops
        assert hops is not None
        assert here.publishing.trace_of("a") == []
        here.publishing.on_confirmed(Confirmed(1, here.sent[0].origin, [], [(1, hops)]), "exitpoint-1")
        assert here.publishing.trace_of("a") == hops
