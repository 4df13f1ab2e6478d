"""One FIFO link between two slices: a TCP connection that carries messages both ways.

    handshake ──Hello of ours──▶ open ──any reason──▶ closed
                                └──not needed any more──▶ finishing ──the peer has read all──▶ closed

Invariants: no message is delivered before the peer's `Hello` was accepted; messages are delivered in the order they
were sent; a link that is closed delivers and sends nothing. What was sent and not delivered when a link breaks is
lost; the retry loop of the connection points is what makes up for it. A link that is only not needed any more sends
what it has first.

One read may bring thousands of messages. They are delivered some at a time, with a turn for everybody else in between,
and nothing more is read from this peer until they are.
"""

import asyncio
import socket
from collections import deque
from typing import Protocol, cast

import structlog

from braid.codec import (
    HEARTBEAT,
    HELLO_BYTES_MAX,
    FrameError,
    FrameReader,
    Hello,
    decode_hello,
    decode_messages,
    encode_hello,
)
from braid.config import Links
from braid.messages import AnyMessage

log = structlog.get_logger()

_TRANSPORT_BUFFER_BYTES = 256 * 1024
_FINISHES_S_MAX = 5.0  # until a peer that does not read is left alone
# Messages in one turn of the event loop. Not bytes: large batches of publications are few messages, and to handle those
# of one read together is a third cheaper for everybody behind. A subscription costs a matcher up to 80 µs.
DELIVERED_MAX = 50


class LinkOwner(Protocol):
    """Whoever is told what happens on a link. Called on the event loop; must not block."""

    def on_connected(self, link: "Link") -> None: ...
    def on_link_up(self, link: "Link") -> None: ...
    def on_messages(self, link: "Link", messages: list[AnyMessage]) -> None: ...
    def on_link_down(self, link: "Link", reason: str) -> None: ...
    def on_congestion(self, link: "Link", congested: bool) -> None: ...


