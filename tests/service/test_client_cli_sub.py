"""`braid sub` against a scripted connection point."""

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

from braid.cli.sub import line_of
from braid.client import Notification, Publication
from braid.client.ids import make_id
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


async def test_sub_shows_the_past_first_and_says_how_much_it_is() -> None:
    async with serving() as served:
        for number in range(12):
            served.door.kept.add(b'{"id":"%d","attributes":{"n":%d}}' % (number, number), time.time() - 60 + number)
        url = f"http://127.0.0.1:{served.port}"
        done = await braid(url, "sub", "n >= 10", "--from", "-10m", "--count", "2", "--distinct")
        assert done.exit_code == 0, done.stderr
        assert [line.split("  ")[1:] for line in done.stdout.splitlines()] == [["10", "n=10"], ["11", "n=11"]]
        assert done.stderr.splitlines() == ["subscribed; Ctrl-C ends it", "2 of the past"]
        done = await braid(url, "sub", "--from", "-10m", "--count", "1", "--json")
        assert "of the past" not in done.stderr
        assert json.loads(done.stdout)["publication"]["id"] == "0"


async def test_sub_says_when_the_past_is_not_all() -> None:
    async def script(peer: Peer) -> None:
        frame = await peer.expect("subscribe")
        assert frame["subscription"] == {"from": "-1h", "distinct": True}
        past = {"publications": 10_000, "complete": False}
        await peer.send(op="subscribed", ref=frame["ref"], id="s1", past=past)
        await peer.notify("a", to="s1")
        await peer.accept_unsubscription()

    async with scripted(script) as server:
        done = await braid(server.url, "sub", "--count", "1", "--from", "-1h", "--distinct")
        assert "10000 of the past; there were more, and the oldest were left out" in done.stderr.splitlines()


async def test_what_is_old_is_shown_with_its_age() -> None:
    now_ns = time.time_ns()
    ages_s = {0.0025: "2.5 ms", 2.5: "2.50 s", 432: "7m 12s old"}
    for age_s, shown in ages_s.items():
        publication = Publication(id=make_id(now_ns - int(age_s * 1e9), 0))
        line = line_of(Notification(subscriptions=["s1"], publication=publication), now_ns)
        assert line.plain.split("  ")[-1] == shown


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
