"""`braid pub` against a scripted connection point."""

import asyncio
import json
import signal

from tests.service.cli_runner import braid, start
from tests.service.test_client_scripted import PATIENCE_S, Peer, obliging, scripted


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
