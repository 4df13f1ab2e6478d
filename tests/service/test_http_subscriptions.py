"""`/v1/subscriptions` on a real port."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from braid import problems
from services.connpoint.http.subscriptions import SubscriptionShown
from tests.service.fake_door import Served, problem_of, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


@pytest.fixture
def served(shared: Served) -> Served:
    shared.door.reset()
    return shared


async def test_the_life_of_a_subscription(served: Served) -> None:
    created = await served.client.post(
        "/v1/subscriptions", json={"filter": "value  >  40", "subscriber": "dashboard-7", "until": "+1h"}
    )
    assert created.status_code == 201
    shown = created.json()
    assert created.headers["location"] == f"/v1/subscriptions/{shown['id']}"
    assert shown["subscriber"] == "dashboard-7"
    assert shown["filter"] == "value > 40"
    assert set(shown) <= {"from" if name == "from_" else name for name in SubscriptionShown.__struct_fields__}

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
        ('{"words":["white"]}', 501, "$.words"),
    ],
)
async def test_wrong_subscriptions(served: Served, body: str, status: int, field: str | None) -> None:
    answer = await served.client.post("/v1/subscriptions", content=body)
    assert problem_of(answer, status).get("field") == field
    assert served.door.records == {}


async def test_wrong_changes(served: Served) -> None:
    path = (await served.client.post("/v1/subscriptions", json={})).headers["location"]
    for body, field in (("{}", "$"), ('{"subscriber":"x"}', "$.subscriber"), ('{"filter":3}', "$.filter")):
        assert problem_of(await served.client.patch(path, content=body), 422)["field"] == field


async def test_when_the_cluster_is_away(served: Served) -> None:
    served.door.subscribe_error = problems.unavailable("no matcher answered", retry_after_s=3)
    answer = await served.client.post("/v1/subscriptions", json={})
    problem_of(answer, 503)
    assert answer.headers["retry-after"] == "3"


async def test_explain_is_not_available_yet(served: Served) -> None:
    problem_of(await served.client.post("/v1/explain", json={}), 501)
