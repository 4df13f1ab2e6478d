"""`WS /v1/ws`: requests and answers."""

import asyncio
import json
from typing import Any

import pytest
import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from braid import problems
from braid.config import Limits, Settings
from services.connpoint.http.connection import ANSWERS_WAITING_MAX, PUBLISHES_IN_FLIGHT_MAX
from tests.service.fake_door import Served, closing_of, serving
from tests.service.waiting import TIMEOUT_S, until

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def ask(ws: ClientConnection, frame: Any) -> Any:
    """Sends one frame (as it is, or as JSON) and returns the answer."""
    await ws.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))
    return json.loads(await ws.recv())


async def sent_until_blocked(ws: ClientConnection, frame: str, most: int) -> int:
    for sent in range(most):
        try:
            await asyncio.wait_for(ws.send(frame), 0.3)
        except TimeoutError:
            return sent
    return most


async def test_subscribe_publish_unsubscribe_ping(served: Served) -> None:
    async with served.connect() as ws:
        subscribed = await ask(ws, {"op": "subscribe", "ref": 1, "subscription": {"filter": "a = 1"}})
        assert (subscribed["op"], subscribed["ref"], subscribed["id"]) == ("subscribed", 1, "s1")
        published = await ask(ws, {"publications": [{"id": "a"}, {"id": "b"}], "ref": "two", "op": "publish"})
        assert published == {"op": "published", "ref": "two", "ids": ["a", "b"]}
        assert await ask(ws, {"op": "unsubscribe", "ref": 3, "id": "s1"}) == {"op": "unsubscribed", "ref": 3}
        assert await ask(ws, {"op": "ping", "ref": -4}) == {"op": "pong", "ref": -4}
    assert served.door.publish_waits == [True]
    assert served.door.records == {}


async def test_words_topic_and_zone_are_subscribed_to(served: Served) -> None:
    zone = {"type": "circle", "lat": 40.4168, "lon": -3.7038, "radius_m": 500.0}
    async with served.connect() as ws:
        for ref, part in enumerate(({"words": ["White", "houses"]}, {"topic": "sports/+"}, {"zone": zone})):
            answer = await ask(ws, {"op": "subscribe", "ref": ref, "subscription": part})
            assert (answer["op"], answer["ref"]) == ("subscribed", ref)
    words, topic, placed = served.door.records.values()
    assert words.words == ("White", "houses")
    assert (topic.topic, topic.topic_scope) == ("sports/+", "self")
    assert placed.zone == zone


async def test_what_is_delivered_to_an_address_is_not_made_over_a_connection(served: Served) -> None:
    async with served.connect() as ws:
        given = {"deliver": {"webhook": {"url": "https://example.com"}}}
        answer = await ask(ws, {"op": "subscribe", "ref": 1, "subscription": given})
        assert answer["problem"]["field"] == "$.subscription.deliver"
        assert "POST /v1/subscriptions" in answer["problem"]["detail"]


async def test_an_anonymous_connection_has_temporary_subscriptions(served: Served) -> None:
    async with served.connect() as ws:
        assert served.door.attachments == {}
        for ref in range(3):
            await ws.send(json.dumps({"op": "subscribe", "ref": ref, "subscription": {}}))
        answers = [json.loads(await ws.recv()) for _ in range(3)]
        assert [answer["ref"] for answer in answers] == [0, 1, 2]
        (generated,) = served.door.attachments
        assert generated.startswith("~")
        assert {answer["subscriber"] for answer in answers} == {generated}
        assert served.door.attachments[generated].temporary
        assert all(record.temporary for record in served.door.records.values())
        named = await ask(ws, {"op": "subscribe", "ref": 4, "subscription": {"subscriber": "dashboard-7"}})
        assert named["subscriber"] == "dashboard-7"
        assert not served.door.records[named["id"]].temporary
        assert set(served.door.attachments) == {generated, "dashboard-7"}
    assert all(attachment.detached for attachment in served.door.attachments.values())


