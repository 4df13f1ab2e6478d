"""Bodies and heads that are too large, too slow, or not HTTP at all."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from braid.config import Limits, Settings
from services.connpoint.http import protocols
from tests.service.fake_door import Served, problem_of, serving
from tests.service.waiting import TIMEOUT_S

HEAD = b"POST /v1/publications HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(Settings(limits=Limits(body_bytes_max=64 * 1024)), body_stall_s=0.3) as served:
        yield served


async def exchange(served: Served, *pieces: bytes, pause_s: float = 0.0) -> bytes:
    """Writes the pieces and returns everything until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(pause_s)
    try:
        return await asyncio.wait_for(reader.read(), TIMEOUT_S)
    finally:
        writer.close()


def raw_problem(answer: bytes, status: int) -> dict[str, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer
    assert b"application/problem+json" in head.lower()
    document: dict[str, Any] = json.loads(body)
    assert document["status"] == status
    return document


async def test_a_body_of_ten_megabytes() -> None:
    async with serving() as served:
        body = b'{"data":"' + b"x" * 10_000_000 + b'"}'
        problem = problem_of(await served.client.post("/v1/publications", content=body), 413)
        assert (problem["limit"], problem["actual"]) == ("limits.body_bytes_max", len(body))
        assert problem["maximum"] == 8 * 1024 * 1024
        assert (await served.client.post("/v1/publications", json={})).status_code == 202


async def test_the_bound_holds_for_chunked_bodies_too(served: Served) -> None:
    async def chunks(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b" " * 1024

    answer = await served.client.post("/v1/publications", content=chunks(65))
    assert problem_of(answer, 413)["limit"] == "limits.body_bytes_max"
    for path in ("/v1/subscriptions", "/v1/cluster/scale"):
        problem_of(await served.client.post(path, content=chunks(65)), 413)
    accepted = await served.client.post("/v1/publications", content=b"{}" + b" " * (64 * 1024 - 2))
    assert accepted.status_code == 202


async def test_an_endless_body_is_cut(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    sent = 0
    while not reader.at_eof() and not writer.is_closing() and sent < 100_000_000:
        writer.write(b"10000\r\n" + b" " * 65_536 + b"\r\n")
        sent += 65_536
        try:
            await asyncio.wait_for(writer.drain(), TIMEOUT_S)
        except ConnectionError:
            break
    assert sent < 100_000_000
    writer.close()


async def test_a_body_that_stalls_is_cut(served: Served) -> None:
    answer = await exchange(served, HEAD + b'content-length: 100\r\n\r\n{"id":')
    problem = raw_problem(answer, 408)
    assert "after 6 bytes" in problem["detail"]
    assert b"connection: close" in answer.lower()


async def test_a_slow_body_that_keeps_coming_is_read() -> None:
    """It takes longer than a stall may, in pauses that are so much shorter that the machine may pause, too."""
    pieces = [HEAD + b"content-length: 10\r\nconnection: close\r\n\r\n", b'{"id"', b":", b'"x', b'"}']
    async with serving(body_stall_s=1.3) as served:
        answer = await exchange(served, *pieces, pause_s=0.3)
    assert answer.startswith(b"HTTP/1.1 202 ")


async def test_a_client_that_expects_to_continue_is_told_before_it_sends(served: Served) -> None:
    answer = await exchange(served, HEAD + b"content-length: 100000\r\nexpect: 100-continue\r\n\r\n")
    assert raw_problem(answer, 413)["actual"] == 100_000


async def test_what_is_not_http(served: Served) -> None:
    assert raw_problem(await exchange(served, b"\x16\x03\x01 hello\r\n\r\n"), 400)["title"]


async def test_a_head_that_is_too_large(served: Served) -> None:
    answer = await exchange(served, b"GET / HTTP/1.1\r\nx: " + b"a" * 40_000, b"a" * 40_000, pause_s=0.05)
    assert raw_problem(answer, 431)["type"].endswith("head-too-large")


async def test_a_head_that_stalls(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "HEAD_S", 0.2)
    assert await exchange(served) == b""
    assert await exchange(served, b"GET / HT") == b""
    # On a connection that has served before, too.
    answer = await exchange(served, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", b"GET /he", pause_s=0.05)
    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_a_client_that_hangs_up_in_the_middle_of_a_body(served: Served) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(HEAD + b"content-length: 100\r\n\r\n{")
    await writer.drain()
    writer.transport.abort()
    await asyncio.sleep(0.05)
    assert (await served.client.post("/v1/publications", json={})).status_code == 202
