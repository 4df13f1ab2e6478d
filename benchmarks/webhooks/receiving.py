"""The process that is posted to: it answers as the path says, counts what comes and how long it took.

It shares the cores with what it measures, so it reads just as much of HTTP as the cluster writes.
"""

import asyncio
import gc
import time
from array import array
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import msgspec
import uvloop

from benchmarks.scaling.processes import Worker

WELL, HANGS, FAILS = "/well/", "/hangs/", "/fails/"
_HEAD_BYTES_MAX = 64 * 1024
_ANSWERS = {
    WELL: b"HTTP/1.1 204 No Content\r\n\r\n",
    FAILS: b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
}


class _Attributes(msgspec.Struct, gc=False):
    at: float
    value: int


class _Publication(msgspec.Struct, gc=False):
    attributes: _Attributes


class _Notification(msgspec.Struct, gc=False):
    publication: _Publication


class _Body(msgspec.Struct, gc=False):
    notifications: list[_Notification]


_decode = msgspec.json.Decoder(_Body).decode


class Posted(NamedTuple):
    """Since this was asked last."""

    latencies_s: "array[float]"
    requests: int
    twice: int  # notifications that had come before


class PostedTo(Worker):
    """The other end; `count` are the different notifications that came to those that are well."""

    def __init__(self) -> None:
        super().__init__(_receive)
        self.port = 0

    async def open(self) -> None:
        self.port = await asyncio.to_thread(self.receive)

    async def posted(self) -> Posted:
        self.orders.send("posted")
        answer: Posted = await asyncio.to_thread(self.receive)
        return answer


class _Receiver:
    def __init__(self, count: Any) -> None:
        self._count = count
        self._marks: set[int] = set()
        self._latencies = array("d")
        self._requests = 0
        self._twice = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode()
                body = await reader.readexactly(_content_length(head))
                if path.startswith(HANGS):
                    await reader.read()  # until whoever posts has had enough
                    return
                if path.startswith(WELL):
                    self._take(body)
                writer.write(_ANSWERS[WELL if path.startswith(WELL) else FAILS])
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # it posts no more
        finally:
            writer.close()

    def _take(self, body: bytes) -> None:
        now, before = time.time(), len(self._marks)
        came = [notification.publication.attributes for notification in _decode(body).notifications]
        self._marks.update([attributes.value for attributes in came])
        self._latencies.extend([now - attributes.at for attributes in came])
        self._requests += 1
        self._count.value += len(self._marks) - before
        self._twice += len(came) - (len(self._marks) - before)

    def hand_over(self) -> Posted:
        posted = Posted(self._latencies, self._requests, self._twice)
        self._latencies, self._requests, self._twice = array("d"), 0, 0
        return posted


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _receive(orders: Connection, count: Any) -> None:
    gc.disable()
    uvloop.run(_run(orders, count))


async def _run(orders: Connection, count: Any) -> None:
    receiver = _Receiver(count)
    listening = asyncio.start_server(receiver.serve, "127.0.0.1", 0, limit=_HEAD_BYTES_MAX, backlog=1024)
    async with await listening as server:
        orders.send(server.sockets[0].getsockname()[1])
        while True:
            await asyncio.to_thread(orders.recv)
            orders.send(receiver.hand_over())
