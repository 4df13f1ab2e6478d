"""Notifications over a WebSocket: frames, gaps, and how a connection ends."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from braid.config import Delivery, Settings
from services.connpoint.http.delivery import FRAME_BYTES_MAX
from tests.service.fake_door import FakeAttachment, Served, closing_of, serving, stuck
from tests.service.waiting import TIMEOUT_S, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTINGS = Settings(delivery=Delivery(frame_notifications_max=10))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Served]:
    async with serving(SETTINGS) as served:
        yield served


def payload(number: int, text: str = "") -> bytes:
    return json.dumps({"subscriptions": ["s1"], "publication": {"id": str(number), "text": text}}).encode()


async def attachment_of(served: Served, subscriber: str) -> FakeAttachment:
    await asyncio.wait_for(served.door.attached.wait(), TIMEOUT_S)
    return served.door.attachments[subscriber]


async def test_notifications_are_spliced_into_bounded_frames(served: Served) -> None:
    async with served.connect("?subscriber=a") as ws:
        attachment = await attachment_of(served, "a")
        attachment.push(*(payload(number, "grüße \u2028 🌊") for number in range(25)))
        frames = [json.loads(await ws.recv()) for _ in range(3)]
    assert [len(frame["notifications"]) for frame in frames] == [10, 10, 5]
    assert [frame["event"] for frame in frames] == ["a-10", "a-20", "a-25"]
    assert frames[0].keys() == {"op", "event", "notifications"}
    received = [each["publication"] for frame in frames for each in frame["notifications"]]
    assert received == [{"id": str(number), "text": "grüße \u2028 🌊"} for number in range(25)]
    assert frames[0]["notifications"][0]["subscriptions"] == ["s1"]
    assert attachment.detached


async def test_large_notifications_do_not_make_a_frame_too_large(served: Served) -> None:
    async with served.connect("?subscriber=a", max_size=2**20) as ws:
        attachment = await attachment_of(served, "a")
        attachment.push(*(payload(number, "x" * 200_000) for number in range(10)))
        attachment.push(payload(10, "x" * 600_000), payload(11))
        events: list[str] = []
        numbers: list[int] = []
        while len(numbers) < 12:
            text = await ws.recv()
            frame = json.loads(text)
            assert len(text) < FRAME_BYTES_MAX + 100 or len(frame["notifications"]) == 1
            events.append(frame["event"])
            numbers += [int(each["publication"]["id"]) for each in frame["notifications"]]
    assert numbers == list(range(12))
    assert events == ["a-2", "a-4", "a-6", "a-8", "a-10", "a-11", "a-12"]


async def test_a_gap_comes_before_the_notifications(served: Served) -> None:
    served.door.gap = "12 notifications are gone"
    async with served.connect("?subscriber=a&last_event_id=a-3") as ws:
        attachment = await attachment_of(served, "a")
        attachment.push(payload(1))
        assert json.loads(await ws.recv()) == {
            "op": "gap",
            "subscriber": "a",
            "detail": "12 notifications are gone",
        }
        assert json.loads(await ws.recv())["op"] == "notify"
        attachment.dropped = 7
        attachment.push(payload(2))
        assert json.loads(await ws.recv())["detail"].startswith("7 notifications were dropped")
        assert json.loads(await ws.recv())["op"] == "notify"


async def test_an_anonymous_connection_says_for_whom(served: Served) -> None:
    async with served.connect() as ws:
        for ref, subscription in enumerate([{}, {"subscriber": "b"}]):
            await ws.send(json.dumps({"op": "subscribe", "ref": ref, "subscription": subscription}))
            await ws.recv()
        generated = next(name for name in served.door.attachments if name.startswith("~"))
        served.door.attachments["b"].push(payload(1))
        assert json.loads(await ws.recv())["subscriber"] == "b"
        served.door.attachments[generated].push(payload(2))
        assert "subscriber" not in json.loads(await ws.recv())


@pytest.mark.parametrize(
    ("reason", "code"),
    [("slow", 4408), ("replaced", 4409), ("unavailable", 1013), ("stopping", 1001), ("other", 1011)],
)
async def test_a_closed_attachment_closes_the_connection(served: Served, reason: str, code: int) -> None:
    async with served.connect("?subscriber=a") as ws:
        (await attachment_of(served, "a")).close(reason, "ü" * 200)
        received, said = await closing_of(ws)
        assert received == code
        assert said.startswith(f"{reason}: ü")
    assert served.door.attachments["a"].detached


async def test_a_newer_connection_replaces_the_older(served: Served) -> None:
    async with served.connect("?subscriber=a") as older, served.connect("?subscriber=a") as newer:
        assert (await closing_of(older))[0] == 4409
        served.door.attachments["a"].push(payload(1))
        assert json.loads(await newer.recv())["op"] == "notify"


async def test_a_subscriber_that_does_not_read_is_let_go(served: Served) -> None:
    async with served.connect("?subscriber=slow", max_queue=1) as ws:
        attachment = await attachment_of(served, "slow")
        await stuck(attachment)
        assert attachment.waiting
        assert not attachment.detached
        attachment.close("slow", "it does not read")
        await until(lambda: attachment.detached)
        # What was on its way is still readable, and so is the reason.
        assert await closing_of(ws) == (4408, "slow: it does not read")


async def test_publishing_goes_on_beside_notifications(served: Served) -> None:
    async with served.connect("?subscriber=a") as ws:
        attachment = await attachment_of(served, "a")
        answers = notifications = 0
        for ref in range(50):
            attachment.push(payload(ref))
            await ws.send(json.dumps({"op": "publish", "ref": ref, "publications": [{}]}))
        while answers < 50 or notifications < 50:
            frame = json.loads(await asyncio.wait_for(ws.recv(), TIMEOUT_S))
            if frame["op"] == "notify":
                notifications += len(frame["notifications"])
            else:
                assert frame["ref"] == answers
                answers += 1
