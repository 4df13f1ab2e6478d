"""`/v1/publications` on a real port: every form of a body, and everything that can be wrong with one."""

import asyncio
import json
from typing import Any

import httpx
import pytest
import structlog

from braid import problems
from braid.config import Limits, Settings
from tests.service.fake_door import FakeDoor, Served, problem_of, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")


def contents(door: FakeDoor) -> list[Any]:
    return [json.loads(content) for _, content in door.published]


async def post(served: Served, body: bytes | str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await served.client.post("/v1/publications", content=body, headers=named)


async def test_one_publication_an_array_and_lines(served: Served) -> None:
    one = await post(
        served, '{"id":"a","attributes":{"x":1,"y":true,"z":"s","f":1.5}}', content_type="application/json"
    )
    assert (one.status_code, one.json()) == (202, {"ids": ["a"]})
    assert one.headers["content-type"] == "application/json"
    many = await post(served, ' [{"id":"b"},{"id":"c"}]', content_type="application/json; charset=utf-8")
    assert many.json() == {"ids": ["b", "c"]}
    for media_type in ("application/x-ndjson", "application/jsonl"):
        lines = await post(served, '{"id":"d"}\r\n\n  \n{"id":"e"}', content_type=media_type)
        assert lines.json() == {"ids": ["d", "e"]}
    untyped = await post(served, '{"id":"f","data": {"any" : [1, null]} }')
    assert untyped.json() == {"ids": ["f"]}
    assert contents(served.door)[0] == {"id": "a", "attributes": {"x": 1, "y": True, "z": "s", "f": 1.5}}
    assert contents(served.door)[-1] == {"id": "f", "data": {"any": [1, None]}}
    assert served.door.publish_waits == [False] * 5


async def test_topic_and_zone_are_written_canonically(served: Served) -> None:
    body = '{"data": 1, "zone": {"coordinates": [-3.7, 40.4], "type": "Point"}, "topic": "1/4/2", "id": "a"}'
    assert (await post(served, body)).status_code == 202
    assert served.door.published[0][1] == (
        b'{"id":"a","topic":"1.4.2","zone":{"type":"point","lat":40.4,"lon":-3.7},"data":1}'
    )


async def test_a_publisher_is_declared_or_the_connection(served: Served) -> None:
    await post(served, "{}", Braid_Publisher="sensor-7")
    await post(served, "{}")
    await post(served, "{}")
    declared, first, second = (publisher for publisher, _ in served.door.published)
    assert declared == "sensor-7"
    assert first == second
    assert first.startswith("127.0.0.1:")
    async with httpx.AsyncClient(trust_env=False) as other:
        await other.post(f"http://127.0.0.1:{served.port}/v1/publications", content="{}")
    assert served.door.published[-1][0] != first
    problem = problem_of(await post(served, "{}", Braid_Publisher="x" * 300), 422)
    assert (problem["limit"], problem["field"]) == ("limits.name_length_max", "Braid-Publisher")


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ("", 400, None),
        ("{", 400, None),
        ('{"attributes":{"x":NaN}}', 400, None),
        ('{"attributes":{"x":Infinity}}', 400, None),
        ('{"attributes":{"x":-Infinity}}', 400, None),
        ('{"attributes":{"x":"\\ud800 lone"}}', 400, None),
        ('{"data":"\\udc00 lone"}', 400, None),
        ('{"data":{"a":NaN}}', 400, None),
        (b'{"attributes":{"x":"\xff"}}', 400, None),
        (b'{"data":"\xff\xfe"}', 400, None),
        (b'\xef\xbb\xbf{"id":"byte order mark"}', 400, None),
        ("[" * 100_000, 422, "$[0]"),
        ('{"data":' + "[" * 100_000 + "]" * 100_000 + "}", 400, None),
        ('{"zone":{"a":' + "[" * 100_000 + "]" * 100_000 + "}}", 400, None),
        ('"text"', 422, "$"),
        ("17", 422, "$"),
        ("null", 422, "$"),
        ("[]", 422, "$"),
        ("[1]", 422, "$[0]"),
        ('{"subject":"x"}', 422, "$.subject"),
        ('[{},{"subject":"x"}]', 422, "$[1].subject"),
        ('{"id":7}', 422, "$.id"),
        ('[{},{},{},{"attributes":{"ok":1,"x":[1]}}]', 422, "$[3].attributes.x"),
        ('{"attributes":{"x":null}}', 422, "$.attributes.x"),
        ('{"attributes":{"a":1,"x":1e400}}', 422, "$.attributes.x"),
        ('{"attributes":{"x":123456789012345678901234567890}}', 422, "$.attributes.x"),
        ('[{},{"attributes":{"x":9223372036854775808}}]', 422, "$[1].attributes.x"),
        ('{"attributes":{"x":' + "9" * 5_000 + "}}", 422, "$.attributes.x"),
        ('{"attributes":{"":1}}', 422, "$.attributes"),
        ('{"attributes":[1]}', 422, "$.attributes"),
        ('{"expires":"tomorrow"}', 422, "$.expires"),
        ('{"zone":{"lat":1}}', 422, "$.zone.type"),
        ('{"zone":"Madrid"}', 422, "$.zone"),
        ('{"zone":{"type":"point","lat":91,"lon":0}}', 422, "$.zone.lat"),
        ('{"zone":{"type":"point","lat":' + "9" * 5_000 + ',"lon":0}}', 422, "$.zone.lat"),
        ('[{},{"zone":{"type":"Point","coordinates":[0,"x"]}}]', 422, "$[1].zone.coordinates[1]"),
        ('{"topic":"sports/+"}', 422, "$.topic"),
        ('[{},{"topic":"#"}]', 422, "$[1].topic"),
        ('{"topic":"sports//soccer"}', 422, "$.topic"),
        ('{"topic":"' + "x" * 300 + '"}', 422, "$.topic"),
        ('{"id":"' + "x" * 300 + '"}', 422, "$.id"),
    ],
)
async def test_a_wrong_body_names_the_field(served: Served, body: str | bytes, status: int, field: str | None) -> None:
    problem = problem_of(await post(served, body, content_type="application/json"), status)
    assert problem.get("field") == field
    assert served.door.published == []


