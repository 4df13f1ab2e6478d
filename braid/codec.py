"""Bytes on a link: frames of a length and a body.

A frame is four bytes of length, most significant first, and a msgpack body. The first frame of each side is its
`Hello`; every later one is a list of messages, or empty, which says that the link lives. A message that is longer than
a frame may be, such as the notifications of a batch that a million subscriptions match, goes on in the next frame:
the highest bit of the length says so.
"""

import struct
from typing import Any

import msgspec

from braid.messages import AnyMessage

PROTOCOL = "braid"
PROTOCOL_VERSION = 6
HELLO_BYTES_MAX = 4096
FRAME_MESSAGES_MAX = 500
HEARTBEAT = b"\x00\x00\x00\x00"
MESSAGE_BYTES_MAX = 1 << 30  # of a message in several frames; a longer one is dropped where it would be sent

_HEADER = struct.Struct(">I")
_GOES_ON = 1 << 31
_encoder = msgspec.msgpack.Encoder()
_decode_messages = msgspec.msgpack.Decoder(list[AnyMessage]).decode


class Hello(msgspec.Struct, frozen=True):
    """Who is at the other end. Another protocol, version or cluster ends the link."""

    protocol: str
    version: int
    cluster: str
    name: str
    layer: str
    incarnation: int


_decode_hello = msgspec.msgpack.Decoder(Hello).decode


class FrameError(ValueError):
    """The peer sent what cannot be a frame of ours; the link is closed with this reason."""


def encode_frames(messages: list[Any], frame_bytes_max: int) -> list[bytes]:
    """One frame, or several when one would be longer than a peer accepts, or than it should decode in one go."""
    if len(messages) > FRAME_MESSAGES_MAX:
        starts = range(0, len(messages), FRAME_MESSAGES_MAX)
        parts_of = (messages[start : start + FRAME_MESSAGES_MAX] for start in starts)
        return [frame for part in parts_of for frame in encode_frames(part, frame_bytes_max)]
    body = _encoder.encode(messages)
    if len(body) <= frame_bytes_max:
        return [_HEADER.pack(len(body)) + body]
    if len(messages) > 1:
        half = len(messages) // 2
        return encode_frames(messages[:half], frame_bytes_max) + encode_frames(messages[half:], frame_bytes_max)
    if len(body) > MESSAGE_BYTES_MAX:
        raise ValueError(f"a {type(messages[0]).__name__} of {len(body)} bytes; at most {MESSAGE_BYTES_MAX} are sent")
    parts = [body[start : start + frame_bytes_max] for start in range(0, len(body), frame_bytes_max)]
    return [_HEADER.pack(len(part) | _GOES_ON) + part for part in parts[:-1]] + [
        _HEADER.pack(len(parts[-1])) + parts[-1]
    ]


def encode_hello(hello: Hello) -> bytes:
    body = _encoder.encode(hello)
    return _HEADER.pack(len(body)) + body


def decode_messages(body: bytes) -> list[AnyMessage]:
    try:
        return _decode_messages(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"a frame that is not a list of messages: {error}") from None


def decode_hello(body: bytes, cluster: str) -> Hello:
    """The peer's handshake, if it is one of ours."""
    try:
        hello = _decode_hello(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"no handshake: {error}") from None
    if hello.protocol != PROTOCOL:
        raise FrameError(f"the peer speaks {hello.protocol!r}, not {PROTOCOL!r}")
    if hello.version != PROTOCOL_VERSION:
        raise FrameError(f"the peer speaks version {hello.version}, this slice {PROTOCOL_VERSION}")
    if hello.cluster != cluster:
        raise FrameError(f"the peer belongs to cluster {hello.cluster!r}, this slice to {cluster!r}")
    return hello


class FrameReader:
    """Cuts a stream of bytes into bodies. Holds at most one body, one frame and one read."""

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()
        self._parts: list[bytes] = []  # of a body that goes on
        self._parts_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies that are complete now; empty ones are heartbeats."""
        buffer = self._buffer
        buffer += data
        bodies = []
        start, end = 0, len(buffer)
        with memoryview(buffer) as view:
            while end - start >= 4:
                (header,) = _HEADER.unpack_from(buffer, start)
                length = header & ~_GOES_ON
                if length > self._frame_bytes_max:
                    raise FrameError(f"a frame of {length} bytes; at most {self._frame_bytes_max} are allowed")
                if end - start - 4 < length:
                    break
                start += 4
                body = bytes(view[start : start + length])
                start += length
                if header & _GOES_ON or self._parts:
                    whole = self._append(body, bool(header & _GOES_ON))
                    if whole is not None:
                        bodies.append(whole)
                else:
                    bodies.append(body)
        if start:
            del buffer[:start]
        return bodies

    @property
    def held_bytes(self) -> int:
        """Of a body that is not complete."""
        return len(self._buffer) + self._parts_bytes

    def _append(self, part: bytes, goes_on: bool) -> bytes | None:
        self._parts.append(part)
        self._parts_bytes += len(part)
        if goes_on and not part:
            raise FrameError("an empty frame that goes on")
        if self._parts_bytes > MESSAGE_BYTES_MAX:
            raise FrameError(f"a message of more than {MESSAGE_BYTES_MAX} bytes")
        if goes_on:
            return None
        whole = b"".join(self._parts)
        self._parts, self._parts_bytes = [], 0
        return whole
