"""The notifications of one subscription, as an async iterator."""

import asyncio
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from braid.client.errors import BraidError, ConnectionLost
from braid.client.frames import Notification, Past
from braid.client.states import logger

if TYPE_CHECKING:
    from braid.client.conversation import Conversation

_UNTIL_GRACE_S = 2.0  # a publication accepted just before `until` may take so long to arrive


class Stream:
    """What `Client.subscribe` and `Client.listen` return.

    Use it with `async with`, or iterate over it directly and call `aclose` when done; closing the client closes it too.
    The subscription is made on entering, or with the first notification that is asked for. Iteration ends when the
    stream is closed, or when its `until` has passed by this machine's clock and nothing is left to read. It raises
    `BraidError` when the subscription is refused and `ConnectionLost` when the client has given up reconnecting; what
    was received before is read first.

    Once it is open, `past` says what of the past it was given: those are the first that are read, the oldest first. It
    is None where the subscription does not begin in the past.

    A stream holds at most `stream_buffer_max` notifications, and those of one more frame. When it is full the client
    stops reading its socket, so the other streams of the same client wait as well, and a cluster whose subscriber does
    not read for too long drops the connection and what does not fit its buffers (a gap). Only while a call such as
    `publish` waits for its answer does the client read on, up to four times that number: so a loop over a stream may
    publish, but one that does so more slowly than notifications arrive sees `CallTimeout` in the end; publish through
    another client then.
    """

    def __init__(self, conversation: "Conversation", parts: dict[str, Any] | None, *, keep: bool) -> None:
        self._conversation = conversation
        self._parts = parts  # None listens to everything
        self._keep = keep
        self._buffer: deque[Notification] = deque()
        self._changed = asyncio.Event()
        self._error: BraidError | None = None
        self._closed = False
        self._opening = asyncio.Lock()
        self._until_s: float | None = None
        self.number: int | None = None
        self.past: Past | None = None

    @property
    def id(self) -> str:
        """Of the subscription, once it is open; a new one when the client had to make the subscription again."""
        return "" if self.number is None else self._conversation.session.id_of(self.number)

    @property
    def waiting(self) -> int:
        """How many notifications wait to be read."""
        return len(self._buffer)

    async def open(self) -> Self:
        """Subscribes, and returns when the subscription is acknowledged: what is published from now on is found."""
        async with self._opening:
            if self.number is None and not self._closed:
                await self._conversation.open_stream(self, self._parts, keep=self._keep)
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Notification:
        if self.number is None and not self._closed:
            await self.open()
        while not self._buffer:
            if self._error is not None:
                raise self._error.with_traceback(None)
            if self._closed or not await self._wait():
                raise StopAsyncIteration
        notification = self._buffer.popleft()
        self._conversation.on_taken(self)
        return notification

    async def aclose(self) -> None:
        """Unsubscribes (unless it is to be kept) and ends the iteration. Closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        self._buffer.clear()
        self._changed.set()
        try:
            await self._conversation.close_stream(self)
        except ConnectionLost:
            pass  # nobody is there to tell
        except BraidError as error:
            logger.warning("could not unsubscribe %s: %s", self.id, error)

    # Called by the conversation.

    def begin(self, number: int, until_s: float | None, past: Past | None) -> None:
        self.number, self._until_s, self.past = number, until_s, past

    def put(self, notification: Notification) -> None:
        if not self._closed:
            self._buffer.append(notification)
            self._changed.set()

    def fail(self, error: BraidError) -> None:
        self._error = error
        self._changed.set()

    async def _wait(self) -> bool:
        """Whether there may be something new; False when the window of the subscription is over."""
        self._changed.clear()
        left_s = None if self._until_s is None else self._until_s + _UNTIL_GRACE_S - time.time()
        try:
            async with asyncio.timeout(left_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True
