"""Maps of anchors before the door: what is asked and written, what is refused with which field, and what is shown."""

from typing import Any

import msgspec
import pytest

from braid.anchor_map import ANCHORS_MAX, AnchorMap
from braid.anchors import place_of
from braid.scaling import NO_MAP, Ask
from braid.topology import Change, Target
from services.connpoint.http.maps import MapRequest, map_of
from tests.service.fake_door import Served, problem_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUSES = AnchorMap(3, {place_of("words:hous"): 2, place_of("filter:city = 'Madrid'"): 1})


def set_routing(served: Served, routing: str, map: AnchorMap | None = None) -> None:
    assert served.door.in_force is not None
    served.door.in_force = msgspec.structs.replace(served.door.in_force, routing=routing, map=map)


async def test_a_map_is_written_with_the_scaling_that_asks_for_it(served: Served) -> None:
    set_routing(served, "anchored")
    given = {"parts": 3, "words": {"Houses": 2}, "anchors": {"filter:city='Madrid'": 1}}
    assert (await served.client.post("/v1/cluster/scale", json={"map": given})).status_code == 202
    (record,) = served.door.coordination.records.values()
    assert record.asked == Ask(map=HOUSES.version)
    assert served.door.coordination.map == HOUSES
    shown = (await served.client.get(f"/v1/cluster/scalings/{record.id}")).json()
    assert shown["asked"] == {"layers": {}, "replace": [], "routing": None, "map": HOUSES.version}


@pytest.mark.parametrize(
    ("routing", "body", "asked"),
    [
        (
            "broadcast",
            {"routing": "anchored", "layer": "matcher", "to": 3, "map": {"parts": 3, "words": {"house": 0}}},
            Ask({"matcher": 3}, routing="anchored", map=AnchorMap(3, {place_of("words:hous"): 0}).version),
        ),
        ("anchored", {"map": "none"}, Ask(map=NO_MAP)),
        ("broadcast", {"map": "none"}, Ask(map=NO_MAP)),
        ("anchored", {"map": None, "replace": ["matcher-1"]}, Ask(replace=("matcher-1",))),
    ],
)
async def test_with_other_things_or_as_it_is_or_none(
    served: Served, routing: str, body: dict[str, Any], asked: Ask
) -> None:
    set_routing(served, routing)
    assert (await served.client.post("/v1/cluster/scale", json=body)).status_code == 202
    (record,) = served.door.coordination.records.values()
    assert record.asked == asked
    assert (served.door.coordination.map is None) == (asked.named_map is None)


@pytest.mark.parametrize(
    ("map", "field", "detail"),
    [
        ("1", "$.map", "Expected `str | object | null`, got `int`"),
        ('"None"', "$.map", "expected a map with 'parts' and 'words' or 'anchors', or 'none'"),
        ("{}", "$.map.parts", "Object missing required field `parts`"),
        ('{"parts":3}', "$.map", "this map names nothing; to have none any more, give 'none'"),
        ('{"parts":0,"words":{"house":0}}', "$.map.parts", "from 1 to 256 parts"),
        ('{"parts":257,"words":{"house":0}}', "$.map.parts", "from 1 to 256 parts"),
        ('{"parts":2.5,"words":{"house":0}}', "$.map.parts", "Expected `int`"),
        ('{"parts":2,"words":{"house":0},"size":1}', "$.map.size", "unknown field"),
        ('{"parts":2,"words":["house"]}', "$.map.words", "Expected `object`"),
        ('{"parts":2,"words":{"garden":1,"house":"0"}}', "$.map.words.house", "Expected `int`, got `str`"),
        ('{"parts":2,"anchors":{"filter:a = 1":null}}', "$.map.anchors.filter:a = 1", "Expected `int`, got `null`"),
        ('{"parts":2,"words":{"garden":1,"house":2}}', "$.map.words.house", "from 0 to 1, this is 2"),
        ('{"parts":2,"words":{"house":-1}}', "$.map.words.house", "from 0 to 1, this is -1"),
        ('{"parts":2,"words":{"house":0,"houses":1}}', "$.map.words.houses", "same anchor as one in part 0"),
        ('{"parts":2,"words":{"house":0},"anchors":{"words:HOUSE":1}}', "$.map.anchors.words:HOUSE", "same anchor"),
        ('{"parts":2,"words":{"the":0}}', "$.map.words.the", "only stop words"),
        ('{"parts":2,"words":{"!":0}}', "$.map.words.!", "holds no word"),
        ('{"parts":2,"anchors":{"*":0}}', "$.map.anchors.*", "lie on all matchers"),
        ('{"parts":2,"anchors":{"house":0}}', "$.map.anchors.house", "such as words:house, filter:city = 'Madrid'"),
        ('{"parts":2,"anchors":{"filter:a =":0}}', "$.map.anchors.filter:a =", "expected"),
        ('{"parts":2,"anchors":{"filter:":0}}', "$.map.anchors.filter:", "no subscription is placed by this"),
        ('{"parts":2,"anchors":{"filter:a > 1":0}}', "$.map.anchors.filter:a > 1", "no subscription is placed"),
        ('{"parts":2,"anchors":{"filter:a = 1 and b = 2":0}}', "$.map.anchors.filter:a = 1 and b = 2", "no subscr"),
        ('{"parts":2,"anchors":{"topic:a/b":0}}', "$.map.anchors.topic:a/b", "'a/b' is no scope"),
        ('{"parts":2,"anchors":{"topic:self:+/b":0}}', "$.map.anchors.topic:self:+/b", "no subscription is placed"),
        ('{"parts":2,"anchors":{"box:40.1,-4.0,0.5":0}}', "$.map.anchors.box:40.1,-4.0,0.5", "multiples of that"),
        ('{"parts":2,"anchors":{"box:1,1":0}}', "$.map.anchors.box:1,1", "expected south, west and half the side"),
    ],
)
async def test_what_is_no_map_is_refused_with_the_field(served: Served, map: str, field: str, detail: str) -> None:
    set_routing(served, "anchored")
    problem = problem_of(await served.client.post("/v1/cluster/scale", content=f'{{"map":{map}}}'), 422)
    assert problem["field"] == field
    assert detail in problem["detail"]
    assert served.door.coordination.records == {}


