"""Reads publications from arguments, files and standard input, in batches as they become available."""

import asyncio
import io
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec

from braid.cli.running import Failure

_CHUNK_BYTES = 256 * 1024
_READ_AHEAD = 16  # batches
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Batch = list[dict[str, Any]]


class Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes | None: ...


async def without_blocking(batches: Iterator[Batch]) -> AsyncIterator[Batch]:
    """Reads in a thread of its own, which may be left behind waiting for input when the command ends."""
    loop = asyncio.get_running_loop()
    read: asyncio.Queue[Batch | BaseException | None] = asyncio.Queue()
    room = threading.Semaphore(_READ_AHEAD)

    def hand_over(item: Batch | BaseException | None) -> bool:
        room.acquire()
        try:
            loop.call_soon_threadsafe(read.put_nowait, item)
        except RuntimeError:
            return False  # the loop is closed: the command has ended, and this thread with it
        return True

    def pump() -> None:
        try:
            for batch in batches:
                if not hand_over(batch):
                    return
        except Exception as error:
            hand_over(error)
        else:
            hand_over(None)

    threading.Thread(target=pump, name="braid-input", daemon=True).start()
    while (item := await read.get()) is not None:
        room.release()
        if isinstance(item, BaseException):
            raise item
        yield item


def read_all(sources: list[str]) -> Iterator[Batch]:
    """Each source is JSON itself, `-` or `@file`."""
    for number, source in enumerate(sources, 1):
        if source == "-":
            yield from read_stream(_standard_input(), "standard input")
        elif source.startswith("@"):
            path = Path(source[1:])
            try:
                with path.open("rb", buffering=0) as file:
                    yield from read_stream(file, str(path))
            except OSError as error:
                raise Failure(f"cannot read {path}: {error.strerror}") from None
        else:
            yield _documents(source.encode(), f"argument {number}")


def read_stream(stream: Readable, name: str) -> Iterator[Batch]:
    """NDJSON when the first line is a document of its own; else the whole is one document or one array."""
    head = b""
    while b"\n" not in head and (more := stream.read(_CHUNK_BYTES)):
        head = (head + more).lstrip()
    if not head:
        return
    if head.startswith(b"{") and not _is_cut_off(head.partition(b"\n")[0]):
        yield from _lines(head, stream, name)
    else:
        yield _documents(head + b"".join(iter(lambda: stream.read(_CHUNK_BYTES) or b"", b"")), name)


def _lines(head: bytes, stream: Readable, name: str) -> Iterator[Batch]:
    """One batch for whatever has arrived, so that a slow writer is not kept waiting for more."""
    number = 0
    rest = b""
    chunk: bytes | None = head
    while chunk:
        *lines, rest = (rest + chunk).split(b"\n")
        batch = []
        for line in lines:
            number += 1
            if line.strip():
                batch.append(_object(line, f"{name}, line {number}"))
        if batch:
            yield batch
        chunk = stream.read(_CHUNK_BYTES)
    if rest.strip():
        yield [_object(rest, f"{name}, line {number + 1}")]


def _documents(text: bytes, where: str) -> Batch:
    try:
        decoded = msgspec.json.decode(text)
    except _DECODE_ERRORS as error:
        raise Failure(f"{where}: not valid JSON: {error}") from None
    several = decoded if isinstance(decoded, list) else [decoded]
    for index, document in enumerate(several, 1):
        if not isinstance(document, dict):
            position = f", element {index}" if several is decoded else ""
            raise Failure(f'{where}{position}: expected a JSON object such as {{"attributes": {{"value": 41}}}}')
    return several


def _object(text: bytes, where: str) -> dict[str, Any]:
    documents = _documents(text, where)
    if len(documents) != 1:
        raise Failure(f"{where}: expected one JSON object on each line")
    return documents[0]


def _is_cut_off(line: bytes) -> bool:
    """Whether the document goes on after this line, as it does when it is written over several."""
    try:
        msgspec.json.decode(line)
    except _DECODE_ERRORS as error:
        return "truncated" in str(error)
    return False


def _standard_input() -> Readable:
    """Unbuffered: a thread that waits inside the buffered one would keep Python from ending."""
    try:
        return io.FileIO(sys.stdin.fileno(), closefd=False)
    except OSError:
        return sys.stdin.buffer  # it was replaced by something that is no file
