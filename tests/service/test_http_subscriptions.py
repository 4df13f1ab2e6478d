"""`/v1/subscriptions` on a real port."""

import json
import time

import pytest

from braid import problems
from braid.config import Delivery, Settings
from services.connpoint.http.subscriptions import SubscriptionShown
from tests.service.fake_door import Served, problem_of, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_life_of_a_subscription(served: Served) -> None:
    created = await served.client.post(
        "/v1/subscriptions", json={"filter": "value  >  40", "subscriber": "dashboard-7", "until": "+1h"}
    )
    assert created.status_code == 201
    shown = created.json()
    assert created.headers["location"] == f"/v1/subscriptions/{shown['id']}"
    assert shown["subscriber"] == "dashboard-7"
    assert shown["filter"] == "value > 40"
    assert set(shown) < {"from" if name == "from_" else name for name in SubscriptionShown.__struct_fields__}

    path = created.headers["location"]
    assert (await served.client.get(path)).json() == shown
    changed = await served.client.patch(path, json={"filter": "value > 50", "until": None})
    assert changed.status_code == 200
    assert changed.json()["filter"] == "value > 50"
    assert "until" not in changed.json()
    deleted = await served.client.delete(path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    for answer in (
        await served.client.get(path),
        await served.client.patch(path, json={"filter": "a = 1"}),
        await served.client.delete(path),
    ):
        assert "s1" in problem_of(answer, 404)["detail"]


CIRCLE = {"type": "circle", "lat": 40.4168, "lon": -3.7038, "radius_m": 500.0}


async def test_every_part_is_shown_as_it_is_stored(served: Served) -> None:
    created = await served.client.post(
        "/v1/subscriptions",
        json={
            "filter": "n=1",
            "words": ["White", "houses"],
            "topic": "1/4/#",
            "topic_scope": "both",
            "zone": {**CIRCLE, "radius_m": 500},
        },
    )
    assert created.status_code == 201
    shown = (await served.client.get(created.headers["location"])).json()
    assert shown == created.json()
    assert (shown["filter"], shown["words"], shown["topic"]) == ("n = 1", ["White", "houses"], "1.4.#")
    assert shown["zone"] == CIRCLE
    assert set(shown) < set(SubscriptionShown.__struct_fields__)
    assert "topic_scope" not in shown
    assert (await served.client.get("/v1/subscriptions")).json()["subscriptions"] == [shown]
    wildcards = (await served.client.post("/v1/subscriptions", json={"topic": "sports/+"})).json()
    assert (wildcards["topic"], wildcards["topic_scope"]) == ("sports/+", "self")


async def test_a_secret_that_was_made_up_is_shown_once(served: Served) -> None:
    created = await served.client.post("/v1/subscriptions", json={"deliver": {"webhook": {"url": "https://a/"}}})
    assert created.status_code == 201
    secret = created.json()["deliver"]["webhook"]["secret"]
    assert secret.startswith("whsec_")
    path = created.headers["location"]
    assert (await served.client.get(path)).json()["deliver"] == {"webhook": {"url": "https://a/"}}
    moved = (await served.client.patch(path, json={"deliver": {"webhook": {"url": "https://b/"}}})).json()
    assert moved["deliver"] == {"webhook": {"url": "https://b/"}}
    rotated = (await served.client.patch(path, json={"deliver": {"webhook": {"secret": None}}})).json()
    assert rotated["deliver"]["webhook"]["secret"] != secret
    assert "secret" not in (await served.client.get(path)).json()["deliver"]["webhook"]
    refused = await served.client.post("/v1/subscriptions", json={"deliver": {"webhook": {"url": "b"}}})
    assert problem_of(refused, 422)["field"] == "$.deliver.webhook.url"
    mistyped = await served.client.post("/v1/subscriptions", json={"deliver": {"webhok": {"url": "b"}}})
    assert problem_of(mistyped, 422)["field"] == "$.deliver.webhok"


async def test_the_past_is_given_first_and_said(served: Served) -> None:
    now = time.time()
    for id, value, age_s in (("old", 50, 700), ("a", 41, 60), ("low", 1, 50), ("b", 42, 40)):
        served.door.kept.add(b'{"id":"%b","attributes":{"value":%d}}' % (id.encode(), value), now - age_s)
    wanted = {"filter": "value > 40", "from": "-10m", "subscriber": "dashboard-7"}
    created = await served.client.post("/v1/subscriptions", json=wanted)
    assert created.status_code == 201
    assert created.json()["past"] == {"publications": 2, "complete": True}
    assert "from" in created.json()
    assert "past" not in (await served.client.get(created.headers["location"])).json()
    attachment = await served.door.attach("dashboard-7", temporary=False, last_event_id=None)
    assert [json.loads(item.payload)["publication"]["id"] for item in attachment.waiting] == ["a", "b"]
    for without in ({"filter": "value > 40"}, {"from": "+10m"}):
        assert "past" not in (await served.client.post("/v1/subscriptions", json=without)).json()


async def test_more_past_than_is_given_at_once_is_not_complete() -> None:
    async with serving(Settings(delivery=Delivery(past_notifications_max=2))) as served:
        for number in range(3):
            served.door.kept.add(b'{"id":"%d"}' % number, time.time() - 30 + number)
        created = await served.client.post("/v1/subscriptions", json={"from": "-1h", "subscriber": "me"})
        assert created.json()["past"] == {"publications": 2, "complete": False}
        attachment = await served.door.attach("me", temporary=False, last_event_id=None)
        assert [json.loads(item.payload)["publication"]["id"] for item in attachment.waiting] == ["1", "2"]


async def test_a_distinct_subscription_is_shown_as_one(served: Served) -> None:
    created = await served.client.post("/v1/subscriptions", json={"distinct": True})
    assert (created.status_code, created.json()["distinct"]) == (201, True)
    assert "distinct" not in (await served.client.post("/v1/subscriptions", json={})).json()


async def test_a_zone_moves_and_goes(served: Served) -> None:
    path = (await served.client.post("/v1/subscriptions", json={"zone": CIRCLE, "words": ["rain"]})).headers["location"]
    moved = await served.client.patch(path, json={"zone": {**CIRCLE, "lat": 41}})
    assert moved.status_code == 200
    assert moved.json()["zone"] == {**CIRCLE, "lat": 41.0}
    assert moved.json()["words"] == ["rain"]
    gone = await served.client.patch(path, json={"zone": None})
    assert "zone" not in gone.json()
    assert (await served.client.get(path)).json() == gone.json()


async def test_the_description_names_every_part(served: Served) -> None:
    schemas = (await served.client.get("/openapi.json")).json()["components"]["schemas"]
    parts = schemas["Subscription"]["properties"]
    assert {"filter", "words", "topic", "topic_scope", "zone", "from", "until"} <= set(parts)
    assert parts["topic_scope"]["enum"] == ["", "self", "below", "both"]
    for part in ("words", "topic", "topic_scope", "zone"):
        assert parts[part]["description"], part
    assert "GeoJSON" in schemas["Content"]["properties"]["zone"]["description"]
    assert set(schemas["PastShown"]["properties"]) == {"publications", "complete"}
    assert schemas["SubscriptionShown"]["properties"]["past"] == {"$ref": "#/components/schemas/PastShown"}


async def test_a_subscriber_is_made_up(served: Served) -> None:
    first, second = [(await served.client.post("/v1/subscriptions", json={})).json()["subscriber"] for _ in range(2)]
    assert first
    assert first != second


async def test_lists_are_bounded(served: Served) -> None:
    for number in range(5):
        await served.client.post("/v1/subscriptions", json={"subscriber": f"even-{number % 2}"})
    all_of_them = (await served.client.get("/v1/subscriptions")).json()
    assert len(all_of_them["subscriptions"]) == 5
    assert "truncated" not in all_of_them
    even = (await served.client.get("/v1/subscriptions", params={"subscriber": "even-0"})).json()
    assert [shown["subscriber"] for shown in even["subscriptions"]] == ["even-0"] * 3
    some = (await served.client.get("/v1/subscriptions", params={"limit": 3})).json()
    assert len(some["subscriptions"]) == 3
    assert some["truncated"] is True
    exact = (await served.client.get("/v1/subscriptions", params={"limit": 5})).json()
    assert "truncated" not in exact
    for limit in ("0", "many", "10001"):
        answer = await served.client.get("/v1/subscriptions", params={"limit": limit})
        assert problem_of(answer, 422)["field"] == "limit"


async def test_a_filter_that_does_not_parse_says_where(served: Served) -> None:
    answer = await served.client.post("/v1/subscriptions", json={"filter": "value > and city = 'Madrid'"})
    problem = problem_of(answer, 422)
    assert problem["field"] == "$.filter"
    assert problem["position"] == 8
    assert problem["expected"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ("{", 400, None),
        ("[]", 422, "$"),
        ('{"filter":17}', 422, "$.filter"),
        ('{"fliter":"a = 1"}', 422, "$.fliter"),
        ('{"filter":"a = 1","subscriber":["x"]}', 422, "$.subscriber"),
        ('{"until":"yesterday"}', 422, "$.until"),
        ('{"until":1e400}', 422, "$.until"),
        ('{"subscriber":"' + "x" * 300 + '"}', 422, "$.subscriber"),
        ('{"filter":{"op":' + "[" * 100_000 + "]" * 100_000 + "}}", 400, None),
        ('{"words":"white"}', 422, "$.words"),
        ('{"words":["the"]}', 422, "$.words"),
        ('{"words":["white",7]}', 422, "$.words[1]"),
        ('{"words":["white","' + "x" * 300 + '"]}', 422, "$.words[1]"),
        ('{"words":' + json.dumps(["a" * (1 + length) for length in range(100)]) + "}", 422, "$.words"),
        ('{"topic":"sports//soccer"}', 422, "$.topic"),
        ('{"topic":"sports/#/spain"}', 422, "$.topic"),
        ('{"topic":"' + "x" * 300 + '"}', 422, "$.topic"),
        ('{"topic":["sports"]}', 422, "$.topic"),
        ('{"topic":"sports","topic_scope":"above"}', 422, "$.topic_scope"),
        ('{"topic_scope":"below"}', 422, "$.topic_scope"),
        ('{"zone":"Madrid"}', 422, "$.zone"),
        ('{"zone":{"type":"square"}}', 422, "$.zone.type"),
        ('{"zone":{"type":"circle","lat":1,"lon":200,"radius_m":1}}', 422, "$.zone.lon"),
        ('{"zone":{"type":"Point","coordinates":[0,"x"]}}', 422, "$.zone.coordinates[1]"),
        ('{"zone":{"type":"box","south":0}}', 422, "$.zone"),
        ('{"zone":{"type":"point","lat":1,"lon":1e400}}', 422, "$.zone.lon"),
        ('{"zone":{"type":"Point","coordinates":[0,1e400]}}', 422, "$.zone.coordinates[1]"),
        ('{"filter":{"and":[{"attr":"a","op":"=","value":1e400}]}}', 422, "$.filter.and[0].value"),
        ('{"zone":{"a":' + "[" * 100_000 + "]" * 100_000 + "}}", 400, None),
        ('{"distinct":"yes"}', 422, "$.distinct"),
        ('{"from":"before"}', 422, "$.from"),
    ],
)
async def test_wrong_subscriptions(served: Served, body: str, status: int, field: str | None) -> None:
    answer = await served.client.post("/v1/subscriptions", content=body)
    assert problem_of(answer, status).get("field") == field
    assert served.door.records == {}


async def test_wrong_changes(served: Served) -> None:
    path = (await served.client.post("/v1/subscriptions", json={})).headers["location"]
    for body, field in (
        ("{}", "$"),
        ('{"subscriber":"x"}', "$.subscriber"),
        ('{"filter":3}', "$.filter"),
        ('{"words":["rain"]}', "$.words"),
        ('{"zone":{"type":"point","lat":100,"lon":0}}', "$.zone.lat"),
    ):
        assert problem_of(await served.client.patch(path, content=body), 422)["field"] == field


async def test_when_the_cluster_is_away(served: Served) -> None:
    served.door.subscribe_error = problems.unavailable("no matcher answered", retry_after_s=3)
    answer = await served.client.post("/v1/subscriptions", json={})
    problem_of(answer, 503)
    assert answer.headers["retry-after"] == "3"