async def test_a_wrong_line_is_named_by_its_number(served: Served) -> None:
    lines = {"content_type": "application/x-ndjson"}
    broken = problem_of(await post(served, '{"id":"a"}\n\n{"id":}\n', **lines), 400)
    assert broken["line"] == 3
    assert broken["detail"].startswith("line 3")
    wrong = problem_of(await post(served, '{}\n{"attributes":{"x":{}}}', **lines), 422)
    assert (wrong["line"], wrong["field"]) == (2, "$.attributes.x")
    checked = problem_of(await post(served, '\n{}\n\n{"expires":"never"}', **lines), 422)
    assert (checked["line"], checked["field"]) == (4, "$.expires")
    assert problem_of(await post(served, "\n \n", **lines), 422)["field"] == "$"
    assert served.door.published == []


async def test_only_known_content_types(served: Served) -> None:
    problem = problem_of(await post(served, "{}", content_type="text/xml"), 415)
    assert "application/x-ndjson" in problem["accepted"]
    assert "application/cloudevents+json" in problem["detail"]
    problem_of(await post(served, "{}", content_encoding="gzip"), 415)


async def test_batches_are_bounded() -> None:
    async with serving(Settings(limits=Limits(batch_publications_max=3))) as served:
        assert (await post(served, "[{},{},{}]")).status_code == 202
        assert (await post(served, '[{"data":[{},{},{},{},{},{}]},{}]')).status_code == 202
        for body, media_type in (
            ("[{},{},{},{}]", "application/json"),
            ("{}\n{}\n{}\n{}", "application/jsonl"),
            ("[" + ",".join(["{}"] * 100_000) + "]", "application/json"),
            ("[" + ",".join(["{}"] * 100) + "]", "application/cloudevents-batch+json"),
        ):
            problem = problem_of(await post(served, body, content_type=media_type), 413)
            assert problem["limit"] == "limits.batch_publications_max"
            assert problem["maximum"] == 3
        assert len(served.door.published) == 5


