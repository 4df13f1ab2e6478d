"""The client against a scripted connection point that drops, closes, replaces and forgets."""

import asyncio

import pytest

import braid
from tests.service.test_client_calls import read
from tests.service.test_client_scripted import Peer, scripted


def fast_client(
    *urls: str,
    states: list[braid.State] | None = None,
    subscriber: str | None = None,
    connect_timeout_s: float = 5.0,
    reconnect_timeout_s: float = 60.0,
    heartbeat_s: float = 10.0,
    message_bytes_max: int = 1_000_000,
) -> braid.Client:
    return braid.Client(
        urls,
        subscriber=subscriber,
        on_state=states.append if states is not None else None,
        connect_timeout_s=connect_timeout_s,
        reconnect_timeout_s=reconnect_timeout_s,
        heartbeat_s=heartbeat_s,
        message_bytes_max=message_bytes_max,
        backoff_first_s=0.001,
        backoff_max_s=0.01,
    )


async def test_a_stream_resumes_where_it_stopped_and_gives_nothing_twice() -> None:
    states: list[braid.State] = []

    async def first(peer: Peer) -> None:
        assert "last_event_id" not in peer.parameters
        await peer.accept_subscription("s1")
        await peer.notify("a", "b", to="s1", event="e-2")
        await peer.accept_publications()  # so that the client has read what came before
        peer.drop()

    async def second(peer: Peer) -> None:
        assert peer.parameters == {**server.peers[0].parameters, "last_event_id": "e-2"}
        await peer.notify("b", "c", to="s1", event="e-3")
        assert await peer.accept_unsubscription() == "s1"

    async with scripted(first, second) as server, fast_client(server.url, states=states) as client:
        server.alive = ["s1"]
        async with client.subscribe() as stream:
            await client.publish({})
            assert await read(stream, 3) == ["a", "b", "c"]
        await server.played(1)
    assert [state.kind for state in states] == ["connected", "reconnecting", "connected", "closed"]


async def test_what_the_server_lost_is_subscribed_again_and_a_gap_is_told() -> None:
    states: list[braid.State] = []

    async def first(peer: Peer) -> None:
        await peer.accept_subscription("s1")
        await peer.accept_subscription("s2")
        await peer.notify("a", to="s1", event="e-1")
        await peer.accept_publications()
        await peer.close(1012, "restarting")

    async def second(peer: Peer) -> None:
        await peer.send(op="gap", detail="notifications after that event are gone")
        frame = await peer.accept_subscription("s3")
        assert frame["subscription"].keys() == {"filter", "from"}  # it also asks for what it missed
        await peer.notify("b", to="s3")
        await peer.notify("c", to="s2")
        assert {await peer.accept_unsubscription(), await peer.accept_unsubscription()} == {"s2", "s3"}

    async with scripted(first, second) as server, fast_client(server.url, states=states) as client:
        server.alive = ["s2"]
        async with client.subscribe("n = 1") as stream, client.subscribe("n = 2") as other:
            await client.publish({})
            assert await read(stream, 2) == ["a", "b"]
            assert await read(other, 1) == ["c"]
            assert (stream.id, other.id) == ("s3", "s2")
        await server.played(1)
    assert {"gap", "resubscribing"} <= {state.kind for state in states}


async def test_a_publish_whose_answer_was_lost_is_sent_again_with_the_same_ids() -> None:
    accepted: list[list[str]] = []

    async def loses_the_answer(peer: Peer) -> None:
        frames = [await peer.expect("publish"), await peer.expect("publish")]
        accepted.append([frame["publications"][0]["id"] for frame in frames])
        peer.drop()

    async def second(peer: Peer) -> None:
        batches = [await peer.accept_publications(), await peer.accept_publications()]
        accepted.append([batch[0]["id"] for batch in batches])

    async with scripted(loses_the_answer, second) as server, fast_client(server.url) as client:
        answers = await asyncio.gather(
            client.publish({"attributes": {"n": 1}}), client.publish({"attributes": {"n": 2}})
        )
        assert accepted == [[answers[0][0], answers[1][0]]] * 2
        assert server.asked == []  # a publisher has no subscriptions to look after


