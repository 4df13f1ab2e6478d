"""Peers that are not what they should be lose their link, and nobody else does."""

import struct

import pytest
from structlog.testing import capture_logs

from braid.codec import HEARTBEAT, encode_frames, encode_hello
from tests.service.linked_slices import (
    LIMITS,
    fall_silent,
    hello,
    linked,
    message,
    on_both_loops,
    reasons,
    running,
    stranger,
)
from tests.service.waiting import until

FOREIGN = {
    "another cluster": (encode_hello(hello("exitpoint-9", cluster="other")), "the peer belongs to cluster 'other'"),
    "another version": (encode_hello(hello("exitpoint-9", version=99)), "the peer speaks version 99"),
    "another protocol": (encode_hello(hello("exitpoint-9", protocol="amqp")), "the peer speaks 'amqp'"),
    "HTTP": (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "a frame of 1195725856 bytes"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "a frame of 369295618 bytes"),
    "a heartbeat first": (HEARTBEAT, "no handshake"),
    "messages first": (encode_frames([message(1)], 1 << 20)[0], "no handshake"),
    "nothing": (b"", "no handshake in time"),
    "half a handshake": (encode_hello(hello("exitpoint-9"))[:20], "no handshake in time"),
}


@on_both_loops
@pytest.mark.parametrize("name", FOREIGN)
async def test_a_foreign_peer_is_refused_with_a_reason_and_others_go_on(name: str) -> None:
    data, reason = FOREIGN[name]
    limits = LIMITS.model_copy(update={"handshake_s": 0.1}) if reason == "no handshake in time" else LIMITS
    async with running("connpoint-1", limits) as connpoint, running("exitpoint-1") as exitpoint:
        await linked(exitpoint, connpoint)
        with capture_logs() as logs:
            async with stranger(connpoint) as peer:
                peer.send(data)
                assert await peer.closed()
                await until(lambda: reasons(logs, "link refused"))
        assert reasons(logs, "link refused")[0].startswith(reason)
        exitpoint.send(connpoint, 1)
        await until(lambda: connpoint.received == [1])
        assert connpoint.events == [("up", "exitpoint-1")]


SILENT = "nothing heard for"
SPOILT = {
    "too long a frame": (struct.pack(">I", (1 << 20) + 1), "a frame of 1048577 bytes; at most 1048576 are allowed"),
    "garbage": (struct.pack(">I", 3) + b"\xc1\xc1\xc1", "a frame that is not a list of messages"),
    "half a frame and silence": (struct.pack(">I", 100) + b"\x91", SILENT),
    "silence": (b"", SILENT),
}


@on_both_loops
@pytest.mark.parametrize("name", SPOILT)
async def test_a_link_that_spoils_is_closed_with_a_reason_and_others_go_on(name: str) -> None:
    data, reason = SPOILT[name]
    async with running("connpoint-1") as connpoint, running("exitpoint-1") as exitpoint:
        await linked(exitpoint, connpoint)
        with capture_logs() as logs:
            async with stranger(connpoint) as peer:
                peer.send(encode_hello(hello("exitpoint-9")) + encode_frames([message(7)], 1 << 20)[0])
                await until(lambda: connpoint.received == [7])
                peer.send(data)
                if reason == SILENT:
                    link = connpoint.link_with("exitpoint-9")
                    await until(lambda: link._reader.held_bytes == len(data))
                    fall_silent(link)
                assert await peer.closed()
                await until(lambda: reasons(logs, "link lost"))
        assert reasons(logs, "link lost")[0].startswith(reason)
        exitpoint.send(connpoint, 8)
        await until(lambda: connpoint.received == [7, 8])
        assert connpoint.events == [("up", "exitpoint-1"), ("up", "exitpoint-9"), ("down", "exitpoint-9")]


@on_both_loops
async def test_garbage_right_behind_the_handshake() -> None:
    async with running("connpoint-1") as connpoint, stranger(connpoint) as peer:
        with capture_logs() as logs:
            peer.send(encode_hello(hello("exitpoint-9")) + struct.pack(">I", 1) + b"\xc1")
            assert await peer.closed()
            await until(lambda: reasons(logs, "link lost"))
        assert connpoint.received == []