async def test_overload_is_429_with_retry_after(served: Served) -> None:
    served.door.publish_error = problems.overloaded("20000 publications are on their way", retry_after_s=2)
    response = await post(served, "{}")
    assert problem_of(response, 429)["retry_after_s"] == 2
    assert response.headers["retry-after"] == "2"
    served.door.publish_error = problems.unavailable("no access point")
    assert (await post(served, "{}")).headers["retry-after"] == "1"


async def test_an_unexpected_error_is_a_problem_without_a_trace(served: Served) -> None:
    served.door.publish_error = RuntimeError("secret detail")
    with structlog.testing.capture_logs() as lines:
        response = await post(served, "{}")
    problem_of(response, 500)
    assert "secret" not in response.text
    assert lines[0]["event"] == "unexpected_error"
    assert lines[0]["path"] == "/v1/publications"
    assert lines[0]["exc_info"] is served.door.publish_error


async def test_an_idempotency_key_publishes_once(served: Served) -> None:
    key = {"Idempotency-Key": "k1"}
    first = await served.client.post("/v1/publications", json=[{}, {}], headers=key)
    again = await served.client.post("/v1/publications", json=[{}, {}], headers=key)
    assert first.status_code == again.status_code == 202
    assert first.json() == again.json()
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert len(served.door.published) == 2
    # A retry over another connection of the same host is still the same call.
    async with httpx.AsyncClient(trust_env=False) as other:
        url = f"http://127.0.0.1:{served.port}/v1/publications"
        assert (await other.post(url, json=[{}, {}], headers=key)).json() == first.json()
        declared = {**key, "Braid-Publisher": "sensor-7"}
        assert "idempotency-replayed" not in (await other.post(url, json={}, headers=declared)).headers
    conflict = await served.client.post("/v1/publications", json={"id": "other"}, headers=key)
    assert problem_of(conflict, 422)["field"] == "Idempotency-Key"
    too_long = await served.client.post("/v1/publications", json={}, headers={"Idempotency-Key": "x" * 300})
    problem_of(too_long, 422)


async def test_a_concurrent_retry_waits_for_the_first_call(served: Served) -> None:
    served.door.publishing.clear()
    key = {"Idempotency-Key": "k2"}
    both = [asyncio.create_task(served.client.post("/v1/publications", json={}, headers=key)) for _ in range(2)]
    await served.door.publish_called.wait()
    await asyncio.sleep(0.05)
    served.door.publishing.set()
    first, second = await asyncio.gather(*both)
    assert first.json() == second.json()
    assert served.door.publish_calls == 1


async def test_a_failed_call_does_not_poison_its_key(served: Served) -> None:
    key = {"Idempotency-Key": "k3"}
    served.door.publish_error = problems.overloaded("full")
    problem_of(await served.client.post("/v1/publications", json={}, headers=key), 429)
    served.door.publish_error = None
    assert (await served.client.post("/v1/publications", json={}, headers=key)).status_code == 202


async def test_traces(served: Served) -> None:
    assert (await served.client.post("/v1/publications?trace=true", json={"id": "a"})).status_code == 202
    await served.client.post("/v1/publications", json={"id": "b"})
    assert served.door.traced == [True, False]
    problem_of(await served.client.post("/v1/publications?trace=maybe", json={}), 422)
    problem_of(await served.client.get("/v1/publications/a/trace"), 404)
    served.door.traces["a"] = []
    assert (await served.client.get("/v1/publications/a/trace")).json() == {
        "id": "a",
        "complete": False,
        "hops": [],
    }
    served.door.traces["a"] = [("connpoint-1", 1, 2), ("matcher-1", 3, 4)]
    assert (await served.client.get("/v1/publications/a/trace")).json() == {
        "id": "a",
        "complete": True,
        "hops": [
            {"slice": "connpoint-1", "arrived_ns": 1, "left_ns": 2},
            {"slice": "matcher-1", "arrived_ns": 3, "left_ns": 4},
        ],
    }