async def test_a_named_connection_is_attached_at_once_and_serves_only_that_name(served: Served) -> None:
    async with served.connect("?subscriber=dashboard-7&last_event_id=x-9") as ws:
        assert await ask(ws, {"op": "ping", "ref": 0}) == {"op": "pong", "ref": 0}
        attachment = served.door.attachments["dashboard-7"]
        assert (attachment.last_event_id, attachment.temporary) == ("x-9", False)
        own = await ask(ws, {"op": "subscribe", "ref": 1, "subscription": {"subscriber": "dashboard-7"}})
        assert own["op"] == "subscribed"
        assert not served.door.records[own["id"]].temporary
        other = await ask(ws, {"op": "subscribe", "ref": 2, "subscription": {"subscriber": "another"}})
        assert (other["ref"], other["problem"]["field"]) == (2, "$.subscription.subscriber")
    async with served.connect("?subscriber=brief&temporary=true") as ws:
        brief = await ask(ws, {"op": "subscribe", "ref": 1, "subscription": {}})
        assert served.door.records[brief["id"]].temporary
        assert served.door.attachments["brief"].temporary


async def test_a_publisher_is_declared_or_the_connection(served: Served) -> None:
    publish = {"op": "publish", "ref": 1, "publications": [{}]}
    async with served.connect(additional_headers={"Braid-Publisher": "sensor-7"}) as ws:
        await ask(ws, publish)
    async with served.connect() as ws:
        await ask(ws, publish)
        assert served.door.published[1][0] == "{}:{}".format(*ws.local_address)
    assert served.door.published[0][0] == "sensor-7"


@pytest.mark.parametrize(
    ("frame", "ref", "status", "field"),
    [
        ("{", None, 400, None),
        ("", None, 400, None),
        ("[]", None, 422, "$"),
        ("17", None, 422, "$"),
        ('{"op":"shout","ref":1}', 1, 422, "$.op"),
        ('{"op":7,"ref":1}', 1, 422, "$.op"),
        ('{"ref":"x"}', "x", 422, "$.op"),
        ('{"op":"ping"}', None, 422, "$.ref"),
        ('{"op":"ping","ref":1.5}', None, 422, "$.ref"),
        ('{"op":"ping","ref":true}', None, 422, "$.ref"),
        ('{"op":"ping","ref":null}', None, 422, "$.ref"),
        ('{"op":"ping","ref":123456789012345678901234567890}', None, 422, "$.ref"),
        ('{"op":"ping","ref":"' + "x" * 300 + '"}', None, 422, "$.ref"),
        ('{"op":"ping","ref":1,"more":2}', 1, 422, "$.more"),
        ('{"op":"publish","ref":1}', 1, 422, "$.publications"),
        ('{"op":"publish","ref":1,"publications":[]}', 1, 422, "$.publications"),
        ('{"op":"publish","ref":1,"publications":{}}', 1, 422, "$.publications"),
        ('{"op":"publish","ref":1,"publications":[{},{"subject":1}]}', 1, 422, "$.publications[1].subject"),
        (
            '{"op":"publish","ref":1,"publications":[{},{"attributes":{"a":1,"x":{}}}]}',
            1,
            422,
            "$.publications[1].attributes.x",
        ),
        ('{"op":"publish","ref":1,"publications":[{"attributes":{"x":NaN}}]}', None, 400, None),
        (
            '{"op":"publish","ref":1,"publications":[{"attributes":{"x":1e400}}]}',
            1,
            422,
            "$.publications[0].attributes.x",
        ),
        (
            '{"op":"publish","ref":1,"publications":[{"attributes":{"x":123456789012345678901234567890}}]}',
            1,
            422,
            "$.publications[0].attributes.x",
        ),
        ('{"op":"publish","ref":1,"publications":[{},{"expires":"soon"}]}', 1, 422, "$.publications[1].expires"),
        ('{"op":"publish","ref":1,"publications":[{"data":"\\ud800 lone"}]}', None, 400, None),
        ('{"op":"publish","ref":1,"publications":' + "[" * 100_000, None, 422, "$.publications[0]"),
        ('{"op":"publish","ref":1,"publications":[{"data":' + "[" * 100_000, None, 400, None),
        ('{"op":"subscribe","ref":1,"subscription":{"filter":17}}', 1, 422, "$.subscription.filter"),
        ('{"op":"subscribe","ref":1,"subscription":{"fliter":""}}', 1, 422, "$.subscription.fliter"),
        ('{"op":"subscribe","ref":1,"subscription":{"filter":"a > and"}}', 1, 422, "$.subscription.filter"),
        ('{"op":"subscribe","ref":1,"subscription":{"subscriber":"~x"}}', 1, 422, "$.subscription.subscriber"),
        ('{"op":"subscribe","ref":1,"subscription":{"words":["the"]}}', 1, 422, "$.subscription.words"),
        ('{"op":"subscribe","ref":1,"subscription":{"zone":{"lat":1e400}}}', 1, 422, "$.subscription.zone.lat"),
        ('{"op":"subscribe","ref":1,"subscription":{"distinct":1}}', 1, 422, "$.subscription.distinct"),
        ('{"op":"subscribe","ref":1,"subscription":{"from":"before"}}', 1, 422, "$.subscription.from"),
        ('{"op":"unsubscribe","ref":1,"id":"unknown"}', 1, 404, None),
        ('{"op":"unsubscribe","ref":1,"id":7}', 1, 422, "$.id"),
        (b'{"op":"ping","ref":1}', None, 400, None),
        (b"\x00\xff", None, 400, None),
    ],
)
async def test_a_wrong_frame_is_answered_and_the_connection_stays(
    served: Served, frame: str | bytes, ref: int | str | None, status: int, field: str | None
) -> None:
    async with served.connect() as ws:
        answer = await ask(ws, frame)
        assert (answer["op"], answer["ref"], answer["problem"]["status"]) == ("error", ref, status)
        assert answer["problem"].get("field") == field
        assert await ask(ws, {"op": "ping", "ref": 1}) == {"op": "pong", "ref": 1}
    assert served.door.published == []
    assert served.door.records == {}


