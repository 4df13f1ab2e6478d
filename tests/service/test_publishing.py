"""Publishing with a real log: order, flow control, cancellation, failures, traces."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from braid.config import Settings
from braid.content import Content
from braid.messages import Confirmed, Publications, Send
from braid.problems import Problem
from braid.selector import hash64
from braid.topology import Configuration
from services.connpoint.ingress import IngressCore
from services.connpoint.ingress_log import IngressLog
from services.connpoint.local_log import LocalLog
from services.connpoint.publishing import Publishing
from services.connpoint.retrying import Batch
from tests.service.waiting import TIMEOUT_S

ORIGIN = "connpoint-1.a"


class FailingLog(IngressLog):
    failing = False

    def append(self, batch: Batch, done: Any) -> None:
        if self.failing:
            asyncio.get_running_loop().call_soon(done, OSError("no space left on device"))
        else:
            super().append(batch, done)


class Point:
    """The publishing side of a connection point, with what it sent."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.sent: list[Publications] = []
        self.core = IngressCore(ORIGIN, settings.ingress)
        self.core.on_configuration(Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",)))
        self.log = FailingLog(path, settings.ingress)
        self.publishing = Publishing("connpoint-1", 0xA, LocalLog(self.core, self.log, self.perform), settings)

    def perform(self, sends: list[Send]) -> None:
        self.sent += [message for send in sends for message in send.messages]

    async def publish(self, publisher: str, *ids: str, wait: bool = True, trace: bool = False) -> list[str]:
        contents = [Content(id=id) for id in ids]
        return await self.publishing.publish(publisher, contents, wait=wait, trace=trace)

    def confirm(self, *sequences: int, traces: Any = ()) -> None:
        self.publishing.on_confirmed(Confirmed(1, ORIGIN, list(sequences), list(traces)), "exitpoint-1")

    def sent_ids(self) -> list[str]:
        return [msgspec.json.decode(content)["id"] for message in self.sent for content in message.contents]


@asynccontextmanager
async def point(path: Path, **sections: dict[str, Any]) -> AsyncIterator[Point]:
    made = Point(path, Settings.model_validate(sections))
    await made.log.open()
    yield made
    await made.log.close()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0.001)


async def test_acknowledged_when_it_is_logged_and_sent(tmp_path: Path) -> None:
    async with point(tmp_path) as here:
        assert await here.publish("p", "a", "b") == ["a", "b"]
        (sent,) = here.sent
        contents = [b'{"id":"a"}', b'{"id":"b"}']
        assert sent == Publications(1, ORIGIN, 1, 0, 0, hash64("p"), sent.published_s, contents, None)
    log = IngressLog(tmp_path, Settings().ingress)
    assert await log.open() == [(ORIGIN, 1, hash64("p"), contents, sent.published_s)]
    await log.close()


async def test_a_confirmed_batch_leaves_the_log(tmp_path: Path) -> None:
    async with point(tmp_path) as here:
        await here.publish("p", "a")
        await here.publish("p", "b")
        here.confirm(1)
        here.publishing.on_tick(0.0)
        assert here.core.window_publications == 1
    log = IngressLog(tmp_path, Settings().ingress)
    assert [sequence for _, sequence, *_ in await log.open()] == [2]
    await log.close()


async def test_ids_are_made_where_none_is_given(tmp_path: Path) -> None:
    async with point(tmp_path) as here:
        assert await here.publish("p", "", "mine", "") == ["p1-a-1", "mine", "p1-a-2"]
        assert here.sent_ids() == ["p1-a-1", "mine", "p1-a-2"]


async def test_nothing_to_publish_is_published_at_once(tmp_path: Path) -> None:
    async with point(tmp_path) as here:
        assert await asyncio.wait_for(here.publish("p"), TIMEOUT_S) == []
        assert here.sent == []


async def test_concurrent_publishes_keep_the_order_of_their_calls(tmp_path: Path) -> None:
    async with point(tmp_path) as here:
        await asyncio.gather(*(here.publish("p", f"{n}") for n in range(50)))
        assert here.sent_ids() == [f"{n}" for n in range(50)]
        assert [message.previous for message in here.sent] == list(range(50))


async def test_order_is_kept_also_by_those_that_wait_for_room(tmp_path: Path) -> None:
    async with point(tmp_path, ingress={"window_publications_max": 4}) as here:
        calls = [asyncio.create_task(here.publish("p", *[f"{n}.{i}" for i in range(1 + n % 3)])) for n in range(20)]
        confirmed = 0
        while not all(call.done() for call in calls):
            await asyncio.sleep(0.001)
            assert here.core.window_publications <= 4
            while confirmed < len(here.sent):
                confirmed += 1
                here.confirm(confirmed)
        assert here.sent_ids() == [f"{n}.{i}" for n in range(20) for i in range(1 + n % 3)]


