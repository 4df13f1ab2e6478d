"""`/v1/cluster/scale` and `/v1/cluster/scalings`: what is asked, what is refused, and how far a scaling is."""

import time
from typing import Any

import msgspec
import pytest

from braid.coordination_events import CoordinationUnavailable
from braid.scaling import Ask, Progress, ScalingRecord
from services.connpoint.http import scalings
from services.connpoint.http.scaling_shown import ScalingShown, shown
from tests.service.fake_door import Served, problem_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ({"layer": "matcher", "to": 3}, Ask({"matcher": 3})),
        ({"layer": "matcher", "to": 1}, Ask({"matcher": 1})),  # as many as there are
        ({"layers": {"matcher": 3, "exitpoint": 64}}, Ask({"matcher": 3, "exitpoint": 64})),
        ({"replace": ["matcher-1", "exitpoint-1"]}, Ask({}, ("matcher-1", "exitpoint-1"))),
        ({"routing": "anchored"}, Ask(routing="anchored")),
        ({"routing": "broadcast"}, Ask(routing="broadcast")),
        ({"layer": "matcher", "to": 2, "routing": None}, Ask({"matcher": 2})),
        (
            {"layer": "matcher", "to": 2, "replace": ["matcher-1"], "routing": "anchored"},
            Ask({"matcher": 2}, ("matcher-1",), "anchored"),
        ),
        (
            {"layer": "matcher", "to": 2, "layers": {"accesspoint": 2}, "replace": ["matcher-1"]},
            Ask({"accesspoint": 2, "matcher": 2}, ("matcher-1",)),
        ),
    ],
)
async def test_what_is_asked_is_written_for_the_coordinator(served: Served, body: dict[str, Any], asked: Ask) -> None:
    before_s = time.time()
    accepted = await served.client.post("/v1/cluster/scale", json=body)
    assert accepted.status_code == 202
    (record,) = served.door.coordination.records.values()
    assert accepted.json() == {"id": record.id}
    assert before_s <= record.asked_s <= time.time()
    assert record == ScalingRecord(record.id, asked, record.asked_s)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("{}", "$"),
        ('{"layers":{},"replace":[]}', "$"),
        ('{"layer":"matchr","to":1}', "$.layer"),
        ('{"layer":"matcher","to":0}', "$.to"),
        ('{"layer":"matcher","to":-1}', "$.to"),
        ('{"layer":"matcher","to":65}', "$.to"),
        ('{"layer":"matcher","to":1.5}', "$.to"),
        ('{"layer":"matcher","to":"1"}', "$.to"),
        ('{"layer":"matcher"}', "$.to"),
        ('{"to":1}', "$.layer"),
        ('{"layer":"connpoint","to":2}', "$.layer"),
        ('{"layer":"matcher","to":1,"force":true}', "$.force"),
        ('{"layer":"matcher","to":1,"layers":{"matcher":2}}', "$.layers.matcher"),
        ('{"layers":{"matchr":1}}', "$.layers.matchr"),
        ('{"layers":{"exitpoint":1,"matcher":0}}', "$.layers.matcher"),
        ('{"layers":{"exitpoint":1,"matcher":65}}', "$.layers.matcher"),
        ('{"layers":{"exitpoint":1,"matcher":"2"}}', "$.layers.matcher"),
        ('{"layers":{"connpoint":2}}', "$.layers.connpoint"),
        ('{"layers":[]}', "$.layers"),
        ('{"replace":["matcher-1","matcher-2"]}', "$.replace[1]"),  # registered, but not configured
        ('{"replace":["nobody"]}', "$.replace[0]"),
        ('{"replace":["matcher-1","matcher-1"]}', "$.replace[1]"),
        ('{"replace":["connpoint-1"]}', "$.replace[0]"),
        ('{"replace":"matcher-1"}', "$.replace"),
        ('{"routing":null}', "$"),
        ('{"routing":1}', "$.routing"),
        ('{"routing":""}', "$.routing"),
        ('{"routing":"Anchored"}', "$.routing"),
        ('{"layer":"matcher","to":1,"routing":"random"}', "$.routing"),
    ],
)
async def test_what_cannot_be_done_is_refused_before_anything_is_written(served: Served, body: str, field: str) -> None:
    problem = problem_of(await served.client.post("/v1/cluster/scale", content=body), 422)
    assert problem["field"] == field
    assert served.door.coordination.records == {}
    if "connpoint" in body:
        assert "takes part as soon as it registers" in problem["detail"]
    elif "matchr" in body:
        assert "matcher" in problem["expected"]
        assert "connpoint" not in problem["expected"]


async def test_a_routing_that_does_not_exist_is_answered_with_those_that_do(served: Served) -> None:
    problem = problem_of(await served.client.post("/v1/cluster/scale", json={"routing": "x" * 1000}), 422)
    assert (problem["field"], problem["expected"]) == ("$.routing", ["broadcast", "anchored"])
    assert problem["detail"] == f"there is no routing '{'x' * 100}'"


async def test_a_replacement_is_judged_by_the_configuration_in_force(served: Served) -> None:
    answer = await served.client.post("/v1/cluster/scale", json={"replace": ["matcher-2"]})
    assert problem_of(answer, 422)["expected"] == ["accesspoint-1", "matcher-1", "exitpoint-1"]


async def test_a_body_that_is_no_json(served: Served) -> None:
    problem_of(await served.client.post("/v1/cluster/scale", content="{oops"), 400)