async def test_a_subscribe_whose_answer_was_lost_leaves_no_second_subscription() -> None:
    async def loses_the_answer(peer: Peer) -> None:
        await peer.expect("subscribe")
        server.alive = ["stray"]
        peer.drop()

    async def second(peer: Peer) -> None:
        assert await peer.accept_unsubscription() == "stray"
        await peer.accept_subscription("s1")
        assert await peer.accept_unsubscription() == "s1"

    async with scripted(loses_the_answer, second) as server, fast_client(server.url) as client:
        async with client.subscribe("n = 1") as stream:
            assert stream.id == "s1"
        await server.played(1)


async def test_a_replaced_client_does_not_fight_for_its_place() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept_subscription("s1")
        await peer.notify("a", to="s1")
        await peer.close(4409, "replaced")

    async def never(peer: Peer) -> None:
        raise AssertionError("a second connection was made")

    async with scripted(script, never) as server, fast_client(server.url, subscriber="me") as client:
        async with client.subscribe() as stream:
            assert await read(stream, 1) == ["a"]
            with pytest.raises(braid.Replaced):
                await anext(stream)
        with pytest.raises(braid.Replaced):
            await client.publish({})


@pytest.mark.parametrize("code", [1000, 1001, 1011, 1012, 1013, 4408])
async def test_close_codes_that_mean_come_back(code: int) -> None:
    async def closes(peer: Peer) -> None:
        await peer.expect("publish")
        await peer.close(code)

    async def second(peer: Peer) -> None:
        await peer.accept_publications()

    async with scripted(closes, second) as server, fast_client(server.url) as client:
        assert len(await client.publish({})) == 1


@pytest.mark.parametrize("code", [1002, 1008, 4400])
async def test_close_codes_that_would_come_again(code: int) -> None:
    async def closes(peer: Peer) -> None:
        await peer.expect("publish")
        await peer.close(code, "not like this")

    async with scripted(closes) as server, fast_client(server.url) as client:
        with pytest.raises(braid.ConnectionLost, match="not like this"):
            await client.publish({})


async def test_reconnecting_ends_when_its_time_is_used_up() -> None:
    states: list[braid.State] = []

    async def drops(peer: Peer) -> None:
        await peer.accept_subscription("s1")
        await peer.notify("a", to="s1")
        await peer.accept_publications()
        peer.drop()

    async with scripted(drops) as server, fast_client(server.url, states=states, reconnect_timeout_s=0.1) as client:
        async with client.subscribe() as stream:
            await client.publish({})
            assert await read(stream, 1) == ["a"]
            with pytest.raises(braid.ConnectionLost, match=r"gave up reconnecting after 0.1 s.*503"):
                await anext(stream)
        with pytest.raises(braid.ConnectionLost):
            await client.publish({})
    assert [state.kind for state in states].count("closed") == 2  # given up, then closed by the user


async def test_a_server_that_accepts_and_closes_at_once_uses_up_the_time_too() -> None:
    async def closes(peer: Peer) -> None:
        await peer.close(1013, "not ready")

    async with scripted(*[closes] * 200) as server, fast_client(server.url, reconnect_timeout_s=0.1) as client:
        with pytest.raises(braid.ConnectionLost):
            await client.publish({})


async def test_a_first_connection_that_cannot_be_made() -> None:
    async with scripted() as server:
        pass
    async with fast_client(server.url, connect_timeout_s=0) as client:
        with pytest.raises(braid.ConnectionLost, match=r"^cannot connect"):
            await client.publish({})


async def test_a_handshake_that_is_refused_is_not_tried_again() -> None:
    async with scripted() as server, fast_client(f"{server.url}/elsewhere") as client:
        with pytest.raises(braid.BraidError, match="answered 404, and not as Braid does"):
            await client.publish({})