async def test_nobody_overtakes_a_batch_that_waits(tmp_path: Path) -> None:
    async with point(tmp_path, ingress={"window_publications_max": 4}) as here:
        await here.publish("p", "1", "2", "3")
        large = asyncio.create_task(here.publish("p", "4", "5"))
        await asyncio.sleep(0)
        small = asyncio.create_task(here.publish("p", "6"))
        await settle()
        assert not large.done()
        assert not small.done()
        here.confirm(1)
        assert await large == ["4", "5"]
        assert await small == ["6"]
        assert here.sent_ids() == ["1", "2", "3", "4", "5", "6"]


async def test_who_does_not_wait_is_told_to_come_again(tmp_path: Path) -> None:
    async with point(tmp_path, ingress={"window_publications_max": 2}) as here:
        await here.publish("p", "1", "2")
        with pytest.raises(Problem) as raised:
            await here.publish("p", "3", wait=False)
        assert (raised.value.status, raised.value.kind) == (429, "overloaded")
        assert raised.value.members["retry_after_s"] == 1
        here.confirm(1)
        assert await here.publish("p", "3", wait=False) == ["3"]


async def test_who_does_not_wait_does_not_overtake_either(tmp_path: Path) -> None:
    async with point(tmp_path, ingress={"window_publications_max": 3}) as here:
        await here.publish("p", "1", "2")
        waiting = asyncio.create_task(here.publish("p", "3", "4"))
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="wait for delivery"):
            await here.publish("p", "5", wait=False)
        here.confirm(1)
        await waiting
        assert here.sent_ids() == ["1", "2", "3", "4"]


async def test_what_waits_is_bounded(tmp_path: Path) -> None:
    async with point(tmp_path, ingress={"window_publications_max": 1, "window_bytes_max": 1 << 20}) as here:
        await here.publish("p", "1")
        large = [Content(id=f"{n}", text="x" * 10_000, attributes={"a": "y" * 10_000}) for n in range(52)]
        waiting = [
            asyncio.create_task(here.publishing.publish("p", [content], wait=True, trace=False)) for content in large
        ]
        await settle()
        assert not any(task.done() for task in waiting)
        more = [Content(id="more", text="x" * 10_000)]
        with pytest.raises(Problem) as raised:
            await here.publishing.publish("p", more, wait=True, trace=False)
        assert raised.value.status == 429
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        here.confirm(1)
        assert await here.publishing.publish("p", more, wait=True, trace=False) == ["more"]


async def test_a_cancelled_wait_leaves_no_trace_and_makes_room(tmp_path: Path) -> None:
    async with point(tmp_path, ingress={"window_publications_max": 3}) as here:
        await here.publish("p", "1", "2")
        large = asyncio.create_task(here.publish("p", "3", "4"))
        await asyncio.sleep(0)
        small = asyncio.create_task(here.publish("p", "5"))
        await settle()
        assert not small.done()
        large.cancel()
        assert await asyncio.wait_for(small, TIMEOUT_S) == ["5"]
        with pytest.raises(asyncio.CancelledError):
            await large
        assert here.sent_ids() == ["1", "2", "5"]


async def test_cancelled_while_it_is_logged_it_is_published_nevertheless(tmp_path: Path) -> None:
    async with point(tmp_path) as here:
        call = asyncio.create_task(here.publish("p", "1"))
        await asyncio.sleep(0)
        call.cancel()
        await settle()
        assert here.sent_ids() == ["1"]


async def test_a_log_that_fails_is_a_503_and_gives_the_window_back(tmp_path: Path) -> None:
    async with point(tmp_path, ingress={"window_publications_max": 2}) as here:
        here.log.failing = True
        failing = asyncio.create_task(here.publish("p", "1", "2"))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(here.publish("p", "3"))
        with pytest.raises(Problem) as raised:
            await failing
        assert (raised.value.status, raised.value.kind) == (503, "unavailable")
        assert "no space left on device" in raised.value.detail
        with pytest.raises(Problem):
            await waiting
        assert (here.core.window_publications, here.core.window_bytes, here.sent) == (0, 0, [])
        here.log.failing = False
        assert await here.publish("p", "4") == ["4"]
        assert [(message.sequence, message.watermark) for message in here.sent] == [(3, 2)]