class Link(asyncio.Protocol):
    def __init__(self, owner: LinkOwner, hello: Hello, limits: Links) -> None:
        self._owner = owner
        self._hello = hello
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(limits.frame_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._flush_scheduled = False
        self._writable = True
        self._reading_paused = False
        self._bodies: deque[bytes] = deque()  # received and not decoded
        self._messages: list[AnyMessage] = []  # decoded and not delivered
        self._delivering = False  # goes on in another turn
        self._heard_at = self._loop.time()
        self._handshake_timer: asyncio.TimerHandle | None = None
        self._congested = False
        self._congested_bytes = limits.buffer_bytes_max // 4
        self._close_reason = ""
        self.peer: Hello | None = None
        self.remote = "?"
        self.is_open = False

    # Sending

    def send(self, frames: list[bytes]) -> None:
        """Queues frames; everything queued in one turn of the event loop is one write."""
        if not self.is_open:
            return
        if self._unsent_bytes > self._limits.buffer_bytes_max:
            self.close(f"the peer does not read: {self._unsent_bytes} bytes wait for it")
            return
        # Whatever its size, a message may be sent when there is room before it.
        self._unsent += frames
        self._unsent_bytes += sum(map(len, frames))
        if not self._flush_scheduled and self._writable:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)
        if not self._congested and self._unsent_bytes > self._congested_bytes:
            self._congested = True
            self._owner.on_congestion(self, True)

    @property
    def unsent_bytes(self) -> int:
        return self._unsent_bytes

    def _flush(self) -> None:
        self._flush_scheduled = False
        if not self._unsent or self._transport is None or self._transport.is_closing():
            return
        data = self._unsent[0] if len(self._unsent) == 1 else b"".join(self._unsent)
        self._unsent.clear()
        self._unsent_bytes = 0
        self._transport.write(data)
        self._not_congested()

    def _not_congested(self) -> None:
        if self._congested:
            self._congested = False
            self._owner.on_congestion(self, False)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._flush()

    # Receiving

    def pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self._let_read()

    def resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self._heard_at = self._loop.time()
            self._let_read()

    def _let_read(self) -> None:
        """Or not: as those who have something against it say now."""
        if self._transport is None or self._transport.is_closing() or self._close_reason:
            return
        if self._reading_paused or self._delivering:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._close_reason:
            return
        self._heard_at = self._loop.time()
        try:
            bodies = self._reader.feed(data)
            if self.peer is None and bodies:
                self._accept(decode_hello(bodies.pop(0), self._hello.cluster))
            if self.peer is None and self._reader.held_bytes > HELLO_BYTES_MAX:
                raise FrameError("no handshake: the first frame is too long for one")
        except FrameError as error:
            self.close(str(error))
            return
        self._bodies += bodies
        if not self._delivering:
            self._deliver_some()

    def _deliver_some(self) -> None:
        try:
            messages = self._next_messages()
        except FrameError as error:
            self.close(str(error))
            return
        if messages and self.is_open:
            self._owner.on_messages(self, messages)
        was_delivering = self._delivering
        self._delivering = self.is_open and bool(self._messages or self._bodies)
        if self._delivering:
            self._loop.call_soon(self._deliver_some)
        if self._delivering != was_delivering:
            self._let_read()

    def _next_messages(self) -> list[AnyMessage]:
        messages = self._messages
        while self._bodies and len(messages) < DELIVERED_MAX:
            body = self._bodies.popleft()
            if body:
                messages += decode_messages(body)
        self._messages = messages[DELIVERED_MAX:]
        del messages[DELIVERED_MAX:]
        return messages

    # Life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's transports are not subclasses
        self._transport = transport
        if self._close_reason:
            transport.abort()
            return
        transport.set_write_buffer_limits(high=_TRANSPORT_BUFFER_BYTES)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        address = transport.get_extra_info("peername")
        self.remote = f"{address[0]}:{address[1]}" if address else "?"
        transport.write(encode_hello(self._hello))
        self._handshake_timer = self._loop.call_later(self._limits.handshake_s, self.close, "no handshake in time")
        self._owner.on_connected(self)

    def _accept(self, peer: Hello) -> None:
        self.peer = peer
        self.is_open = True
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        self._owner.on_link_up(self)

    def beat(self) -> None:
        """Called every `heartbeat_s`: shows the peer that we live, and closes a link that fell silent."""
        if self.is_open and self._transport is not None and not self._transport.is_closing():
            silence_s = self._loop.time() - self._heard_at
            if silence_s > self._limits.silence_s and not self._reading_paused:
                self.close(f"nothing heard for {silence_s:.1f} s")
            elif not self._unsent:
                self._transport.write(HEARTBEAT)

    def finish(self, reason: str) -> None:
        """Closes it when the peer has read everything that was to be sent: nobody repeats an answer because its link
        was let go. The peer closes it behind the last of it, and what it says until then is read: to what comes for a
        socket that is closed the system answers with a reset, and forgets what it was still to send.
        """
        transport = self._transport
        if not self.is_open or transport is None or transport.is_closing():
            self.close(reason)
            return
        self._close_reason = self._close_reason or reason
        transport.write(b"".join(self._unsent))
        self._forget()
        self._not_congested()
        transport.resume_reading()
        try:
            transport.write_eof()
        except OSError:  # the peer has closed it
            transport.abort()
            return
        self._loop.call_later(_FINISHES_S_MAX, transport.abort)

    def close(self, reason: str) -> None:
        """At once, whatever is still to be sent."""
        self._close_reason = self._close_reason or reason
        self._forget()
        if self._transport is not None:
            self._transport.abort()

    def _forget(self) -> None:
        self.is_open = False
        self._unsent.clear()
        self._unsent_bytes = 0
        self._bodies.clear()
        self._messages = []

    def connection_lost(self, exc: Exception | None) -> None:
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        reason = self._close_reason or (str(exc) if exc else "closed by the peer")
        self.is_open = False
        self._not_congested()
        self._owner.on_link_down(self, reason)
