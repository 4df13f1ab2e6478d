"""`braid sub` against a scripted connection point."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

from tests.service.cli_runner import braid, start
from tests.service.fake_door import serving
from tests.service.test_client_scripted import PATIENCE_S, Peer, scripted


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