async def test_one_wrong_publication_refuses_the_whole_batch(tmp_path: Path) -> None:
    async with point(tmp_path) as here:
        contents = [Content(id="1"), Content(id="2", attributes={"": 1}), Content(id="3")]
        with pytest.raises(Problem) as raised:
            await here.publishing.publish("p", contents, wait=True, trace=False)
        assert raised.value.members["field"] == "$[1].attributes"
        assert (here.sent, here.core.window_publications) == ([], 0)


async def test_too_many_in_one_batch(tmp_path: Path) -> None:
    async with point(tmp_path, limits={"batch_publications_max": 2}) as here:
        with pytest.raises(Problem) as raised:
            await here.publish("p", "1", "2", "3")
        assert (raised.value.status, raised.value.members["limit"]) == (413, "limits.batch_publications_max")


async def test_a_large_batch_travels_in_parts_and_is_acknowledged_once(tmp_path: Path) -> None:
    ids = [f"{n}" for n in range(501)]
    async with point(tmp_path) as here:
        assert await here.publish("p", *ids) == ids
        assert [(len(m.contents), m.sequence, m.previous) for m in here.sent] == [(200, 1, 0), (200, 2, 1), (101, 3, 2)]
        assert here.sent_ids() == ids
        here.confirm(1, 3)
        assert here.core.window_publications == 200


async def test_large_publications_travel_in_smaller_parts(tmp_path: Path) -> None:
    """Whatever is accepted has to fit into a frame, also when it matches at many connection points."""
    async with point(tmp_path, links={"frame_bytes_max": 1 << 20}) as here:
        data = msgspec.Raw(b'"' + b"x" * 100_000 + b'"')
        contents = [Content(id=f"{n}", data=data) for n in range(7)]
        assert len(await here.publishing.publish("p", contents, wait=True, trace=False)) == 7
        assert [len(message.contents) for message in here.sent] == [2, 2, 2, 1]
        largest = [Content(id="largest", data=msgspec.Raw(b'"' + b"x" * 262_000 + b'"'))]
        await here.publishing.publish("p", largest, wait=True, trace=False)
        assert here.sent_ids() == [*map(str, range(7)), "largest"]


async def test_whoever_waits_for_room_is_told_when_it_closes(tmp_path: Path) -> None:
    async with point(tmp_path, ingress={"window_publications_max": 1}) as here:
        await here.publish("p", "1")
        waiting = [asyncio.create_task(here.publish("p", f"{n}")) for n in (2, 3)]
        await asyncio.sleep(0)
        here.publishing.close()
        for task in waiting:
            with pytest.raises(Problem) as raised:
                await task
            assert raised.value.status == 503
        assert here.sent_ids() == ["1"]


async def test_traces(tmp_path: Path) -> None:
    async with point(tmp_path) as here:
        assert here.publishing.trace_of("1") is None
        await here.publish("p", "1", "2", trace=True)
        await here.publish("p", "3")
        ((name, arrived_ns, left_ns),) = here.sent[0].hops or []
        assert (name, 0 < arrived_ns <= left_ns) == ("connpoint-1", True)
        assert here.sent[1].hops is None
        assert here.publishing.trace_of("1") == []
        hops = [("connpoint-1", arrived_ns, left_ns), ("accesspoint-1", 3, 4)]
        here.confirm(1, 2, traces=[(1, [("connpoint-2", arrived_ns, 2)])])
        assert here.publishing.trace_of("1") == []
        here.confirm(1, 2, traces=[(1, hops)])
        assert (here.publishing.trace_of("1"), here.publishing.trace_of("2")) == (hops, hops)
        assert here.publishing.trace_of("3") is None


async def test_traces_are_bounded(tmp_path: Path) -> None:
    async with point(tmp_path) as here:
        await here.publish("p", *[f"{n}" for n in range(1100)], trace=True)
        assert here.publishing.trace_of("99") is None
        assert here.publishing.trace_of("100") == []
        assert here.sent[0].hops is not None
        here.confirm(1, traces=[(1, here.sent[0].hops)])
        assert here.publishing.trace_of("99") is None
        assert here.publishing.trace_of("199") == here.sent[0].hops
        assert here.publishing.trace_of("200") == []


async def test_the_tick_sends_again_and_flushes(tmp_path: Path) -> None:
    async with point(tmp_path, ingress={"retry_s": 0.001}) as here:
        await here.publish("p", "1")
        await asyncio.sleep(0.01)
        here.publishing.on_tick(here.core._current.pending[1].due_s)
        assert here.sent_ids() == ["1", "1"]
        assert [message.sequence for message in here.sent] == [1, 1]
