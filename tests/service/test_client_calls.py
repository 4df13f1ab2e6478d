"""The client against a scripted connection point: calls, streams, limits, on a connection that holds."""

import asyncio
import time
from typing import Any

import pytest

import braid
from braid.client import MatchExplanation, time_of
from braid.client import stream as stream_module
from tests.service.fake_door import serving
from tests.service.test_client_scripted import PATIENCE_S, Peer, obliging, scripted


async def read(stream: braid.Stream, count: int) -> list[str]:
    """The ids of the next publications."""
    async with asyncio.timeout(PATIENCE_S):
        return [(await anext(stream)).publication.id for _ in range(count)]


class NoticedEvent(asyncio.Event):
    """Tells when it is cleared."""

    def __init__(self, cleared: asyncio.Event) -> None:
        super().__init__()
        self._cleared = cleared

    def clear(self) -> None:
        super().clear()
        self._cleared.set()


async def test_publish_and_subscribe() -> None:
    async with scripted(obliging) as server, braid.Client(server.url, subscriber="me", publisher="mill") as client:
        async with client.subscribe("value > 40") as stream:
            assert stream.id == "s1"
            [id] = await client.publish({"attributes": {"value": 41}, "data": {"any": ["thing"]}})
            notification = await anext(stream)
            assert notification.subscriptions == ["s1"]
            assert notification.publication.attributes == {"value": 41}
            assert notification.publication.data == {"any": ["thing"]}
            assert notification.publication.id == id
            made_ns = time_of(id)
            assert made_ns is not None
            assert abs(time.time_ns() - made_ns) < 60_000_000_000
        assert server.peers[0].parameters == {"subscriber": "me", "temporary": "false"}
        assert server.peers[0].headers["Braid-Publisher"] == "mill"


async def test_a_list_is_one_call_and_given_ids_stay() -> None:
    received: list[Any] = []

    async def script(peer: Peer) -> None:
        received.extend(await peer.accept_publications())

    async with scripted(script) as server, braid.Client(server.url) as client:
        mine = braid.Publication(attributes={"n": 1}, topic="t")
        ids = await client.publish([{"id": "given", "attributes": {"n": 0}}, mine])
        assert (ids[0], mine.id) == ("given", "")
        assert received == [
            {"id": "given", "attributes": {"n": 0}},
            {"id": ids[1], "topic": "t", "attributes": {"n": 1}},
        ]
        assert await client.publish([]) == []
        assert server.peers[0].parameters["temporary"] == "true"
        assert server.peers[0].parameters["subscriber"] == client.subscriber


async def test_a_stream_can_be_iterated_without_entering_it() -> None:
    async def script(peer: Peer) -> None:
        frame = await peer.accept_subscription("s1")
        assert frame["subscription"] == {"filter": "n = 1", "until": "+10m", "distinct": True}
        await peer.notify("a", "b", to="s1")
        assert await peer.accept_unsubscription() == "s1"

    async with scripted(script) as server, braid.Client(server.url) as client:
        stream = client.subscribe("n = 1", until="+10m", distinct=True)
        ids = []
        async for notification in stream:
            ids.append(notification.publication.id)
            if len(ids) == 2:
                await stream.aclose()
        assert ids == ["a", "b"]
        await server.played(0)


async def test_closing_the_client_unsubscribes_and_says_goodbye() -> None:
    states: list[braid.State] = []

    async def script(peer: Peer) -> None:
        await peer.accept_subscription("s1")
        await peer.accept_unsubscription()
        await peer.connection.wait_closed()
        assert peer.connection.close_code == 1000

    async with scripted(script) as server:
        async with braid.Client(server.url, on_state=states.append) as client:
            stream = await client.subscribe().open()
        await server.played(0)
        assert [state.kind for state in states] == ["connected", "closed"]
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        with pytest.raises(braid.ConnectionLost, match="closed"):
            await client.publish({})


