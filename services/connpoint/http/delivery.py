"""From a subscriber's outbox to a connection: splicing frames, and noticing that nobody reads them."""

import asyncio
from collections.abc import Callable, Iterator
from types import TracebackType

import msgspec

from services.connpoint.door import Attachment, Item

# Many WebSocket clients refuse messages above 1 MiB unless told otherwise. A single larger notification goes alone.
FRAME_BYTES_MAX = 512 * 1024
STUCK_CHECK_S = 0.25

_encode = msgspec.json.encode


def lost_detail(lost: int) -> str:
    return f"{lost} notifications were dropped because they were not read fast enough"


def notify_frames(attachment: Attachment, items: list[Item], subscriber: str | None) -> Iterator[str]:
    """The frames for these notifications; payloads are spliced in as they are.

    `subscriber` stands in the frame where the connection serves more than the one it was opened for.
    """
    payloads = [item.payload for item in items]
    start = 0
    while start < len(payloads):
        end = _frame_end(payloads, start)
        event = _encode(attachment.event_id(items[end - 1].number))
        whose = b"" if subscriber is None else b',"subscriber":' + _encode(subscriber)
        head = b'{"op":"notify","event":' + event + whose + b',"notifications":['
        # Content was checked to be UTF-8 where it entered; one bad byte must not end a subscriber's connection.
        yield (head + b",".join(payloads[start:end]) + b"]}").decode(errors="replace")
        start = end


def _frame_end(payloads: list[bytes], start: int) -> int:
    if start == 0 and sum(map(len, payloads)) <= FRAME_BYTES_MAX:
        return len(payloads)
    size = 0
    for position in range(start, len(payloads)):
        size += len(payloads[position])
        if size > FRAME_BYTES_MAX and position > start:
            return position
    return len(payloads)


class StuckWatch:
    """Around a send: while it blocks because the client does not read, the outbox may give the subscriber up."""

    def __init__(self, attachment: Attachment, on_closed: Callable[[], object]) -> None:
        self._attachment = attachment
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._timer = self._loop.call_later(STUCK_CHECK_S, self._check)

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        if self._attachment.closed is None:
            self._timer = self._loop.call_later(STUCK_CHECK_S, self._check)
        else:
            self._on_closed()
