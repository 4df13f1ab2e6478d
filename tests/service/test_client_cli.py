"""The commands against a scripted connection point."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from braid.cli.app import app
from tests.service.fake_door import serving
from tests.service.test_client_scripted import PATIENCE_S, Peer, obliging, scripted

runner = CliRunner(env={"BRAID_URL": None, "COLUMNS": "160", "NO_COLOR": "1"})


async def braid(url: str, *arguments: str, input: str | None = None) -> Result:
    """In a thread, because the commands run an event loop of their own."""
    return await asyncio.to_thread(runner.invoke, app, ["--url", url, *arguments], input)


async def test_pub_prints_the_ids_in_order() -> None:
    async with scripted(obliging) as server:
        done = await braid(server.url, "pub", '{"id":"a","attributes":{"n":1}}', '[{"id":"b"},{"id":"c"}]')
        assert (done.exit_code, done.stdout, done.stderr) == (0, "a\nb\nc\n", "")


async def test_pub_reads_standard_input_and_declares_its_publisher() -> None:
    async with scripted(obliging) as server:
        lines = "".join(f'{{"id":"{number}"}}\n' for number in range(1200))
        done = await braid(server.url, "pub", "-", "--publisher", "mill", input=lines)
        assert done.stdout.split() == [str(number) for number in range(1200)]
        assert server.peers[0].headers["Braid-Publisher"] == "mill"


async def test_pub_passes_whole_publications_on() -> None:
    whole = {
        "id": "a",
        "topic": "rivers/jarama",
        "attributes": {"level": 1.9},
        "text": "Flooding",
        "zone": {"type": "point", "lat": 40.4, "lon": -3.7},
        "object": "gauge-7",
        "expires": "+10m",
        "data": [1, None],
    }

    async def script(peer: Peer) -> None:
        assert await peer.accept_publications() == [whole]

    async with scripted(script) as server:
        done = await braid(server.url, "pub", json.dumps(whole))
        assert (done.exit_code, done.stdout) == (0, "a\n")


async def test_pub_keeps_to_its_rate() -> None:
    async with scripted(obliging) as server:
        began = asyncio.get_running_loop().time()
        done = await braid(
            server.url, "pub", json.dumps([{"id": str(number)} for number in range(11)]), "--rate", "100"
        )
        assert len(done.stdout.split()) == 11
        assert asyncio.get_running_loop().time() - began >= 0.1


async def test_pub_shows_which_publication_is_wrong() -> None:
    async def refuses(peer: Peer) -> None:
        frame = await peer.expect("publish")
        problem = {
            "title": "A limit was exceeded",
            "status": 422,
            "detail": "at most 128 allowed by the limit 'limits.attributes_max', this is 129",
            "field": "$.publications[1].attributes",
        }
        await peer.send(op="error", ref=frame["ref"], problem=problem)

    async with scripted(refuses) as server:
        done = await braid(server.url, "pub", '[{"id":"a"},{"id":"b"}]')
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.splitlines() == [
            "error: A limit was exceeded",
            "  field  $.publications[1].attributes",
            "  at most 128 allowed by the limit 'limits.attributes_max', this is 129",
            "  in publication 2 of the input",
        ]


async def test_a_filter_error_is_shown_with_its_caret() -> None:
    detail = "expected a value (position 7)\n  value >\n         ^"

    async def refuses(peer: Peer) -> None:
        frame = await peer.expect("subscribe")
        assert frame["subscription"] == {"filter": "value >"}
        problem = {"title": "A field is not valid", "status": 422, "detail": detail, "field": "$.subscription.filter"}
        await peer.send(op="error", ref=frame["ref"], problem=problem)

    async with scripted(refuses) as server:
        done = await braid(server.url, "sub", "value >")
        assert done.exit_code == 1
        assert done.stderr.splitlines()[2:] == ["  expected a value (position 7)", "    value >", "           ^"]


async def test_sub_shows_publications_and_says_when_it_reconnects() -> None:
    async def first(peer: Peer) -> None:
        assert peer.parameters["subscriber"] == "me"
        frame = await peer.accept_subscription("s1")
        assert frame["subscription"] == {"filter": "n > 0", "until": "+10m"}
        await peer.notify({"id": "a", "attributes": {"n": 1}}, to="s1", event="e-1")
        await peer.close(1012, "restarting")

    async def second(peer: Peer) -> None:
        await peer.send(op="gap", detail="12 notifications after that event are gone")
        await peer.notify({"id": "b", "attributes": {"city": "Getafe"}}, to="s1")
        await peer.accept_unsubscription()

    async with scripted(first, second) as server:
        server.alive = ["s1"]
        done = await braid(server.url, "sub", "n > 0", "--subscriber", "me", "--until", "+10m", "--count", "2")
        await server.played(1)
    assert done.exit_code == 0
    assert [line.partition("  ")[2] for line in done.stdout.splitlines()] == ["a  n=1", 'b  city="Getafe"']
    for said in ("connection lost", "restarting (1012)", "connected again", "12 notifications after that event"):
        assert said in done.stderr


SQUARE: dict[str, Any] = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}


async def subscribed_to(*arguments: str) -> dict[str, Any]:
    """What `braid sub` asks the cluster for."""
    asked: list[dict[str, Any]] = []

    async def script(peer: Peer) -> None:
        asked.append((await peer.accept_subscription("s1"))["subscription"])
        await peer.notify("a", to="s1")
        await peer.accept_unsubscription()

    async with scripted(script) as server:
        done = await braid(server.url, "sub", "--count", "1", *arguments)
        assert done.exit_code == 0, done.stderr
    return asked[0]


async def test_sub_says_the_whole_subscription(tmp_path: Path) -> None:
    assert await subscribed_to() == {}
    circle = {"type": "circle", "lat": 40.4168, "lon": -3.7038, "radius_m": 5000}
    window = ["--from", "+1s", "--until", "1900000000.5"]
    topic = ["--topic", "rivers/+/madrid", "--topic-scope", "below"]
    words = ["--word", "flood", "--word", "high water"]
    assert await subscribed_to("n > 1", *words, *topic, "--circle", "40.4168,-3.7038,5000", *window) == {
        "filter": "n > 1",
        "words": ["flood", "high water"],
        "topic": "rivers/+/madrid",
        "topic_scope": "below",
        "zone": circle,
        "from": "+1s",
        "until": 1900000000.5,
    }
    box = {"type": "box", "south": -20, "west": 175, "north": -10, "east": -175}
    assert await subscribed_to("--box", "-20, 175, -10, -175") == {"zone": box}
    assert await subscribed_to("--zone", json.dumps(SQUARE)) == {"zone": SQUARE}
    (tmp_path / "square.json").write_text(json.dumps(SQUARE, indent=2))
    assert await subscribed_to("--zone", f"@{tmp_path / 'square.json'}") == {"zone": SQUARE}


async def test_a_zone_that_is_none_is_explained_by_the_cluster() -> None:
    async with serving() as served:
        done = await braid(f"http://127.0.0.1:{served.port}", "sub", "--circle", "91,0,500")
        assert done.exit_code == 1
        assert done.stderr.splitlines() == [
            "error: A field is not valid",
            "  field  $.subscription.zone.lat",
            "  expected a number from -90 to 90, not 91.0",
        ]


async def test_sub_as_json() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept_subscription("s1")
        await peer.notify({"id": "a", "attributes": {"n": 1}, "data": [1, None]}, to="s1")
        await peer.accept_unsubscription()

    async with scripted(script) as server:
        done = await braid(server.url, "sub", "--json", "--count", "1")
        assert [json.loads(line) for line in done.stdout.splitlines()] == [
            {"subscriptions": ["s1"], "publication": {"id": "a", "attributes": {"n": 1}, "data": [1, None]}}
        ]


def start(url: str, *arguments: str) -> Awaitable[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "braid.cli", "--url", url, *arguments]
    return asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)


async def test_ctrl_c_unsubscribes_and_leaves() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept_subscription("s1")
        await peer.notify("a", to="s1")
        assert await peer.accept_unsubscription() == "s1"

    async with scripted(script) as server, asyncio.timeout(2 * PATIENCE_S):
        process = await start(server.url, "sub", "--json")
        assert process.stdout is not None
        assert b'"a"' in await process.stdout.readline()
        process.send_signal(signal.SIGINT)
        output, errors = await process.communicate()
        assert (process.returncode, output, errors.splitlines()[-1]) == (0, b"", b"unsubscribed")


async def test_pub_does_not_wait_for_more_input_to_print_ids_or_to_leave() -> None:
    async with scripted(obliging) as server, asyncio.timeout(2 * PATIENCE_S):
        process = await start(server.url, "pub", "-")
        assert process.stdin is not None
        assert process.stdout is not None
        for id in (b"a", b"b"):
            process.stdin.write(b'{"id":"%b"}\n' % id)
            assert await process.stdout.readline() == id + b"\n"
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
        assert process.stderr is not None
        assert await process.stderr.read() == b""
        process.stdin.close()


async def test_pub_leaves_at_once_when_publishing_fails() -> None:
    async with scripted() as server, asyncio.timeout(2 * PATIENCE_S):
        process = await start(server.url, "pub", "{}", "-")
        assert await process.wait() == 1
        assert process.stdin is not None
        process.stdin.close()


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
        assert [line.split()[1] for line in lines[2:]] == ["connpoint-1", "matcher-9", "matcher-10"]
        assert "waiting" in lines[-1]
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