async def test_an_error_of_the_server_carries_its_problem_document() -> None:
    problem = {"title": "A field is not valid", "status": 422, "detail": "expected a value", "field": "$.filter"}

    async def script(peer: Peer) -> None:
        frame = await peer.expect("subscribe")
        await peer.send(op="error", ref=frame["ref"], problem=problem)
        await peer.accept_publications()

    async with scripted(script) as server, braid.Client(server.url) as client:
        with pytest.raises(braid.BraidError, match="expected a value") as caught:
            await client.subscribe("n >").open()
        assert (caught.value.problem, caught.value.field, caught.value.status) == (problem, "$.filter", 422)
        assert len(await client.publish({})) == 1  # the client is as good as before


async def test_a_call_that_is_not_answered_times_out_and_a_late_subscription_is_taken_back() -> None:
    late = asyncio.Event()

    async def script(peer: Peer) -> None:
        subscribe = await peer.expect("subscribe")
        await late.wait()
        await peer.send(op="subscribed", ref=subscribe["ref"], id="late")
        assert await peer.accept_unsubscription() == "late"

    async with scripted(script) as server, braid.Client(server.url, call_timeout_s=1.0) as client:
        with pytest.raises(braid.CallTimeout, match="no answer"):
            await client.subscribe().open()
        late.set()
        await server.played(0)


async def test_publishes_in_flight_are_bounded() -> None:
    async def script(peer: Peer) -> None:
        first = await peer.expect("publish")
        await peer.expect("publish")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(peer.connection.recv(), 0.05)
        await peer.send(op="published", ref=first["ref"], ids=["a"])
        assert (await peer.expect("publish"))["publications"] == [{"id": "c"}]
        await peer.close(4409)

    async with scripted(script) as server, braid.Client(server.url, publishes_in_flight_max=2) as client:
        results = await asyncio.gather(*(client.publish({"id": id}) for id in "abc"), return_exceptions=True)
        assert results[0] == ["a"]
        assert [type(result) for result in results[1:]] == [braid.Replaced, braid.Replaced]


async def test_a_stream_that_is_not_read_holds_the_server_back_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frames, per_frame = 300, 10
    filling = "x" * 10_000
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.accept_subscription("s1")
        for frame in range(frames):
            ids = [f"{frame}-{number}" for number in range(per_frame)]
            await peer.notify(*({"id": id, "text": filling} for id in ids), to="s1")
            sent += 1
        await peer.accept_unsubscription()

    async with scripted(script) as server, braid.Client(server.url, stream_buffer_max=50) as client:
        held_back = asyncio.Event()
        monkeypatch.setattr(client._conversation, "may_read", may_read := NoticedEvent(held_back))
        may_read.set()
        async with client.subscribe() as stream:
            await asyncio.wait_for(held_back.wait(), PATIENCE_S)
            expected = [f"{frame}-{number}" for frame in range(frames) for number in range(per_frame)]
            ids = []
            for _ in expected:
                assert stream.waiting <= 50 + per_frame
                ids += await read(stream, 1)
                if len(ids) == 1:
                    assert sent < frames
            assert ids == expected
        await server.played(0)


async def test_a_loop_over_a_full_stream_can_still_publish() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept_subscription("s1")
        for frame in range(10):
            await peer.notify(f"{frame}-a", f"{frame}-b", to="s1")
        for _ in range(20):
            await peer.accept_publications()
        await peer.accept_unsubscription()

    async with (
        scripted(script) as server,
        braid.Client(server.url, stream_buffer_max=8) as client,
        client.subscribe() as stream,
    ):
        for _ in range(20):
            await read(stream, 1)
            await client.publish({})


async def test_a_loop_that_publishes_too_slowly_for_its_stream_is_told_so() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept_subscription("s1")
        frame = await peer.expect("publish")
        await peer.notify(*(str(number) for number in range(8)), to="s1")
        await peer.send(op="published", ref=frame["ref"], ids=["x"])
        await peer.accept_unsubscription()

    async with (
        scripted(script) as server,
        braid.Client(server.url, stream_buffer_max=2, call_timeout_s=1.0) as client,
        client.subscribe() as stream,
    ):
        with pytest.raises(braid.CallTimeout, match="full"):
            await client.publish({})
        assert await read(stream, 8) == [str(number) for number in range(8)]


