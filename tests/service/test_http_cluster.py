"""`/v1/cluster`, the probes, the description of the interface, and paths that are not there."""

import pytest

from services.connpoint.http import cluster
from tests.service.fake_door import Served, problem_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_topology(served: Served) -> None:
    shown = (await served.client.get("/v1/cluster")).json()
    assert (shown["epoch"], shown["routing"]) == (3, "broadcast")
    assert shown["slices"][0] == {
        "name": "connpoint-1",
        "layer": "connpoint",
        "address": "127.0.0.1:1",
        "http": "127.0.0.1:2",
        "pid": 1,
        "incarnation": 1,
        "version": "0.1.0",
        "epoch": 3,
    }
    assert {each["name"]: each["epoch"] for each in shown["slices"]} == {
        "connpoint-1": 3,
        "accesspoint-1": 3,
        "matcher-1": 3,
        "matcher-2": None,
        "exitpoint-1": 3,
    }
    served.door.in_force = None
    assert (await served.client.get("/v1/cluster")).json()["epoch"] is None


async def test_scaling_to_what_is_there_is_done_at_once(served: Served) -> None:
    for layer in ("matcher", "connpoint"):
        accepted = await served.client.post("/v1/cluster/scale", json={"layer": layer, "to": 1})
        assert accepted.status_code == 202
        scaling = (await served.client.get(f"/v1/cluster/scalings/{accepted.json()['id']}")).json()
        assert scaling == {**accepted.json(), "layer": layer, "to": 1, "state": "done", "phase": "done"}
    problem_of(await served.client.get("/v1/cluster/scalings/unknown"), 404)


async def test_scaling_while_running_is_not_available_yet(served: Served) -> None:
    answer = await served.client.post("/v1/cluster/scale", json={"layer": "matcher", "to": 3})
    assert problem_of(answer, 501)["field"] == "$.to"
    served.door.in_force = None
    problem_of(await served.client.post("/v1/cluster/scale", json={"layer": "matcher", "to": 3}), 503)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"layer":"matchr","to":1}', "$.layer"),
        ('{"layer":"matcher","to":0}', "$.to"),
        ('{"layer":"matcher","to":-1}', "$.to"),
        ('{"layer":"matcher","to":1.5}', "$.to"),
        ('{"layer":"matcher","to":"1"}', "$.to"),
        ('{"layer":"matcher"}', "$.to"),
        ('{"to":1}', "$.layer"),
        ('{"layer":"matcher","to":1,"force":true}', "$.force"),
    ],
)
async def test_wrong_scalings(served: Served, body: str, field: str) -> None:
    problem = problem_of(await served.client.post("/v1/cluster/scale", content=body), 422)
    assert problem["field"] == field
    if field == "$.layer":
        assert "matcher" in problem["expected"]


async def test_scalings_are_remembered_within_bounds(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "SCALINGS_KEPT_MAX", 2)
    ids = [
        (await served.client.post("/v1/cluster/scale", json={"layer": "matcher", "to": 1})).json()["id"]
        for _ in range(3)
    ]
    found = [(await served.client.get(f"/v1/cluster/scalings/{id}")).status_code for id in ids]
    assert found == [404, 200, 200]


async def test_probes(served: Served) -> None:
    assert (await served.client.get("/healthz")).status_code == 200
    assert (await served.client.get("/readyz")).status_code == 200
    served.door.reasons = ["no access point is linked"]
    assert (await served.client.get("/healthz")).status_code == 200
    not_ready = await served.client.get("/readyz")
    assert not_ready.status_code == 503
    assert not_ready.json()["reasons"] == ["no access point is linked"]
    metrics = await served.client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert "python_info" in metrics.text


async def test_paths_and_methods_that_are_not_there(served: Served) -> None:
    assert "/v2/nothing" in problem_of(await served.client.get("/v2/nothing"), 404)["detail"]
    problem_of(await served.client.get("/v1/cluster/"), 404)
    answer = await served.client.put("/v1/publications", json={})
    problem_of(answer, 405)
    assert "allow" in answer.headers
    upgrade = await served.client.get("/v1/ws")
    problem_of(upgrade, 426)
    assert upgrade.headers["upgrade"] == "websocket"


async def test_the_description_is_complete(served: Served) -> None:
    described = (await served.client.get("/openapi.json")).json()
    calls = {(method, path) for path, methods in described["paths"].items() for method in methods}
    assert calls >= {
        ("post", "/v1/publications"),
        ("get", "/v1/publications"),
        ("get", "/v1/publications/{id}/trace"),
        ("post", "/v1/subscriptions"),
        ("get", "/v1/subscriptions"),
        ("get", "/v1/subscriptions/{id}"),
        ("patch", "/v1/subscriptions/{id}"),
        ("delete", "/v1/subscriptions/{id}"),
        ("post", "/v1/explain"),
        ("get", "/v1/stream"),
        ("get", "/v1/ws"),
        ("get", "/v1/cluster"),
        ("post", "/v1/cluster/scale"),
        ("get", "/v1/cluster/scalings/{id}"),
        ("get", "/healthz"),
        ("get", "/readyz"),
        ("get", "/metrics"),
    }
    bodies = described["paths"]["/v1/publications"]["post"]["requestBody"]["content"]
    assert set(bodies) == {
        "application/json",
        "application/x-ndjson",
        "application/cloudevents+json",
        "application/cloudevents-batch+json",
    }
    assert all(body["example"] for body in bodies.values())
    _check_references(described, set(described["components"]["schemas"]))


async def test_the_docs_page_needs_no_network(served: Served) -> None:
    page = await served.client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "/v1/cluster/scalings/{id}" in page.text
    assert "&quot;op&quot;: &quot;subscribe&quot;" in page.text
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "<script" not in page.text


def _check_references(node: object, schemas: set[str]) -> None:
    """Every reference leads somewhere."""
    if isinstance(node, dict):
        if "$ref" in node:
            assert node["$ref"].rpartition("/")[2] in schemas
        for value in node.values():
            _check_references(value, schemas)
    elif isinstance(node, list):
        for value in node:
            _check_references(value, schemas)
