"""`braid status`, `trace` and `explain` against scripted answers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.service.cli_runner import braid
from tests.service.fake_door import serving
from tests.service.test_client_scripted import scripted

SLICES = [
    {
        "name": "matcher-10",
        "layer": "matcher",
        "address": "127.0.0.1:1",
        "pid": 3,
        "incarnation": 1,
        "epoch": None,
    },
    {"name": "matcher-9", "layer": "matcher", "address": "127.0.0.1:2", "pid": 2, "incarnation": 1, "epoch": 1},
    {
        "name": "connpoint-1",
        "layer": "connpoint",
        "address": "127.0.0.1:3",
        "pid": 1,
        "incarnation": 1,
        "epoch": 1,
    },
]


async def test_status() -> None:
    async with scripted() as server:
        server.answers["/v1/cluster"] = (200, {"epoch": 7, "routing": "broadcast", "slices": SLICES})
        server.answers["/readyz"] = (200, {"status": "ready"})
        done = await braid(server.url, "status")
        lines = done.stdout.splitlines()
        assert (done.exit_code, lines[0]) == (0, "ready  epoch 7, routing broadcast")
        assert [line.split()[0] for line in lines[2:]] == ["connpoint-1", "matcher-9", "matcher-10"]
        assert "waiting" in lines[-1]
        named = [{**SLICES[0], "name": "east"}]
        server.answers["/v1/cluster"] = (200, {"epoch": 7, "routing": "broadcast", "slices": named})
        assert (await braid(server.url, "status")).stdout.splitlines()[2].split()[:2] == ["matcher", "east"]
        server.answers["/v1/cluster"] = (200, {"epoch": 7, "routing": "broadcast", "slices": SLICES})
        server.answers["/readyz"] = (503, {"status": "not ready", "reasons": ["no exit point is linked"]})
        done = await braid(server.url, "status")
        assert (done.exit_code, done.stdout.splitlines()[1]) == (1, "  no exit point is linked")
        done = await braid(server.url, "status", "--json")
        shown = json.loads(done.stdout)
        assert (shown["ready"], shown["epoch"], shown["reasons"]) == (False, 7, ["no exit point is linked"])


@asynccontextmanager
async def http(answers: list[tuple[int, Any]]) -> AsyncIterator[tuple[str, list[str]]]:
    """Answers one request after the other; yields its address and what was asked."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next((int(line[15:]) for line in head.splitlines() if line.lower().startswith("content-length:")), 0)
        body = (await reader.readexactly(length)).decode()
        asked.append(f"{head.splitlines()[0].rpartition(' ')[0]} {body}".strip())
        status, answer = answers.pop(0)
        content = json.dumps(answer).encode()
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode() + content
        )
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


HOPS = [
    {"slice": "connpoint-1", "arrived_ns": 1_000, "left_ns": 11_000},
    {"slice": "matcher-1", "arrived_ns": 31_000, "left_ns": 32_000},
]
NOT_FOUND = {"title": "Not found", "status": 404, "detail": "there is no traced publication 'x/y'"}


async def test_trace_publishes_and_asks_until_the_way_is_complete() -> None:
    answers = [
        (202, {"ids": ["x/y"]}),
        (404, NOT_FOUND),
        (200, {"id": "x/y", "complete": False, "hops": []}),
        (200, {"id": "x/y", "complete": True, "hops": HOPS}),
    ]
    async with http(list(answers)) as (url, asked):
        done = await braid(url, "trace", '{"id":"x/y"}')
        assert done.exit_code == 0
        assert asked[:2] == ['POST /v1/publications?trace=true {"id":"x/y"}', "GET /v1/publications/x%2Fy/trace"]
        assert len(asked) == 4
        lines = done.stdout.splitlines()
        assert lines[0] == "x/y"
        assert "20 µs" in lines[3]
        assert lines[-1].strip() == "31 µs from end to end"
    async with http([answers[0], answers[3]]) as (url, _):
        done = await braid(url, "trace", '{"id":"x/y"}', "--json")
        assert json.loads(done.stdout) == answers[3][1]