async def test_the_next_connection_point_takes_over() -> None:
    async def leaves(peer: Peer) -> None:
        await peer.accept_subscription("s1")
        await peer.notify("a", to="s1", event="one-1")
        await peer.accept_publications()
        await peer.close(1001, "stopping")

    async def takes_over(peer: Peer) -> None:
        assert peer.parameters["last_event_id"] == "one-1"
        await peer.send(op="gap", detail="the event is not known here")
        await peer.notify("b", to="s1")
        await peer.accept_unsubscription()

    async with scripted(leaves) as one, scripted(takes_over) as two, fast_client(one.url, two.url) as client:
        two.alive = ["s1"]
        async with client.subscribe() as stream:
            await client.publish({})
            assert await read(stream, 2) == ["a", "b"]
        assert (one.asked, two.asked) == ([], ["/v1/subscriptions"])


async def test_a_server_that_cannot_list_now_is_tried_again() -> None:
    async def drops(peer: Peer) -> None:
        await peer.accept_subscription("s1")
        server.answers["/v1/subscriptions"] = (503, {"title": "Not available right now", "detail": "no matchers"})
        peer.drop()

    async def is_left(peer: Peer) -> None:
        await peer.connection.wait_closed()
        del server.answers["/v1/subscriptions"]

    async def serves(peer: Peer) -> None:
        await peer.notify("a", to="s1")
        await peer.accept_unsubscription()

    async with scripted(drops, is_left, serves) as server, fast_client(server.url) as client:
        server.alive = ["s1"]
        async with client.subscribe() as stream:
            assert await read(stream, 1) == ["a"]


async def test_a_subscription_is_looked_for_when_there_are_too_many_to_list() -> None:
    async def drops(peer: Peer) -> None:
        await peer.accept_subscription("s/1")
        await peer.accept_subscription("s/2")
        peer.drop()

    async def serves(peer: Peer) -> None:
        await peer.accept_subscription("s/3")
        await peer.notify("a", to="s/1")
        await peer.notify("b", to="s/3")
        assert {await peer.accept_unsubscription(), await peer.accept_unsubscription()} == {"s/1", "s/3"}

    async with scripted(drops, serves) as server, fast_client(server.url, subscriber="many") as client:
        server.answers["/v1/subscriptions"] = (200, {"subscriptions": [{"id": "other"}], "truncated": True})
        server.answers["/v1/subscriptions/s%2F1"] = (200, {"id": "s/1"})
        async with client.subscribe("n = 1") as one, client.subscribe("n = 2") as two:
            assert (await read(one, 1), await read(two, 1)) == (["a"], ["b"])
        await server.played(1)


async def test_a_silent_connection_is_asked_for_a_sign_of_life_and_then_dropped() -> None:
    async def lives(peer: Peer) -> None:
        await peer.accept_publications()
        ping = await peer.expect("ping")
        await peer.send(op="pong", ref=ping["ref"])
        await peer.expect("ping")
        await peer.connection.wait_closed()

    async def second(peer: Peer) -> None:
        await peer.expect("ping")

    async with scripted(lives, second) as server, fast_client(server.url, heartbeat_s=0.05) as client:
        await client.publish({})
        await server.played(1)


async def test_a_publish_too_big_for_the_server_fails_alone() -> None:
    async def closes(peer: Peer) -> None:
        await peer.expect("publish")
        await peer.close(1009)

    async def second(peer: Peer) -> None:
        assert await peer.accept_publications() == [{"id": "small"}]

    async with scripted(closes, second) as server, fast_client(server.url) as client:
        with pytest.raises(braid.BraidError, match="too big"):
            await client.publish({"text": "x" * 10_000})
        assert await client.publish({"id": "small"}) == ["small"]


async def test_a_message_too_big_for_the_client_ends_it() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept_subscription("s1")
        await peer.notify({"id": "a", "text": "x" * 2_000}, to="s1")

    async with (
        scripted(script) as server,
        fast_client(server.url, message_bytes_max=1_000) as client,
        client.subscribe() as stream,
    ):
        with pytest.raises(braid.ConnectionLost, match="raise message_bytes_max"):
            await anext(stream)


async def test_a_frame_that_is_no_frame_ends_the_client() -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("publish")
        await peer.connection.send("Hello!")

    async with scripted(script) as server, fast_client(server.url) as client:
        with pytest.raises(braid.ConnectionLost, match="do the versions match"):
            await client.publish({})
