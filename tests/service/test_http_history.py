"""`GET /v1/publications` on a real port."""

import json
import time
from typing import Any

import pytest

from braid import problems
from braid.instants import format_instant
from tests.service.fake_door import Served, problem_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

MADRID = {"type": "point", "lat": 40.42, "lon": -3.7}
NEARBY = {"type": "circle", "lat": 40.4168, "lon": -3.7038, "radius_m": 5000}


def keep(served: Served, age_s: float, **content: Any) -> None:
    """As if it had been published so many seconds ago."""
    served.door.kept.add(json.dumps(content, separators=(",", ":")).encode(), time.time() - age_s)


async def found(served: Served, **parameters: Any) -> list[str]:
    """The ids, in the order of the answer; `from_` stands for `from`."""
    answer = await served.client.get(
        "/v1/publications", params={name.rstrip("_"): value for name, value in parameters.items()}
    )
    assert answer.status_code == 200, answer.text
    return [shown["publication"]["id"] for shown in answer.json()["publications"]]


async def test_the_newest_come_first_with_the_time_of_their_publishing(served: Served) -> None:
    assert await found(served) == []
    before = time.time()
    for id in "abc":
        await served.client.post("/v1/publications", json={"id": id})
    answer = await served.client.get("/v1/publications", params={"limit": 2})
    assert answer.headers["content-type"] == "application/json"
    shown = answer.json()["publications"]
    assert [sorted(each) for each in shown] == [["publication", "published"]] * 2
    assert [each["publication"] for each in shown] == [{"id": "c"}, {"id": "b"}]
    assert all(format_instant(before) <= each["published"] <= format_instant(time.time()) for each in shown)


async def test_publications_are_spliced_as_they_are(served: Served) -> None:
    content = b'{"id":"a","attributes":{"n":1.0},"data":{"b":  [1, null], "b": 2}}'
    served.door.kept.add(content, time.time())
    answer = await served.client.get("/v1/publications")
    assert content in answer.content


async def test_every_condition_narrows_and_all_are_joined(served: Served) -> None:
    keep(served, 300, id="a", topic="rivers/jarama", attributes={"level": 1}, text="It floods", zone=MADRID)
    keep(served, 200, id="b", topic="rivers", attributes={"level": 3}, text="All quiet")
    keep(served, 100, id="c", topic="air/madrid", attributes={"level": 5}, text="Floods of rain", zone=MADRID)
    assert await found(served) == ["c", "b", "a"]
    assert await found(served, where="level > 2") == ["c", "b"]
    assert await found(served, word="flooding") == ["c", "a"]
    assert await found(served, word=["flooding", "rain"]) == ["c"]
    assert await found(served, topic="rivers/jarama") == ["b", "a"]
    assert await found(served, topic="rivers/jarama", topic_scope="self") == ["a"]
    assert await found(served, topic="+/madrid") == ["c"]
    assert await found(served, zone=json.dumps(NEARBY)) == ["c", "a"]
    assert await found(served, from_="-250s") == ["c", "b"]
    assert await found(served, until="-250s") == ["a"]
    assert await found(served, from_="-250s", until="-150s") == ["b"]
    assert await found(served, where="level < 4", word="flood", topic="rivers/#", zone=json.dumps(NEARBY)) == ["a"]


async def test_times_are_written_in_every_way(served: Served) -> None:
    keep(served, 300, id="old")
    keep(served, 100, id="new")
    between = time.time() - 200
    assert await found(served, from_=str(between)) == ["new"]
    assert await found(served, from_=str(int(between))) == ["new"]
    assert await found(served, from_=format_instant(between)) == ["new"]
    assert await found(served, until=format_instant(between).replace("Z", "+00:00")) == ["old"]


async def test_what_has_expired_is_not_found(served: Served) -> None:
    keep(served, 300, id="gone", expires=format_instant(time.time() - 1))
    keep(served, 300, id="lasting", expires=format_instant(time.time() + 60))
    assert await found(served) == ["lasting"]


async def test_empty_parameters_are_no_conditions(served: Served) -> None:
    keep(served, 1, id="a")
    assert await found(served, where="", topic="", topic_scope="", zone="", from_="", until="") == ["a"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("where=value%20%3E", "where"),
        ("where=" + "x" * 20_000, "where"),
        ("word=the", "word"),
        ("word=rain&word=" + "x" * 300, "word[1]"),
        ("topic=a//b", "topic"),
        ("topic=a&topic_scope=above", "topic_scope"),
        ("topic_scope=self", "topic_scope"),
        ("zone=Madrid", "zone"),
        ("zone=[1]", "zone"),
        ("zone={", "zone"),
        ('zone={"type":"square"}', "zone.type"),
        ('zone={"type":"point","lat":91,"lon":0}', "zone.lat"),
        ('zone={"type":"point","lat":1e400,"lon":0}', "zone.lat"),
        ("zone=" + "[" * 5_000, "zone"),
        ("from=yesterday", "from"),
        ("until=tomorrow", "until"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=many", "limit"),
        ("filter=value%20%3E%2040", "filter"),
    ],
)
async def test_what_is_wrong_is_named_by_its_parameter(served: Served, query: str, field: str) -> None:
    keep(served, 1, id="a")
    assert problem_of(await served.client.get(f"/v1/publications?{query}"), 422)["field"] == field


async def test_a_filter_that_does_not_parse_says_where(served: Served) -> None:
    answer = await served.client.get("/v1/publications", params={"where": "city = Madrid"})
    problem = problem_of(answer, 422)
    assert (problem["field"], problem["position"]) == ("where", 7)
    assert problem["detail"].endswith("\n  city = Madrid\n         ^")
    assert problem["expected"]


async def test_a_misspelt_parameter_is_told_the_right_ones(served: Served) -> None:
    problem = problem_of(await served.client.get("/v1/publications?wher=x"), 422)
    assert "where" in problem["expected"]


async def test_when_the_cluster_is_away(served: Served) -> None:
    served.door.find_error = problems.unavailable("no matcher answered", retry_after_s=3)
    answer = await served.client.get("/v1/publications")
    assert "field" not in problem_of(answer, 503)
    assert answer.headers["retry-after"] == "3"


async def test_the_description_names_every_parameter(served: Served) -> None:
    paths = (await served.client.get("/openapi.json")).json()["paths"]
    described = paths["/v1/publications"]["get"]
    assert [parameter["name"] for parameter in described["parameters"]] == [
        *("where", "word", "topic", "topic_scope", "zone", "from", "until", "limit")
    ]
    assert "/v1/publications/{id}/trace" in paths
    page = (await served.client.get("/docs")).text
    assert "The most recent publications that match" in page