async def test_a_stream_ends_with_its_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "_UNTIL_GRACE_S", 0.0)

    async def script(peer: Peer) -> None:
        await peer.accept_subscription("s1")
        await peer.notify("a", to="s1")
        await peer.accept_unsubscription()

    async with scripted(script) as server, braid.Client(server.url) as client:
        async with client.subscribe(until="+1s") as stream:
            assert [notification.publication.id async for notification in stream] == ["a"]
        await server.played(0)


async def test_listening_takes_what_older_subscriptions_deliver() -> None:
    heard = asyncio.Event()

    async def script(peer: Peer) -> None:
        await heard.wait()
        await peer.notify("a", to="from-an-earlier-run")

    async with (
        scripted(script) as server,
        braid.Client(server.url, subscriber="me") as client,
        client.listen() as stream,
    ):
        heard.set()
        assert await read(stream, 1) == ["a"]


async def test_only_a_named_subscriber_can_keep_a_subscription() -> None:
    with pytest.raises(ValueError, match="named subscriber"):
        braid.Client().subscribe(keep=True)


async def test_looking_at_the_cluster_needs_no_websocket() -> None:
    async with scripted() as server, braid.Client(server.url, subscriber="me") as client:
        server.alive = ["s1", "s2"]
        server.answers["/v1/cluster"] = (200, {"epoch": 3, "slices": []})
        assert await client.cluster() == {"epoch": 3, "slices": []}
        assert [record["id"] for record in await client.subscriptions()] == ["s1", "s2"]
        server.answers["/v1/cluster"] = (503, {"title": "Not available right now", "detail": "no configuration"})
        with pytest.raises(braid.BraidError, match="no configuration") as caught:
            await client.cluster()
        assert caught.value.status == 503
        server.answers["/v1/cluster"] = (418, "short and stout")
        with pytest.raises(braid.BraidError, match="not as Braid does"):
            await client.cluster()
    gone = server.url
    async with braid.Client(gone) as client:
        with pytest.raises(braid.ConnectionLost, match="cannot connect"):
            await client.cluster()
    async with scripted() as server, braid.Client([gone, server.url]) as client:
        server.answers["/v1/cluster"] = (200, {"epoch": 4})
        assert await client.cluster() == {"epoch": 4}


async def test_explaining_a_match() -> None:
    async with serving() as served, braid.Client(f"http://127.0.0.1:{served.port}") as client:
        id = (await served.client.post("/v1/subscriptions", json={"filter": "n > 1"})).json()["id"]
        assert await client.explain({"attributes": {"n": 2}}) == MatchExplanation(matches=[id], count=1)
        found = await client.explain(braid.Publication(attributes={"n": 1}), id)
        assert (found.matches, found.count) == ([], 0)
        assert found.explanation is not None
        assert found.explanation.failed == ["filter"]
        assert found.explanation.parts[0].reasons == ["n > 1: n is 1"]
        with pytest.raises(braid.BraidError, match="there is no subscription 's-9'") as caught:
            await client.explain({}, "s-9")
        assert caught.value.status == 404
        with pytest.raises(braid.BraidError) as caught:
            await client.explain({"attributes": {"n": []}})
        assert caught.value.field == "$.publication.attributes.n"
        assert served.door.publish_calls == 0


async def test_a_callback_that_fails_does_not_hurt_the_client(caplog: pytest.LogCaptureFixture) -> None:
    def fails(state: braid.State) -> None:
        raise RuntimeError(state.kind)

    async with scripted(obliging) as server, braid.Client(server.url, on_state=fails) as client:
        assert await client.publish({"id": "a"}) == ["a"]
    assert "the on_state callback failed" in caplog.text