async def test_a_filter_that_does_not_parse_says_where(served: Served) -> None:
    async with served.connect() as ws:
        answer = await ask(ws, {"op": "subscribe", "ref": 1, "subscription": {"filter": "a > and"}})
        assert answer["problem"]["position"] == 4
        assert answer["problem"]["expected"]
        unknown = await ask(ws, {"op": "shout", "ref": 1})
        assert unknown["problem"]["expected"] == ["subscribe", "unsubscribe", "publish", "ping"]


async def test_a_frame_that_is_not_utf8_ends_the_connection(served: Served) -> None:
    async with served.connect() as ws:
        await ws.send(b'{"op":"ping","ref":"\xff"}', text=True)
        assert (await closing_of(ws))[0] == 1007


async def test_an_oversized_frame_ends_the_connection() -> None:
    settings = Settings(limits=Limits(body_bytes_max=64 * 1024, batch_publications_max=3))
    async with serving(settings) as served:
        async with served.connect() as ws:
            await ws.send("x" * 65_537)
            assert (await closing_of(ws))[0] == 1009
        async with served.connect() as ws:
            for size in (4, 10_000):
                answer = await ask(ws, {"op": "publish", "ref": 1, "publications": [{}] * size})
                assert answer["problem"]["limit"] == "limits.batch_publications_max"
                assert answer["problem"]["field"] == "$.publications"
            assert (await ask(ws, {"op": "publish", "ref": 1, "publications": [{}] * 3}))["op"] == "published"


async def test_answers_come_in_order_and_one_failure_hurts_no_other(served: Served) -> None:
    async with served.connect() as ws:
        good, bad = [{"id": "x"}], [{"id": "x", "expires": "soon"}]
        for ref, publications in enumerate([good, bad, good, bad, good]):
            await ws.send(json.dumps({"op": "publish", "ref": ref, "publications": publications}))
        answers = [json.loads(await ws.recv()) for _ in range(5)]
    assert [(answer["ref"], answer["op"]) for answer in answers] == [
        (0, "published"),
        (1, "error"),
        (2, "published"),
        (3, "error"),
        (4, "published"),
    ]


async def test_a_few_publishes_overlap_and_their_number_is_bounded(served: Served) -> None:
    served.door.publishing.clear()
    async with served.connect() as ws:
        for ref in range(40):
            await ws.send(json.dumps({"op": "publish", "ref": ref, "publications": [{"id": str(ref)}]}))
        await until(lambda: served.door.in_flight == PUBLISHES_IN_FLIGHT_MAX)
        served.door.publishing.set()
        answers = [json.loads(await ws.recv()) for _ in range(40)]
    assert [answer["ids"] for answer in answers] == [[str(ref)] for ref in range(40)]
    assert served.door.in_flight_most == PUBLISHES_IN_FLIGHT_MAX
    assert [json.loads(content)["id"] for _, content in served.door.published] == [str(ref) for ref in range(40)]