async def test_a_trace_that_does_not_end_is_told() -> None:
    answers = [(202, {"ids": ["a"]}), (200, {"id": "a", "complete": False, "hops": HOPS})]
    async with http(list(answers)) as (url, _):
        done = await braid(url, "trace", "{}", "--timeout", "0")
        assert done.exit_code == 1
        assert "matcher-1" in done.stdout
        assert "not complete after 0 s" in done.stderr


READING = '{"attributes":{"value":12,"city":"Madrid"}}'


async def test_explain_shows_what_matches_and_why_another_does_not() -> None:
    async with serving() as served:
        filters = ["value > 40 and not (city = 'Getafe')", "city = 'Madrid'", ""]
        failing, *matching = [
            (await served.client.post("/v1/subscriptions", json={"filter": filter})).json()["id"] for filter in filters
        ]
        url = f"http://127.0.0.1:{served.port}"
        done = await braid(url, "explain", READING)
        assert (done.exit_code, done.stderr) == (0, "")
        assert done.stdout.splitlines() == ["2 subscriptions would match", *(f"  {id}" for id in matching)]
        done = await braid(url, "explain", "-", "--subscription", failing, input=READING)
        assert [line.strip("│├└─ ") for line in done.stdout.splitlines()] == [
            f"{failing} does not match",
            "✗ filter  value > 40 and not (city = 'Getafe')",
            "✗ and",
            "✗ value > 40  value is 12",
            "✓ not",
            "✗ city = 'Getafe'  city is 'Madrid'",
            "",
            "2 subscriptions would match",
            *matching,
        ]
        done = await braid(url, "explain", READING, "--subscription", matching[1])
        assert "it has no conditions" in done.stdout
        done = await braid(url, "explain", READING, "--subscription", failing, "--json")
        shown = json.loads(done.stdout)
        assert (shown["matches"], shown["explanation"]["failed"]) == (matching, ["filter"])
        assert served.door.publish_calls == 0


async def test_explain_shows_the_other_parts_and_a_long_list_shortly() -> None:
    part = {"part": "topic", "holds": False, "wants": "a (topic_scope self)", "reasons": ["'b' is not 'a'"]}
    window = {"part": "window", "holds": True, "wants": "until tomorrow", "saw": "today"}
    explanation = {"subscription": "s[1]", "matches": False, "failed": ["topic"], "parts": [window, part]}
    ids = [f"s-{number}" for number in range(30)]
    async with http([(200, {"matches": ids, "count": 40, "explanation": explanation})]) as (url, asked):
        done = await braid(url, "explain", "{}", "--subscription", "s[1]")
        assert asked == ['POST /v1/explain {"publication":{},"subscription":"s[1]"}']
        lines = [line.strip("│├└─ ") for line in done.stdout.splitlines()]
        assert lines[:5] == [
            "s[1] does not match",
            "✓ window  until tomorrow",
            "saw today",
            "✗ topic  a (topic_scope self)",
            "'b' is not 'a'",
        ]
        assert lines[6:] == ["40 subscriptions would match", *ids[:20], "and 20 more; --json shows up to 1000"]


async def test_explain_says_what_to_do_about_errors() -> None:
    async with serving() as served:
        url = f"http://127.0.0.1:{served.port}"
        done = await braid(url, "explain", "{}")
        assert done.stdout == "no subscription would match\n"
        done = await braid(url, "explain", "{}", "--subscription", "s-9")
        assert (done.exit_code, done.stdout) == (1, "")
        assert "there is no subscription 's-9'; it may have ended" in done.stderr
        done = await braid(url, "explain", '{"expires":"soon"}')
        assert done.stderr.splitlines()[:2] == ["error: A field is not valid", "  field  $.publication.expires"]
        done = await braid(url, "explain", "[{},{}]")
        assert "expected one publication, not 2" in done.stderr
        done = await braid(url, "explain", "{}", "--subscription", "")
        assert "--subscription needs an id" in done.stderr
