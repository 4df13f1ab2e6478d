"""`/v1/cluster`, the probes, the description of the interface, and paths that are not there."""

import msgspec
import pytest

from braid.topology import Change, Phase, Target
from tests.service.fake_door import Served, problem_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_topology(served: Served) -> None:
    shown = (await served.client.get("/v1/cluster")).json()
    assert (shown["epoch"], shown["routing"], shown["change"]) == (3, "broadcast", None)
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


async def test_the_topology_while_it_changes(served: Served) -> None:
    to = Target(5, ("accesspoint-1",), ("matcher-2",), ("exitpoint-1",))
    assert served.door.in_force is not None
    expected: dict[Phase, tuple[int, int | None, int | None]] = {
        "copying": (3, 3, None),
        "moving": (3, 3, None),
        "changing": (5, None, 5),
    }
    for phase, epochs in expected.items():
        change = Change("scaling-1", phase, to, {"matcher-1": 1})
        served.door.in_force = msgspec.structs.replace(served.door.in_force, change=change)
        shown = (await served.client.get("/v1/cluster")).json()
        assert shown["change"] == {
            "id": "scaling-1",
            "phase": phase,
            "to": msgspec.json.decode(msgspec.json.encode(to)),  # without a map it is shown as it is
        }
        epoch_of = {each["name"]: each["epoch"] for each in shown["slices"]}
        assert (shown["epoch"], epoch_of["matcher-1"], epoch_of["matcher-2"]) == epochs
        assert epoch_of["connpoint-1"] == shown["epoch"]


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
        ("get", "/v1/cluster/scalings"),
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