async def test_one_scaling_at_a_time(served: Served) -> None:
    served.door.coordination.put(ScalingRecord("scaling-1", Ask({"matcher": 2}), time.time()))
    problem = problem_of(await served.client.post("/v1/cluster/scale", json={"layer": "matcher", "to": 3}), 409)
    assert problem["type"] == "urn:braid:problem:scaling-under-way"
    assert problem["scaling"] == "scaling-1"
    assert "/v1/cluster/scalings/scaling-1" in problem["detail"]
    problem_of(await served.client.post("/v1/cluster/scale", json={"layer": "matcher", "to": 0}), 422)


async def test_without_zookeeper_or_configuration_nothing_can_be_scaled(served: Served) -> None:
    served.door.coordination.error = CoordinationUnavailable("the connection to ZooKeeper is lost")
    answer = await served.client.post("/v1/cluster/scale", json={"layer": "matcher", "to": 3})
    assert "may have been asked for or not" in problem_of(answer, 503)["detail"]
    for path in ("/v1/cluster/scalings", "/v1/cluster/scalings/scaling-1"):
        assert "ZooKeeper is lost" in problem_of(await served.client.get(path), 503)["detail"]
    served.door.reset()
    served.door.in_force = None
    answer = await served.client.post("/v1/cluster/scale", json={"layer": "matcher", "to": 3})
    assert "no configuration" in problem_of(answer, 503)["detail"]


async def test_a_scaling_under_way_shows_what_every_slice_says(served: Served) -> None:
    began_s = time.time() - 100
    record = ScalingRecord(
        "scaling-1",
        Ask({"matcher": 2}),
        began_s,
        phase="moving",
        wants=("matcher-2",),
        epoch=4,
        began_s={"gathering": began_s + 1, "moving": began_s + 3},
    )
    served.door.coordination.put(
        record,
        Progress("scaling-1", "matcher-1", {"moved": 1200}),
        Progress("scaling-1", "accesspoint-1", {"kept_back": 3}),
    )
    (listed,) = (await served.client.get("/v1/cluster/scalings")).json()["scalings"]
    assert (listed["phase"], "progress" in listed) == ("moving", False)
    answer = (await served.client.get("/v1/cluster/scalings/scaling-1")).json()
    assert 97 <= answer["phase_s"].pop("moving") < 110
    assert 100 <= answer.pop("total_s") < 113
    assert answer.pop("asked_at").endswith("Z")
    assert answer == {
        "id": "scaling-1",
        "state": "running",
        "phase": "moving",
        "reason": "",
        "asked": {"layers": {"matcher": 2}, "replace": [], "routing": None, "map": None},
        "epoch": 4,
        "phase_s": {"asked": 1, "gathering": 2},
        "moved": 0,
        "longest_pause_s": 0,
        "longest_wait_s": 0,
        "progress": {"matcher-1": {"moved": 1200}, "accesspoint-1": {"kept_back": 3}},
    }


def _ended(id: str, asked_s: float, **fields: Any) -> ScalingRecord:
    base = ScalingRecord(id, Ask({"matcher": 2}), asked_s, state="done", phase="done", began_s={"done": asked_s + 5})
    return msgspec.structs.replace(base, **fields)


async def test_scalings_that_ended(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    put = served.door.coordination.put
    put(_ended("scaling-1", 1000.0, moved=7, longest_pause_s=0.2, longest_wait_s=0.3), Progress("scaling-1", "x"))
    put(_ended("scaling-3", 3000.0))
    put(_ended("scaling-2", 2000.0, state="aborted", phase="aborted", reason="matcher-2 was killed"))
    listed = (await served.client.get("/v1/cluster/scalings")).json()["scalings"]
    assert [each["id"] for each in listed] == ["scaling-3", "scaling-2", "scaling-1"]
    assert (listed[1]["state"], listed[1]["reason"]) == ("aborted", "matcher-2 was killed")
    assert [listed[2][name] for name in ("moved", "longest_pause_s", "longest_wait_s")] == [7, 0.2, 0.3]
    assert (await served.client.get("/v1/cluster/scalings/scaling-1")).json() == listed[2]
    assert "progress" not in listed[2]
    monkeypatch.setattr(scalings, "LISTED_MAX", 2)
    assert len((await served.client.get("/v1/cluster/scalings")).json()["scalings"]) == 2


@pytest.mark.parametrize("id", ["unknown", "Scaling", "a..b", "scaling-1%00", "a" * 300])
async def test_scalings_that_do_not_exist(served: Served, id: str) -> None:
    problem_of(await served.client.get(f"/v1/cluster/scalings/{id}"), 404)


@pytest.mark.parametrize(
    ("fields", "phase_s", "total_s"),
    [
        ({}, {"asked": 9}, 9),
        ({"began_s": {"asked": 101.0, "gathering": 104.0}}, {"asked": 4, "gathering": 5}, 9),
        # The coordinator's clock is behind that of the connection point.
        ({"began_s": {"moving": 97.0, "gathering": 95.0}}, {"asked": 0, "gathering": 2, "moving": 12}, 9),
        (
            {"state": "done", "phase": "done", "began_s": {"moving": 101.0, "done": 103.5}},
            {"asked": 1, "moving": 2.5},
            3.5,
        ),
        ({"state": "aborted", "phase": "aborted", "began_s": {"moving": 101.0}}, {"asked": 1, "moving": 0}, 1),
    ],
)
async def test_how_long_each_phase_took(fields: dict[str, Any], phase_s: dict[str, float], total_s: float) -> None:
    result: ScalingShown = shown(ScalingRecord("scaling-1", Ask(), 100.0, **fields), 109.0)
    assert (result.phase_s, result.total_s) == (phase_s, total_s)
    assert list(result.phase_s) == list(phase_s)
