"""Performs what the session wants: wakes callers, fills streams, holds back the reading of the socket."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from braid.client.effects import Answered, CallFailed, Deliver, DropConnection, Effect, Report, Send, StreamFailed
from braid.client.errors import BraidError, CallTimeout
from braid.client.frames import Notification
from braid.client.held import Wish
from braid.client.options import Options
from braid.client.session import Session
from braid.client.states import OnState, State
from braid.client.stream import Stream

_READ_ON_FACTOR = 4  # how far beyond its limit a stream is filled while a call waits for its answer
_GOODBYE_S = 5.0  # an unsubscribe is waited for so long, and then left to the server


class Conversation:
    """Between the calls of the user, the pure session and whatever connection there is now."""

    def __init__(self, session: Session, options: Options, on_state: OnState, start: Callable[[], None]) -> None:
        self.session = session
        self.outgoing: asyncio.Queue[bytes] = asyncio.Queue()  # bounded by the calls in flight
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.drop_reason = ""  # why the connection in use should be dropped
        self._options = options
        self._on_state = on_state
        self._start = start
        self._waiting: dict[int, asyncio.Future[str | list[str]]] = {}
        self._streams: dict[int, Stream] = {}
        self._full: set[int] = set()
        self._overfull: set[int] = set()
        self._failure: BraidError | None = None

    async def call(self, ref: int, effects: list[Effect], timeout_s: float | None = None) -> str | list[str]:
        """Waits for the answer to a call of the session."""
        timeout_s = self._options.call_timeout_s if timeout_s is None else timeout_s
        self._waiting[ref] = asyncio.get_running_loop().create_future()
        self.perform(effects)
        self._update_reading()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._waiting[ref]
        except TimeoutError:
            raise CallTimeout(self._explain_timeout(timeout_s)) from None
        finally:
            del self._waiting[ref]
            self.session.forget(ref)
            self._update_reading()

    def check(self) -> None:
        """Raises what ended this client, and makes sure that it is connecting."""
        if self._failure is not None:
            raise self._failure.with_traceback(None)  # raised many times, it would grow each time
        self._start()

    async def open_stream(self, stream: Stream, parts: dict[str, Any] | None, *, keep: bool) -> None:
        self.check()
        if parts is None:
            number = self.session.listen()
            stream.begin(number, None, None)
            self._streams[number] = stream
            return
        now = time.time()
        number, effects = self.session.subscribe(parts, keep=keep, now=now)
        self._streams[number] = stream
        try:
            await self.call(number, effects)
        except BaseException:
            self._streams.pop(number, None)
            raise
        stream.begin(number, Wish.of(parts, now).until_s, self.session.past_of(number))

    async def close_stream(self, stream: Stream) -> None:
        number = stream.number
        if number is None or self._streams.pop(number, None) is None:
            return
        self._full.discard(number)
        self._overfull.discard(number)
        self._update_reading()
        ref, effects = self.session.close_stream(number)
        if self._failure is not None:
            return
        if ref is not None and self.session.connected:
            await self.call(ref, effects, min(_GOODBYE_S, self._options.call_timeout_s))
        else:
            self.perform(effects)

    @property
    def open_streams(self) -> list[Stream]:
        return list(self._streams.values())

    def on_taken(self, stream: Stream) -> None:
        number = stream.number
        if number in self._full and stream.waiting <= self._options.stream_buffer_max // 2:
            self._full.discard(number)
            self._overfull.discard(number)
            self._update_reading()

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Deliver(number, notification):
                    self._deliver(number, notification)
                case Send(frame):
                    self.outgoing.put_nowait(frame)
                case Answered(ref, result):
                    self._answer(ref, result)
                case CallFailed(ref, error):
                    waiting = self._waiting.get(ref)
                    if waiting is not None and not waiting.done():
                        waiting.set_exception(error)
                case StreamFailed(number, error):
                    stream = self._streams.pop(number, None)
                    if stream is not None:
                        stream.fail(error)
                case DropConnection(reason):
                    self.drop_reason = reason
                case Report(kind, detail):
                    self._on_state(State(kind, detail=detail))

    def fail(self, error: BraidError) -> None:
        """The client has ended: everybody who waits is told, and so is whoever comes later."""
        self._failure = error
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)
        for stream in self._streams.values():
            stream.fail(error)

    def _answer(self, ref: int, result: str | list[str]) -> None:
        waiting = self._waiting.get(ref)
        if waiting is not None and not waiting.done():
            waiting.set_result(result)

    def _deliver(self, number: int, notification: Notification) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.put(notification)
        if stream.waiting >= self._options.stream_buffer_max:
            self._full.add(number)
            if stream.waiting >= self._options.stream_buffer_max * _READ_ON_FACTOR:
                self._overfull.add(number)
            self._update_reading()

    def _update_reading(self) -> None:
        if not self._full or (self._waiting and not self._overfull):
            self.may_read.set()
        else:
            self.may_read.clear()

    def _explain_timeout(self, timeout_s: float) -> str:
        if self._overfull:
            return "no answer: a stream of this client is full and not being read, so answers cannot be read either"
        if not self.session.connected:
            return f"no answer within {timeout_s:g} s: the client is reconnecting"
        return f"no answer from the server within {timeout_s:g} s"