@pytest.mark.parametrize(("in_force", "asked"), [("broadcast", None), ("anchored", "broadcast")])
async def test_a_map_without_anchors_is_refused(served: Served, in_force: str, asked: str | None) -> None:
    set_routing(served, in_force)
    body = {"map": {"parts": 2, "words": {"house": 0}}, "routing": asked}
    problem = problem_of(await served.client.post("/v1/cluster/scale", json=body), 422)
    assert (problem["field"], "ask for the routing 'anchored' too" in problem["detail"]) == ("$.map", True)
    assert served.door.coordination.records == {}


async def test_the_largest_map_is_taken_and_a_larger_one_is_not(served: Served) -> None:
    set_routing(served, "anchored")
    words = {f"w{number}": number % 3 for number in range(ANCHORS_MAX)}
    body = {"map": {"parts": 3, "words": words, "anchors": {"filter:a = 1": 0}}}
    problem = problem_of(await served.client.post("/v1/cluster/scale", json=body), 422)
    assert "at most 100000 anchors, this one 100001" in problem["detail"]
    del body["map"]["anchors"]
    assert (await served.client.post("/v1/cluster/scale", json=body)).status_code == 202
    assert served.door.coordination.map is not None
    # Two words in a hundred thousand may have the same place, and lie together then.
    assert ANCHORS_MAX - 5 <= len(served.door.coordination.map) <= ANCHORS_MAX


async def test_each_kind_of_anchor_is_taken_as_subscriptions_spell_it() -> None:
    spelled = {
        "words:White houses": "words:hous white",
        "filter:city in ('Madrid','Getafe')": "filter:city in ('Madrid', 'Getafe')",
        "filter:name prefix 'Plaza'": "filter:name prefix 'Plaza'",
        "topic:both:sports/soccer": "topic:both:sports/soccer",
        "box:40,-4,0.5": "box:40.0,-4.0,0.5",
        "box:-0.0,0,1": "box:0.0,0.0,1.0",
    }
    for given, text in spelled.items():
        assert map_of(MapRequest(2, anchors={given: 1})) == AnchorMap(2, {place_of(text): 1}), given


async def test_the_map_in_force_and_the_one_to_come_are_shown(served: Served) -> None:
    assert (await served.client.get("/v1/cluster")).json()["map"] is None
    set_routing(served, "anchored", HOUSES)
    assert served.door.in_force is not None
    next_map = AnchorMap(2, {7: 0})
    to = Target(5, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",), "anchored", next_map)
    change = Change("scaling-1", "moving", to, {})
    served.door.in_force = msgspec.structs.replace(served.door.in_force, change=change)
    shown = (await served.client.get("/v1/cluster")).json()
    assert shown["map"] == {"version": HOUSES.version, "parts": 3, "anchors": 2}
    assert shown["change"]["to"]["map"] == {"version": next_map.version, "parts": 2, "anchors": 1}
