"""The live connections of subscribers, and the outboxes behind them."""

import asyncio
from collections.abc import Callable

import structlog

from braid import metrics
from braid.config import Delivery
from services.connpoint.door import Closed, Item
from services.connpoint.outbox import Outbox

log = structlog.get_logger()

_BOUND_EVERY_S = 1.0


class LiveAttachment:
    """One connection that empties one outbox."""

    def __init__(self, outbox: Outbox, gap: str, on_detach: Callable[["LiveAttachment"], None]) -> None:
        self.subscriber = outbox.subscriber
        self.gap = gap
        self.closed: Closed | None = None
        self.outbox = outbox
        self._on_detach = on_detach
        self._news = asyncio.Event()

    async def take(self, most: int) -> list[Item]:
        while self.closed is None:
            items = self.outbox.take(most)
            if items:
                return items
            self._news.clear()
            await self._news.wait()
        return []

    def lost(self) -> int:
        lost, self.outbox.lost = self.outbox.lost, 0
        return lost

    def event_id(self, number: int) -> str:
        return self.outbox.event_id(number)

    def position(self) -> str:
        return self.outbox.position

    def detach(self) -> None:
        self._on_detach(self)

    def wake(self) -> None:
        self._news.set()

    def close(self, reason: str, detail: str) -> None:
        if self.closed is None:
            self.closed = Closed(reason, detail)
            self._news.set()


class Streams:
    def __init__(
        self,
        incarnation: int,
        settings: Delivery,
        on_gone: Callable[[str], None],
        is_needed: Callable[[str], bool] = lambda _subscriber: True,
    ) -> None:
        self._incarnation = f"{incarnation:x}"
        self._settings = settings
        self._on_gone = on_gone  # a temporary subscriber did not come back
        self._is_needed = is_needed  # a named one has subscriptions here
        self._outboxes: dict[str, Outbox] = {}
        self._attachments: dict[str, LiveAttachment] = {}
        self._made = 0
        self._bound_at_s = 0.0
        self.held_bytes = 0  # of all outboxes, about a second ago

    def expect(self, subscriber: str, temporary: bool, now_s: float, dormant: bool = False) -> Outbox:
        """The outbox of a subscriber that has subscriptions here, whether or not it is connected."""
        outbox = self._outboxes.get(subscriber)
        if outbox is None:
            self._made += 1
            outbox = Outbox(subscriber, f"{self._incarnation}.{self._made:x}", self._settings, temporary)
            outbox.away_since_s = now_s
            if dormant:
                outbox.fall_dormant()
            self._outboxes[subscriber] = outbox
        return outbox

    def attach(self, subscriber: str, temporary: bool, last_event_id: str | None, now_s: float) -> LiveAttachment:
        before = self._attachments.get(subscriber)
        if before is not None:
            before.close("replaced", "a newer connection of the same subscriber took over")
            self._detach(before)
        outbox = self.expect(subscriber, temporary, now_s)
        outbox.temporary = temporary
        attachment = LiveAttachment(outbox, outbox.resume(last_event_id), self._detach)
        outbox.attached = True
        self._attachments[subscriber] = attachment
        return attachment

    def _detach(self, attachment: LiveAttachment) -> None:
        if self._attachments.get(attachment.subscriber) is attachment:
            del self._attachments[attachment.subscriber]
            attachment.outbox.attached = False
            attachment.outbox.away_since_s = asyncio.get_running_loop().time()

    def deliver(self, payloads: dict[str, list[bytes]], now_s: float) -> None:
        for subscriber, own in payloads.items():
            outbox = self._outboxes.get(subscriber) or self.expect(subscriber, False, now_s, dormant=True)
            lost_before = outbox.lost
            outcome = outbox.push(own)
            metrics.NOTIFICATIONS_DELIVERED.inc(len(own))
            if outcome != "kept":
                reason = "slow" if outbox.attached else "away"
                metrics.NOTIFICATIONS_DROPPED.labels(reason).inc(outbox.lost - lost_before)
            attachment = self._attachments.get(subscriber)
            if attachment is None:
                continue
            if outcome == "slow":
                self._disconnect_slow(attachment)
            else:
                attachment.wake()

    def _disconnect_slow(self, attachment: LiveAttachment) -> None:
        log.warning("a subscriber does not read and is disconnected", subscriber=attachment.subscriber)
        metrics.SUBSCRIBERS_DISCONNECTED.labels("slow").inc()
        attachment.close("slow", "more notifications waited than the outbox holds (delivery.outbox_notifications_max)")
        self._detach(attachment)

    def close_all(self, reason: str, detail: str) -> None:
        """Subscribers must not believe in a stream that may have missed something."""
        for attachment in list(self._attachments.values()):
            attachment.close(reason, detail)
            self._detach(attachment)

    @property
    def are_waiting(self) -> bool:
        """Whether something waits for a subscriber that is connected."""
        return any(outbox.attached and len(outbox) for outbox in self._outboxes.values())

    def forget_all(self) -> None:
        """What was missed is not known, so no event may be resumed from: outboxes begin anew."""
        for subscriber, outbox in list(self._outboxes.items()):
            del self._outboxes[subscriber]
            self.expect(subscriber, outbox.temporary, outbox.away_since_s)

    def let_go(self, subscriber: str) -> None:
        """The subscriber has no subscription left."""
        if subscriber not in self._attachments:
            self._outboxes.pop(subscriber, None)

    def on_tick(self, now_s: float) -> None:
        """`now_s` is the loop's time."""
        if now_s < self._bound_at_s:
            return
        self._bound_at_s = now_s + _BOUND_EVERY_S
        held = 0
        for subscriber, outbox in list(self._outboxes.items()):
            if not outbox.attached and now_s - outbox.away_since_s > self._settings.linger_s:
                if outbox.temporary:
                    del self._outboxes[subscriber]
                    self._on_gone(subscriber)
                    continue
                if not self._is_needed(subscriber):
                    del self._outboxes[subscriber]
                    continue
                if not outbox.dormant:
                    outbox.fall_dormant()
            held += outbox.held_bytes
        if held > self._settings.total_bytes_max:
            held = self._shrink()
        self.held_bytes = held
        metrics.OUTBOXES.set(len(self._outboxes))
        metrics.OUTBOX_BYTES.set(held)

    def _shrink(self) -> int:
        """Over the bound of all outboxes together: first what was sent already goes, then the largest backlogs."""
        for outbox in self._outboxes.values():
            outbox.drop_replay()
        held = sum(outbox.held_bytes for outbox in self._outboxes.values())
        for outbox in sorted(self._outboxes.values(), key=lambda outbox: -outbox.held_bytes):
            if held <= self._settings.total_bytes_max:
                break
            held -= outbox.held_bytes
            lost_before = outbox.lost
            attachment = self._attachments.get(outbox.subscriber)
            if attachment is not None:
                self._disconnect_slow(attachment)
            outbox.fall_dormant()
            metrics.NOTIFICATIONS_DROPPED.labels("memory").inc(outbox.lost - lost_before)
        return held