async def test_a_publisher_that_is_too_fast_is_slowed_down_through_tcp(served: Served) -> None:
    served.door.publishing.clear()
    async with served.connect() as ws:
        frame = json.dumps({"op": "publish", "ref": 1, "publications": [{"data": "x" * 4_000_000}]})
        assert await sent_until_blocked(ws, frame, 100) < 40
        ws.transport.abort()


async def test_a_client_that_does_not_read_its_answers_is_no_longer_read(served: Served) -> None:
    async with served.connect(max_queue=1) as ws:
        frame = json.dumps({"op": "unsubscribe", "ref": "r" * 250, "id": "x" * 100_000})
        assert await sent_until_blocked(ws, frame, 2_000) < 2_000
        ws.transport.abort()


async def test_a_client_that_leaves_frees_what_it_waited_for(served: Served) -> None:
    served.door.publishing.clear()
    async with served.connect("?subscriber=leaving") as ws:
        await ws.send(json.dumps({"op": "publish", "ref": 1, "publications": [{}]}))
        await asyncio.wait_for(served.door.publish_called.wait(), TIMEOUT_S)
    await until(lambda: not served.door.in_flight and served.door.attachments["leaving"].detached)
    assert served.door.published == []


async def test_subscriptions_per_connection_are_bounded() -> None:
    async with (
        serving(Settings(limits=Limits(subscriptions_per_connection_max=3))) as served,
        served.connect() as ws,
    ):
        for ref in range(5):
            await ws.send(json.dumps({"op": "subscribe", "ref": ref, "subscription": {}}))
        answers = [json.loads(await ws.recv()) for _ in range(5)]
        assert [answer["op"] for answer in answers] == ["subscribed"] * 3 + ["error"] * 2
        assert answers[-1]["problem"]["limit"] == "limits.subscriptions_per_connection_max"
        await ask(ws, {"op": "unsubscribe", "ref": 9, "id": "s1"})
        assert (await ask(ws, {"op": "subscribe", "ref": 10, "subscription": {}}))["op"] == "subscribed"


async def test_many_requests_at_once(served: Served) -> None:
    total = 5 * ANSWERS_WAITING_MAX
    async with served.connect(max_queue=None) as ws:
        for ref in range(total):
            await ws.send(json.dumps({"op": "subscribe", "ref": ref, "subscription": {"filter": f"a = {ref}"}}))
        refs = [json.loads(await ws.recv())["ref"] for _ in range(total)]
    assert refs == list(range(total))


async def test_problems_behind_the_door_reach_the_client(served: Served) -> None:
    async with served.connect() as ws:
        served.door.subscribe_error = problems.unavailable("no matcher answered")
        answer = await ask(ws, {"op": "subscribe", "ref": 1, "subscription": {}})
        assert (answer["problem"]["status"], answer["problem"]["retry_after_s"]) == (503, 1)
        served.door.publish_error = RuntimeError("secret")
        with structlog.testing.capture_logs() as lines:
            answer = await ask(ws, {"op": "publish", "ref": 2, "publications": [{}]})
        assert (answer["ref"], answer["problem"]["status"]) == (2, 500)
        assert "secret" not in json.dumps(answer)
        assert lines[0]["event"] == "unexpected_error"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/ws?temporary=maybe", 422),
        (f"/v1/ws?subscriber={'x' * 300}", 422),
        ("/v1/ws?subscriber=~x", 422),
        ("/v1/nothing", 404),
    ],
)
async def test_a_refused_handshake_says_why(served: Served, path: str, status: int) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"ws://127.0.0.1:{served.port}{path}", proxy=None)
    response = refused.value.response
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert json.loads(bytes(response.body or b""))["status"] == status


async def test_a_handshake_while_the_cluster_is_away(served: Served) -> None:
    served.door.attach_error = problems.unavailable("being restored", retry_after_s=2)
    with pytest.raises(InvalidStatus) as refused:
        await served.connect("?subscriber=x")
    assert refused.value.response.status_code == 503
    assert refused.value.response.headers["retry-after"] == "2"
    async with served.connect() as ws:
        answer = await ask(ws, {"op": "subscribe", "ref": 1, "subscription": {}})
        assert answer["problem"]["status"] == 503
