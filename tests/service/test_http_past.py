"""`WS /v1/ws`: subscriptions that ask for the past, and the order of what they are sent."""

import asyncio
import json
import time
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from tests.service.fake_door import Served
from tests.service.waiting import TIMEOUT_S

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def next_frame(ws: ClientConnection) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(await asyncio.wait_for(ws.recv(), TIMEOUT_S))
    return frame


async def subscribe(ws: ClientConnection, ref: int, **parts: Any) -> None:
    await ws.send(json.dumps({"op": "subscribe", "ref": ref, "subscription": parts}))


def ids_of(frame: dict[str, Any]) -> list[str]:
    assert frame["op"] == "notify", frame
    return [notification["publication"]["id"] for notification in frame["notifications"]]


def keep(served: Served, *ids: str) -> None:
    for id in ids:
        served.door.kept.add(b'{"id":"%b"}' % id.encode(), time.time() - 60)


async def test_the_answer_comes_before_the_past_and_the_past_before_the_rest(served: Served) -> None:
    keep(served, "a", "b")
    async with served.connect("?subscriber=me") as ws:
        await subscribe(ws, 1, **{"from": "-10m"})
        answer = await next_frame(ws)
        assert answer == {
            "op": "subscribed",
            "ref": 1,
            "id": "s1",
            "subscriber": "me",
            "event": "me-0",
            "past": {"publications": 2, "complete": True},
        }
        past = await next_frame(ws)
        assert (ids_of(past), past["event"]) == (["a", "b"], "me-2")
        served.door.attachments["me"].push(b'{"subscriptions":["s1"],"publication":{"id":"live"}}')
        assert ids_of(await next_frame(ws)) == ["live"]


async def test_without_a_past_there_is_no_word_of_it(served: Served) -> None:
    keep(served, "a")
    async with served.connect() as ws:
        for ref, parts in enumerate(({}, {"from": "+10m"})):
            await subscribe(ws, ref, **parts)
            assert "past" not in await next_frame(ws)


async def test_each_of_several_pasts_comes_behind_its_own_answer(served: Served) -> None:
    keep(served, "a")
    async with served.connect() as ws:
        for ref in range(3):
            await subscribe(ws, ref, **{"from": "-10m"})
        seen = [await next_frame(ws) for _ in range(6)]
    answered: set[str] = set()
    for frame in seen:
        if frame["op"] == "subscribed":
            answered.add(frame["id"])
        else:
            assert {id for each in frame["notifications"] for id in each["subscriptions"]} <= answered
    assert len(answered) == 3


async def test_a_past_that_is_refused_does_not_hold_up_the_rest(served: Served) -> None:
    async with served.connect("?subscriber=me") as ws:
        await subscribe(ws, 1)
        await next_frame(ws)
        await subscribe(ws, 2, filter="value >", **{"from": "-10m"})
        assert (await next_frame(ws))["problem"]["field"] == "$.subscription.filter"
        served.door.attachments["me"].push(b'{"subscriptions":["s1"],"publication":{"id":"live"}}')
        assert ids_of(await next_frame(ws)) == ["live"]


async def test_publishing_that_waits_does_not_hold_up_notifications(served: Served) -> None:
    served.door.publishing.clear()
    async with served.connect("?subscriber=me") as ws:
        await ws.send(json.dumps({"op": "publish", "ref": 1, "publications": [{"id": "p"}]}))
        await subscribe(ws, 2, **{"from": "-10m"})
        await asyncio.wait_for(served.door.publish_called.wait(), TIMEOUT_S)
        served.door.attachments["me"].push(b'{"subscriptions":["other"],"publication":{"id":"live"}}')
        assert ids_of(await next_frame(ws)) == ["live"]
        served.door.publishing.set()
        assert [(await next_frame(ws))["ref"] for _ in range(2)] == [1, 2]


async def test_a_distinct_subscription_is_made_as_one(served: Served) -> None:
    async with served.connect() as ws:
        await subscribe(ws, 1, distinct=True)
        answer = await next_frame(ws)
    assert served.door.records[answer["id"]].distinct
