"""The client and the past: streams that begin there, go on after a loss, and questions about what is kept."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest

import braid
from braid.instants import parse_instant
from tests.service.fake_door import Served, serving
from tests.service.test_client_calls import read
from tests.service.test_client_reconnect import fast_client
from tests.service.test_client_scripted import Peer, scripted


def keep(served: Served, *ids: str, age_s: float = 60) -> None:
    for id in ids:
        served.door.kept.add(b'{"id":"%b","attributes":{"n":%d}}' % (id.encode(), len(id)), time.time() - age_s)


def client_of(served: Served, **options: Any) -> braid.Client:
    return braid.Client(f"http://127.0.0.1:{served.port}", **options)


async def test_a_stream_begins_with_the_past() -> None:
    async with serving() as served, client_of(served, subscriber="me") as client:
        keep(served, "old", age_s=700)
        keep(served, "a", "bb", "c")
        async with client.subscribe("n = 1", from_="-10m", distinct=True) as stream:
            assert stream.past == braid.Past(publications=2, complete=True)
            assert await read(stream, 2) == ["a", "c"]
            live = b'{"subscriptions":["%b"],"publication":{"id":"live"}}' % stream.id.encode()
            served.door.attachments["me"].push(live)
            assert await read(stream, 1) == ["live"]
            assert served.door.records[stream.id].distinct
        async with client.subscribe() as stream:
            assert stream.past is None


async def test_more_of_the_past_than_may_wait_for_its_answer_is_not_lost() -> None:
    async with serving() as served, client_of(served) as client:
        ids = [str(number) for number in range(5_000)]
        for number, id in enumerate(ids):
            served.door.kept.add(b'{"id":"%b"}' % id.encode(), time.time() - 60 + number / 1000)
        async with client.subscribe(from_="-10m") as stream:
            assert await read(stream, 5_000) == ids


async def test_the_beginning_of_time_is_a_beginning() -> None:
    async with serving() as served, client_of(served) as client:
        keep(served, "a")
        async with client.subscribe(from_=0) as stream:
            assert stream.past == braid.Past(publications=1, complete=True)


async def test_a_subscription_made_again_does_not_bring_the_whole_past_again() -> None:
    asked: list[dict[str, Any]] = []
    states: list[braid.State] = []

    async def first(peer: Peer) -> None:
        frame = await peer.expect("subscribe")
        asked.append(frame["subscription"])
        await peer.send(op="subscribed", ref=frame["ref"], id="s1", past={"publications": 2, "complete": True})
        await peer.notify("a", "b", to="s1", event="e-2")
        await peer.accept_publications()
        peer.drop()

    async def second(peer: Peer) -> None:
        frame = await peer.expect("subscribe")
        asked.append(frame["subscription"])
        await peer.send(op="subscribed", ref=frame["ref"], id="s2", past={"publications": 2, "complete": False})
        await peer.notify("b", "c", to="s2")
        await peer.accept_unsubscription()

    async with scripted(first, second) as server, fast_client(server.url, states=states) as client:
        async with client.subscribe("n = 1", from_="-10m") as stream:
            await client.publish({})
            assert await read(stream, 3) == ["a", "b", "c"]
            assert stream.past == braid.Past(publications=2, complete=True)
        await server.played(1)
    assert asked[0] == {"filter": "n = 1", "from": "-10m"}
    assert asked[1].keys() == {"filter", "from"}
    assert 0 < -parse_instant(asked[1]["from"], 1_000_000) + 1_000_000 < 60
    assert [state.detail for state in states if state.kind == "gap"] == [
        "more was published meanwhile than the server gives at once"
    ]


async def test_publications_that_are_kept() -> None:
    async with serving() as served, client_of(served) as client:
        keep(served, "a", "bb", age_s=60)
        keep(served, "c", age_s=30)
        newest, oldest = await client.publications("n = 1")
        assert isinstance(newest, braid.KeptPublication)
        assert newest.publication == braid.Publication(id="c", attributes={"n": 1})
        assert abs((datetime.now(UTC) - newest.published).total_seconds() - 30) < 5
        assert oldest.publication.id == "a"
        assert [kept.publication.id for kept in await client.publications(limit=1)] == ["c"]
        between = time.time() - 45
        assert [kept.publication.id for kept in await client.publications(from_=between)] == ["c"]
        assert [kept.publication.id for kept in await client.publications(until="-45s", limit=1)] == ["bb"]
        assert len(await client.publications(from_=0)) == 3


async def test_every_condition_reaches_the_door() -> None:
    zone = {"type": "box", "south": 40, "west": -4, "north": 41, "east": -3}
    content = (
        b'{"id":"a","topic":"rivers/jarama","text":"Floods of rain","zone":{"type":"point","lat":40.4,"lon":-3.7}}'
    )
    async with serving() as served, client_of(served) as client:
        served.door.kept.add(content, time.time())
        keep(served, "other")
        for conditions in (
            {"words": ["flood", "rain"]},
            {"topic": "rivers/jarama", "topic_scope": "self"},
            {"topic": "rivers/#"},
            {"zone": zone},
            {"words": ["flood"], "topic": "rivers", "zone": zone},
        ):
            assert [kept.publication.id for kept in await client.publications(**conditions)] == ["a"], conditions
        assert await client.publications(words=["flood", "snow"]) == []


async def test_a_wrong_condition_is_named() -> None:
    async with serving() as served, client_of(served) as client:
        with pytest.raises(braid.BraidError) as caught:
            await client.publications("n >")
        assert (caught.value.status, caught.value.field) == (422, "where")
        with pytest.raises(braid.BraidError) as caught:
            await client.publications(limit=0)
        assert caught.value.field == "limit"


async def test_an_answer_of_another_kind_is_an_error() -> None:
    async with scripted() as server, braid.Client(server.url) as client:
        server.answers["/v1/publications"] = (200, {"publications": [{"published": "today"}]})
        with pytest.raises(braid.BraidError, match="not as expected"):
            await client.publications()
