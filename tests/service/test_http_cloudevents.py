"""CloudEvents, structured, batched and binary."""

import base64
import json
from typing import Any

import httpx
import pytest

from tests.service.fake_door import Served, problem_of

EVENT: dict[str, Any] = {"specversion": "1.0", "id": "e1", "source": "/s", "type": "reading"}
HEADERS = {f"ce-{name}": value for name, value in EVENT.items()}


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def post(served: Served, event: Any) -> httpx.Response:
    kind = "cloudevents-batch" if isinstance(event, list) else "cloudevents"
    return await served.client.post(
        "/v1/publications", content=json.dumps(event), headers={"content-type": f"application/{kind}+json"}
    )


def last(served: Served) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(served.door.published[-1][1])
    return content


async def test_attributes_extensions_and_data(served: Served) -> None:
    event = {
        **EVENT,
        "subject": "x",
        "time": "2026-05-01T12:00:00Z",
        "dataschema": "/schema",
        "datacontenttype": "application/json",
        "pollutant": "NO2",
        "level": 3,
        "urgent": True,
        "absent": None,
        "topic": "air/madrid",
        "object": "car-1",
        "text": "some words",
        "expires": "2999-01-01T00:00:00Z",
        "data": {"nested": [1, 2.5]},
    }
    response = await post(served, event)
    assert (response.status_code, response.json()) == (202, {"ids": ["e1"]})
    assert last(served) == {
        "id": "e1",
        "topic": "air/madrid",
        "object": "car-1",
        "text": "some words",
        "expires": "2999-01-01T00:00:00.000Z",
        "attributes": {
            "source": "/s",
            "type": "reading",
            "subject": "x",
            "time": "2026-05-01T12:00:00Z",
            "dataschema": "/schema",
            "datacontenttype": "application/json",
            "pollutant": "NO2",
            "level": 3,
            "urgent": True,
        },
        "data": {"nested": [1, 2.5]},
    }


async def test_expirytime_and_base64_data(served: Served) -> None:
    await post(served, {**EVENT, "expirytime": 4102444800, "data_base64": "AAEC"})
    assert last(served)["expires"] == "2100-01-01T00:00:00.000Z"
    assert last(served)["data"] == {"data_base64": "AAEC"}


async def test_batches(served: Served) -> None:
    response = await post(served, [EVENT, {**EVENT, "id": "e2"}])
    assert response.json() == {"ids": ["e1", "e2"]}
    problem_of(await post(served, []), 422)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"specversion": None}, "specversion"),
        ({"id": ""}, "id"),
        ({"id": 7}, "id"),
        ({"source": None}, "source"),
        ({"type": ""}, "type"),
        ({"level": 1.5}, "level"),
        ({"level": {"a": 1}}, "level"),
        ({"topic": 3}, "topic"),
        ({"expires": "never"}, "expires"),
        ({"data": 1, "data_base64": "AAEC"}, "data_base64"),
        ({"data_base64": "***"}, "data_base64"),
        ({"data_base64": 3}, "data_base64"),
        ({"big": 2**70}, "big"),
    ],
)
async def test_wrong_events_name_the_attribute(served: Served, change: dict[str, Any], field: str) -> None:
    assert problem_of(await post(served, {**EVENT, **change}), 422)["field"] == f"$.{field}"
    assert problem_of(await post(served, [EVENT, {**EVENT, **change}]), 422)["field"] == f"$[1].{field}"
    assert served.door.published == []


@pytest.mark.parametrize(
    ("content_type", "body", "data"),
    [
        ("application/json", b' {"a": 1} ', {"a": 1}),
        ("application/vnd.reading+json", b"[1]", [1]),
        (None, b"17", 17),
        ("text/plain; charset=utf-8", "grüße\n".encode(), "grüße\n"),
        ("application/octet-stream", b"\x00\xff", base64.b64encode(b"\x00\xff").decode()),
    ],
)
async def test_binary_mode(served: Served, content_type: str | None, body: bytes, data: Any) -> None:
    headers = {**HEADERS, "ce-level": "3", "ce-note": "%22Euro%20%E2%82%AC%22", "ce-topic": "air"}
    if content_type is not None:
        headers["content-type"] = content_type
    response = await served.client.post("/v1/publications", content=body, headers=headers)
    assert response.json() == {"ids": ["e1"]}
    content = last(served)
    assert content["data"] == data
    assert content["topic"] == "air"
    assert content["attributes"].pop("datacontenttype", None) == content_type
    assert content["attributes"] == {"source": "/s", "type": "reading", "level": "3", "note": '"Euro €"'}


async def test_binary_mode_without_a_body_or_with_a_bad_one(served: Served) -> None:
    assert (await served.client.post("/v1/publications", headers=HEADERS)).status_code == 202
    assert "data" not in last(served)
    json_type = {**HEADERS, "content-type": "application/json"}
    problem_of(await served.client.post("/v1/publications", content=b"{", headers=json_type), 400)
    problem_of(await served.client.post("/v1/publications", content=b'"\xff"', headers=json_type), 400)
    text_type = {**HEADERS, "content-type": "text/plain"}
    problem_of(await served.client.post("/v1/publications", content=b"\xff", headers=text_type), 400)


@pytest.mark.parametrize("missing", ["ce-specversion", "ce-id", "ce-source", "ce-type"])
async def test_binary_mode_names_the_missing_header(served: Served, missing: str) -> None:
    headers = {name: value for name, value in HEADERS.items() if name != missing}
    response = await served.client.post("/v1/publications", content=b"1", headers=headers)
    assert problem_of(response, 422)["field"] == missing


async def test_a_wrong_extension_header_is_named(served: Served) -> None:
    response = await served.client.post("/v1/publications", content=b"1", headers={**HEADERS, "ce-expires": "never"})
    assert problem_of(response, 422)["field"] == "ce-expires"
