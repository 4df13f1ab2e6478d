"""`GET /v1/stream`: server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from braid import problems
from tests.service.fake_door import FakeAttachment, Served, problem_of, serving, stuck
from tests.service.waiting import TIMEOUT_S, until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Served]:
    async with serving(heartbeat_s=0.1) as served:
        yield served


class Events:
    """Reads blocks of an event stream; comments are blocks of their own."""

    def __init__(self, response: httpx.Response) -> None:
        self._chunks = response.aiter_text()
        self._text = ""

    async def next(self) -> dict[str, str]:
        while "\n\n" not in self._text:
            self._text += await asyncio.wait_for(anext(self._chunks), TIMEOUT_S)
        block, _, self._text = self._text.partition("\n\n")
        return dict(line.split(": ", 1) for line in block.split("\n"))

    async def next_event(self) -> dict[str, str]:
        while "event" not in (block := await self.next()):
            pass
        return block


async def attachment_of(served: Served, subscriber: str) -> FakeAttachment:
    await asyncio.wait_for(served.door.attached.wait(), TIMEOUT_S)
    return served.door.attachments[subscriber]


async def test_notifications_are_events(served: Served) -> None:
    async with served.client.stream("GET", "/v1/stream?subscriber=a") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        events = Events(response)
        assert await events.next() == {"retry": "2000"}
        attachment = await attachment_of(served, "a")
        attachment.push(b'{"n":1}', b'{"data":\n [1,\r\n2]}')
        assert await events.next_event() == {"id": "a-1", "event": "notify", "data": '{"n":1}'}
        second = await events.next_event()
        assert (second["id"], json.loads(second["data"])) == ("a-2", {"data": [1, 2]})
        attachment.dropped = 3
        attachment.push(b'{"n":3}')
        assert (await events.next_event())["event"] == "gap"
        assert (await events.next_event())["id"] == "a-3"
    await until(lambda: attachment.detached)


async def test_heartbeats_lose_nothing(served: Served) -> None:
    async with served.client.stream("GET", "/v1/stream?subscriber=a") as response:
        events = Events(response)
        await events.next()
        for _ in range(3):
            assert await events.next() == {"": "heartbeat"}
        (await attachment_of(served, "a")).push(b"{}")
        assert (await events.next_event())["id"] == "a-1"


@pytest.mark.parametrize(
    ("query", "header", "resumed"),
    [("", "a-5", "a-5"), ("&last_event_id=a-3", None, "a-3"), ("&last_event_id=a-3", "a-5", "a-5"), ("", None, None)],
)
async def test_resuming(served: Served, query: str, header: str | None, resumed: str | None) -> None:
    served.door.gap = "2 notifications are gone"
    headers = {"Last-Event-ID": header} if header else {}
    async with served.client.stream("GET", f"/v1/stream?subscriber=a{query}", headers=headers) as response:
        events = Events(response)
        gap = await events.next_event()
        assert (gap["event"], json.loads(gap["data"])) == ("gap", {"detail": "2 notifications are gone"})
        assert (await attachment_of(served, "a")).last_event_id == resumed


async def test_the_end_says_why(served: Served) -> None:
    async with served.client.stream("GET", "/v1/stream?subscriber=a") as response:
        (await attachment_of(served, "a")).close("replaced", "by a newer one")
        events = Events(response)
        closed = await events.next_event()
        assert closed["event"] == "closed"
        assert json.loads(closed["data"]) == {"reason": "replaced", "detail": "by a newer one"}
        with pytest.raises(StopAsyncIteration):
            await events.next()
    assert served.door.attachments["a"].detached


async def test_refusals(served: Served) -> None:
    assert problem_of(await served.client.get("/v1/stream"), 422)["field"] == "subscriber"
    problem_of(await served.client.get(f"/v1/stream?subscriber={'x' * 300}"), 422)
    served.door.attach_error = problems.unavailable("being restored")
    assert (await served.client.get("/v1/stream?subscriber=a")).headers["retry-after"] == "1"


async def test_a_subscriber_that_does_not_read_is_let_go(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1024)
    writer.write(b"GET /v1/stream?subscriber=slow HTTP/1.1\r\nhost: x\r\n\r\n")
    attachment = await attachment_of(served, "slow")
    await stuck(attachment)
    attachment.close("slow", "it does not read")
    await until(lambda: attachment.detached)
    assert not (await asyncio.wait_for(reader.read(), TIMEOUT_S)).endswith(b"0\r\n\r\n")  # cut, not ended
    writer.close()
