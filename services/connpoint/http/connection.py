"""One WebSocket: publishing, subscribing and notifications at the same time.

    reader ── requests ──▶ calls of the door, a few at a time ──▶ acknowledger ──▶ ┐
    outbox of each attached subscriber ── take ──▶ deliverer ───────────────────▶ one send at a time

The past that a subscription asks for is in the outbox before the call is answered. Deliverers wait until that answer is
sent, so that a client knows the id of a subscription before it is notified of its past. Such a call begins when all
answers before its own are sent: deliverers wait no longer than one call takes, and get their turn before the next.

Nothing here grows without bound. A client that does not read its answers blocks the acknowledger, which fills the
queue of answers, which stops the reader, which stops the client through TCP. A client that publishes faster than the
cluster takes waits the same way. A client that does not read its notifications is given up by its outbox.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, NamedTuple

from starlette.websockets import WebSocket, WebSocketDisconnect

from braid import problems
from braid.content import Content
from braid.problems import Problem
from services.connpoint.door import Attachment, Door
from services.connpoint.http import frames
from services.connpoint.http.decoding import check_batch_size
from services.connpoint.http.delivery import StuckWatch, lost_detail, notify_frames
from services.connpoint.http.past_shown import past_shown
from services.connpoint.http.problem_responses import unexpected
from services.connpoint.http.subscribers import check_subscriber

PUBLISHES_IN_FLIGHT_MAX = 8  # so that batches overlap on their way to the log
ANSWERS_WAITING_MAX = 64  # requests that were read and not yet answered

_CLOSE_CODES = {"replaced": 4409, "slow": 4408, "unavailable": 1013, "stopping": 1001}
_REASON_BYTES_MAX = 123  # of a close frame


class Opened(NamedTuple):
    """Who is at the other end, as the handshake said."""

    publisher: str
    subscriber: str  # generated when anonymous
    anonymous: bool
    temporary: bool


class Ending(NamedTuple):
    code: int
    reason: str


class Connection:
    """One WebSocket from its acceptance to its end."""

    def __init__(self, websocket: WebSocket, door: Door, opened: Opened) -> None:
        self._websocket = websocket
        self._door = door
        self._opened = opened
        self._limits = door.settings.limits
        self._sending = asyncio.Lock()
        self._attaching = asyncio.Lock()
        self._publishing = asyncio.Semaphore(PUBLISHES_IN_FLIGHT_MAX)
        self._answers: asyncio.Queue[str | asyncio.Task[str]] = asyncio.Queue(ANSWERS_WAITING_MAX)
        self._may_notify = asyncio.Event()  # not while the answer to a call that asks for the past is awaited
        self._may_notify.set()
        self._ending: asyncio.Future[Ending | None] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._attachments: dict[str, Attachment] = {}
        self._subscriptions: set[str] = set()  # made over this connection and still open
        self._subscribing = 0

    async def run(self, attachment: Attachment | None) -> None:
        """Until the client leaves, or the connection point ends an attachment."""
        if attachment is not None:
            self._deliver_to(self._opened.subscriber, attachment)
        self._start(self._read())
        self._start(self._acknowledge())
        try:
            ending = await self._ending
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for attached in self._attachments.values():
                attached.detach()
        if ending is not None:
            with contextlib.suppress(WebSocketDisconnect):
                await self._websocket.close(*ending)

    async def _read(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                self._end(None)
                return
            text = message.get("text")
            if text is None:
                await self._answers.put(frames.encode_error(None, frames.binary_frame()))
                continue
            try:
                request = frames.read_request(text, self._limits.batch_publications_max)
            except Problem as problem:
                await self._answers.put(frames.encode_error(frames.ref_of(text), problem))
                continue
            await self._answers.put(await self._begin(request))

    async def _begin(self, request: frames.AnyRequest) -> str | asyncio.Task[str]:
        """Starts the call; waits only where waiting is the flow control."""
        match request:
            case frames.Publish():
                await self._publishing.acquire()
                return self._call(request.ref, self._publish(request.ref, request.publications))
            case frames.Subscribe() if request.subscription.from_ is not None:
                await self._answers.join()
                self._may_notify.clear()  # until the next answer is sent, which is the one of this call
                return self._call(request.ref, self._subscribe(request))
            case frames.Subscribe():
                return self._call(request.ref, self._subscribe(request))
            case frames.Unsubscribe():
                return self._call(request.ref, self._unsubscribe(request))
            case frames.Ping():
                return frames.encode_answer(frames.Pong(request.ref))

    async def _publish(self, ref: frames.Ref, contents: list[Content]) -> str:
        try:
            check_batch_size(len(contents), self._limits.batch_publications_max, "$.publications")
            ids = await self._door.publish(self._opened.publisher, contents, wait=True)
        except Problem as problem:
            raise frames.in_publications(problem) from None
        finally:
            self._publishing.release()
        return frames.encode_answer(frames.Published(ref, ids))

    async def _subscribe(self, request: frames.Subscribe) -> str:
        given, opened = request.subscription, self._opened
        if given.deliver is not None:
            detail = "what is delivered to an address needs no connection; make it with POST /v1/subscriptions"
            raise problems.invalid("$.subscription.deliver", detail)
        subscriber = given.subscriber or opened.subscriber
        if subscriber != opened.subscriber:
            check_subscriber(subscriber, self._limits, "$.subscription.subscriber")
            if not opened.anonymous:
                detail = f"this connection is the one of '{opened.subscriber}'; open another one for '{subscriber}'"
                raise problems.invalid("$.subscription.subscriber", detail)
        maximum = self._limits.subscriptions_per_connection_max
        if len(self._subscriptions) + self._subscribing >= maximum:
            raise problems.limit_exceeded("limits.subscriptions_per_connection_max", maximum, None)
        temporary = opened.temporary or (opened.anonymous and subscriber == opened.subscriber)
        self._subscribing += 1
        try:
            await self._attach(subscriber, temporary)
            event = self._attachments[subscriber].position()  # what is given from here on is not seen yet
            record, past = await self._door.subscribe(given, subscriber=subscriber, temporary=temporary)
        except Problem as problem:
            raise frames.in_subscription(problem) from None
        finally:
            self._subscribing -= 1
        self._subscriptions.add(record.id)
        return frames.encode_answer(frames.Subscribed(request.ref, record.id, subscriber, event, past_shown(past)))

    async def _unsubscribe(self, request: frames.Unsubscribe) -> str:
        await self._door.unsubscribe(request.id)
        self._subscriptions.discard(request.id)
        return frames.encode_answer(frames.Unsubscribed(request.ref))

    def _call(self, ref: frames.Ref, call: Coroutine[Any, Any, str]) -> asyncio.Task[str]:
        """A task that always has an answer: the failure of one request hurts no other."""

        async def answered() -> str:
            try:
                return await call
            except Problem as problem:
                return frames.encode_error(ref, problem)
            except Exception as error:
                return frames.encode_error(ref, unexpected(error, path="/v1/ws"))

        task = asyncio.create_task(answered())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _acknowledge(self) -> None:
        while True:
            answer = await self._answers.get()
            await self._send(answer if isinstance(answer, str) else await answer)
            self._answers.task_done()
            self._may_notify.set()

    async def _attach(self, subscriber: str, temporary: bool) -> None:
        """Before the first subscription of a subscriber, so that nothing of it is missed."""
        async with self._attaching:  # a second attachment would replace the first
            if subscriber not in self._attachments:
                attachment = await self._door.attach(subscriber, temporary=temporary, last_event_id=None)
                self._deliver_to(subscriber, attachment)

    def _deliver_to(self, subscriber: str, attachment: Attachment) -> None:
        self._attachments[subscriber] = attachment
        self._start(self._deliver(attachment, None if subscriber == self._opened.subscriber else subscriber))

    async def _deliver(self, attachment: Attachment, shown_subscriber: str | None) -> None:
        def end() -> None:
            self._end(_ending_of(attachment))

        most = self._door.settings.delivery.frame_notifications_max
        if attachment.gap:
            await self._send(frames.encode_answer(frames.Gap(attachment.subscriber, attachment.gap)))
        while items := await attachment.take(most):
            await self._may_notify.wait()
            if lost := attachment.lost():
                await self._send(frames.encode_answer(frames.Gap(attachment.subscriber, lost_detail(lost))))
            for frame in notify_frames(attachment, items, shown_subscriber):
                with StuckWatch(attachment, end):
                    await self._send(frame)
        end()

    async def _send(self, text: str) -> None:
        async with self._sending:
            await self._websocket.send({"type": "websocket.send", "text": text})

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, WebSocketDisconnect):
            self._end(None)
        else:
            problem = unexpected(error if isinstance(error, Exception) else Exception(error), path="/v1/ws")
            self._end(Ending(1011, problem.title))

    def _end(self, ending: Ending | None) -> None:
        if not self._ending.done():
            self._ending.set_result(ending)


def _ending_of(attachment: Attachment) -> Ending:
    closed = attachment.closed
    if closed is None:
        return Ending(1011, "the attachment ended without a reason")
    reason = f"{closed.reason}: {closed.detail}" if closed.detail else closed.reason
    return Ending(_CLOSE_CODES.get(closed.reason, 1011), reason.encode()[:_REASON_BYTES_MAX].decode(errors="ignore"))
