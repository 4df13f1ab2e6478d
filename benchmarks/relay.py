"""The limit: five processes in a row that only pass frames on, decoding and encoding every message.

python -m benchmarks.relay relay LISTEN_PORT NEXT_PORT     (run by the benchmark itself)
"""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal, get_args

import msgspec
import uvloop

from braid.codec import FrameReader, encode_frames
from braid.config import Links
from braid.messages import Publications

HOPS = 5
_WINDOW = 20_000  # as the broker's own default window
_BATCH = 200
_LIMITS = Links()

Kind = Literal["singles", "lists", "batches"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Single(msgspec.Struct, array_like=True, gc=False):
    """One publication with the header of a batch."""

    epoch: int
    origin: str
    sequence: int
    previous: int
    watermark: int
    publisher: int
    content: bytes


_DECODE: dict[str, Callable[[bytes], list[Any]]] = {
    "singles": msgspec.msgpack.Decoder(list[Single]).decode,
    "lists": msgspec.msgpack.Decoder(list[Single]).decode,
    "batches": msgspec.msgpack.Decoder(list[Publications]).decode,
}


def _encode(kind: Kind, messages: list[Any]) -> bytes:
    if kind == "singles":
        return b"".join([encode_frames([message], _LIMITS.frame_bytes_max)[0] for message in messages])
    return b"".join(encode_frames(messages, _LIMITS.frame_bytes_max))


def _messages(kind: Kind, first: int, content: bytes) -> list[Any]:
    if kind == "batches":
        return [Publications(1, "connpoint-1.0", first, first - 1, 0, 7, 0.0, [content] * _BATCH)]
    return [Single(1, "connpoint-1.0", first + n, first + n - 1, 0, 7, content) for n in range(_BATCH)]


class _Hop(asyncio.Protocol):
    """Reads frames, hands over whatever is ready as one list."""

    def __init__(self, kind: Kind, on_messages: Any) -> None:
        self._decode = _DECODE[kind]
        self._reader = FrameReader(_LIMITS.frame_bytes_max)
        self._on_messages = on_messages
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        messages: list[Any] = []
        for body in self._reader.feed(data):
            messages += self._decode(body)
        if messages:
            self._on_messages(messages)


async def relay(kind: Kind, listen_port: int, next_port: int) -> None:
    """One process of the row."""
    loop = asyncio.get_running_loop()
    _, onward = await loop.create_connection(lambda: _Hop(kind, lambda _: None), "127.0.0.1", next_port)

    def pass_on(messages: list[Any]) -> None:
        onward.transport.write(_encode(kind, messages))

    server = await loop.create_server(lambda: _Hop(kind, pass_on), "127.0.0.1", listen_port)
    print("ready", flush=True)
    await server.serve_forever()


async def measure(kind: Kind, seconds: float, content: bytes, ports: list[int]) -> float:
    """Publications per second through the whole row, with a bounded number under way."""
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    received = 0

    def count(messages: list[Any]) -> None:
        nonlocal received
        received += len(messages) if kind != "batches" else sum(len(m.contents) for m in messages)
        arrived.set()

    sink = await loop.create_server(lambda: _Hop(kind, count), "127.0.0.1", ports[-1])
    relays = []
    try:
        for listen_port, next_port in reversed(list(pairwise(ports))):
            command = [sys.executable, "-m", "benchmarks.relay", kind, str(listen_port), str(next_port)]
            process = subprocess.Popen(  # noqa: ASYNC220  # five, before the clock runs
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            relays.append(process)
            assert process.stdout is not None
            await loop.run_in_executor(None, process.stdout.readline)
        _, source = await loop.create_connection(lambda: _Hop(kind, lambda _: None), "127.0.0.1", ports[0])
        started = time.perf_counter()
        sent = 0
        while time.perf_counter() - started < seconds:
            while sent - received < _WINDOW:
                source.transport.write(_encode(kind, _messages(kind, sent, content)))
                sent += _BATCH
            arrived.clear()
            await arrived.wait()
        return received / (time.perf_counter() - started)
    finally:
        for process in relays:
            process.kill()
            process.wait()
        sink.close()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        assert sys.argv[1] in KINDS
        uvloop.run(relay(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
