"""The endpoints of a connection point: tells them what happens, and does what they want."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from typing import TypeVar
from urllib.parse import urlsplit

import structlog
from msgspec.structs import replace

from braid import metrics, problems
from braid.config import Settings
from braid.deliver import Webhook
from braid.subscription import SubscriptionRecord
from services.connpoint.delivery import Addressed
from services.connpoint.door import DeadLetter, DeliveryState
from services.connpoint.webhooks import events
from services.connpoint.webhooks.answers import answered, retry_after_s
from services.connpoint.webhooks.arrivals import Arrivals
from services.connpoint.webhooks.endpoint import Endpoint, State
from services.connpoint.webhooks.facts import Facts
from services.connpoint.webhooks.lanes import Lanes
from services.connpoint.webhooks.outbox import WebhookOutbox
from services.connpoint.webhooks.posting import Poster, PostingError
from services.connpoint.webhooks.records import body_of
from services.connpoint.webhooks.schedule import Schedule
from services.connpoint.webhooks.shelf import Counts, Taken
from services.connpoint.webhooks.shown import shown_letter, shown_state
from services.connpoint.webhooks.signing import headers_of

log = structlog.get_logger()
T = TypeVar("T")

_FORGET_EVERY_S = 10.0


class Courier:
    def __init__(
        self,
        settings: Settings,
        outbox: WebhookOutbox,
        poster: Poster,
        *,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        own = settings.webhooks
        self._outbox = outbox
        self._poster = poster
        self._clock = clock
        self._schedule = Schedule(
            own.retry_s, own.retry_s_max, own.attempts_max, own.refusals_max, own.age_s_max, chance
        )
        self._lanes = Lanes(own.requests_max, own.requests_per_host_max)
        self._arrivals = Arrivals(outbox, self._on_arrived)
        self._endpoints: dict[str, Endpoint] = {}
        self._found: dict[str, tuple[Facts, bool]] = {}  # on disk, and not known yet to have a subscription
        self._attempts: dict[str, asyncio.Task[None]] = {}
        self._wakes: dict[str, float] = {}
        self._wakes_in_order: list[tuple[float, str]] = []
        self._states: Counter[State] = Counter()
        self._forget_at_s = 0.0
        self._told = Counts()

    async def open(self) -> None:
        self._found = await self._outbox.open()

    # Subscriptions

    def expect(self, record: SubscriptionRecord) -> None:
        """Its subscription is delivered from here: it was made or changed, or was found when the process started."""
        webhook = record.deliver
        assert isinstance(webhook, Webhook)
        found = self._found.pop(record.id, None)
        if found is not None:
            self._begin(record.id, *found)
        endpoint = self._endpoints.get(record.id)
        if endpoint is None:
            self._begin(record.id, Facts(webhook, record.subscriber), False)
            self._outbox.note(record.id, self._endpoints[record.id].facts)
        elif endpoint.facts.webhook != webhook or endpoint.facts.ending:
            self._tell(endpoint, events.Changed(webhook))

    def on_restored(self) -> None:
        """The subscriptions of all others are over, or delivered elsewhere. What waits for them is still posted."""
        for id, (facts, waits) in list(self._found.items()):
            self._begin(id, facts, waits)
            self.end(id)
        self._found = {}

    def end(self, id: str) -> None:
        """Nothing more will come."""
        if id in self._endpoints:
            self._tell(self._endpoints[id], events.Ended())

    def remove(self, id: str) -> None:
        """Nobody wants it any more, neither what waits."""
        endpoint = self._endpoints.pop(id, None)
        attempt = self._attempts.pop(id, None)
        self._wakes.pop(id, None)
        if endpoint is not None:
            self._states[endpoint.state] -= 1
            self._outbox.remove(id)
        if attempt is not None and attempt is not asyncio.current_task():
            attempt.cancel()

    # Notifications

    def deliver(self, addressed: list[Addressed], receipt: Callable[[], None]) -> None:
        """`receipt` is called when they are on disk."""
        self._arrivals.write(addressed, self._clock(), receipt)

    async def delivered(self, addressed: list[Addressed]) -> None:
        """The same for whoever can wait."""
        written = asyncio.Event()
        self.deliver(addressed, written.set)
        await written.wait()

    # What is asked of it

    async def delivery_of(self, id: str) -> DeliveryState:
        endpoint = self._known(id)
        return shown_state(endpoint, await self._asked(self._outbox.counts(id)))

    async def dead_letters_of(self, id: str, most: int) -> list[DeadLetter]:
        self._known(id)
        return [shown_letter(letter) for letter in await self._asked(self._outbox.dead_letters(id, most))]

    async def replay(self, id: str, letters: set[str] | None) -> tuple[int, int]:
        endpoint = self._known(id)
        requests, notifications = await self._asked(self._outbox.replay(id, letters))
        if requests and self._endpoints.get(id) is endpoint:
            self._tell(endpoint, events.Replayed())
        return requests, notifications

    async def _asked(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except OSError as error:
            raise problems.unavailable(f"the outbox of webhooks cannot be read or written: {error}") from None

    def _known(self, id: str) -> Endpoint:
        endpoint = self._endpoints.get(id)
        if endpoint is None:
            raise problems.not_found("subscription with a webhook", id)
        return endpoint

    # Time

    def on_tick(self, now_s: float) -> None:
        """`now_s` is the clock's."""
        while self._wakes_in_order and self._wakes_in_order[0][0] <= now_s:
            at_s, id = heappop(self._wakes_in_order)
            if self._wakes.get(id) == at_s:
                del self._wakes[id]
                self._tell(self._endpoints[id], events.Due())
        self._arrivals.on_tick()
        if now_s >= self._forget_at_s:
            self._forget_at_s = now_s + _FORGET_EVERY_S
            self._outbox.forget_arrived(now_s)
        self._outbox.flush()
        self._show_metrics()

    async def close(self) -> None:
        """What is under way is posted again after the next start."""
        attempts = list(self._attempts.values())
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        await self._poster.close()
        await self._outbox.close()

    # Endpoints

    def _begin(self, id: str, facts: Facts, waits: bool) -> None:
        endpoint = self._endpoints[id] = Endpoint(id, facts, self._schedule)
        effects = endpoint.on_found(self._clock()) if waits else []
        self._states[endpoint.state] += 1
        self._perform(endpoint, effects)

    def _on_arrived(self, id: str) -> None:
        if id in self._endpoints:  # else it was removed while this was written
            self._tell(self._endpoints[id], events.Arrived())

    def _tell(self, endpoint: Endpoint, event: events.Event) -> None:
        self._states[endpoint.state] -= 1
        effects = endpoint.on_event(event, self._clock())
        self._states[endpoint.state] += 1
        self._perform(endpoint, effects)

    def _perform(self, endpoint: Endpoint, effects: events.Effects) -> None:
        id, now_s = endpoint.id, self._clock()
        for effect in effects:
            match effect:
                case events.Attempt():
                    self._wakes.pop(id, None)
                    self._attempts[id] = asyncio.get_running_loop().create_task(self._attempt(endpoint))
                case events.Wake(at_s):
                    self._wakes[id] = at_s
                    heappush(self._wakes_in_order, (at_s, id))
                case events.Settle(number):
                    self._outbox.settle(id, number, endpoint.facts, now_s)
                case events.Bury(_, attempts, reason):
                    log.warning("a webhook request is given up", subscription=id, attempts=attempts, reason=reason)
                    self._outbox.bury(id, effect, endpoint.facts, now_s)
                case events.BuryWaiting():
                    self._outbox.bury_waiting(id, effect, now_s)
                case events.Note():
                    self._outbox.note(id, endpoint.facts)
                case events.Remove():
                    self.remove(id)

    async def _attempt(self, endpoint: Endpoint) -> None:
        """The turn first, then the request: so many of them are in memory as are under way."""
        in_trouble = endpoint.facts.failures > 0
        host = urlsplit(endpoint.facts.webhook.url).hostname or ""
        async with self._lanes.turn(host, in_trouble=in_trouble):
            event = await self._next_event(endpoint, in_trouble)
        if self._endpoints.get(endpoint.id) is endpoint:
            self._attempts.pop(endpoint.id, None)
            self._tell(endpoint, event)

    async def _next_event(self, endpoint: Endpoint, in_trouble: bool) -> events.Event:
        try:
            taken = await self._outbox.take(endpoint.id)
        except Exception as error:  # whatever a disk raises; the outbox has logged it
            log.debug("the next request cannot be read", subscription=endpoint.id, error=str(error))
            return events.DiskFailed()
        if taken is None:
            return events.NothingLeft()
        notifications = taken.request.notifications
        tried = events.Tried(taken.number, len(notifications), notifications[0].received_s)
        try:
            return await self._post(endpoint, taken, tried, in_trouble)
        except Exception as error:  # a mistake of ours; without an event the endpoint would wait for ever
            log.exception("a webhook request cannot be tried", subscription=endpoint.id)
            return events.Failed(tried, f"cannot be tried: {error}", is_refusal=True)

    async def _post(self, endpoint: Endpoint, taken: Taken, tried: events.Tried, in_trouble: bool) -> events.Event:
        facts, request, now_s = endpoint.facts, taken.request, self._clock()
        body = body_of(request, endpoint.id, facts.subscriber)
        headers = headers_of(facts.webhook, request.id, body, now_s)
        try:
            with metrics.WEBHOOK_REQUEST_SECONDS.time():
                answer = await self._poster.post(facts.webhook.url, headers, body, in_trouble=in_trouble)
        except PostingError as error:
            metrics.WEBHOOK_REQUESTS.labels("none").inc()
            return events.Failed(tried, str(error), error.is_refusal)
        metrics.WEBHOOK_REQUESTS.labels(f"{answer.status // 100}xx").inc()
        event = answered(tried, answer.status, retry_after_s(answer.retry_after, self._clock()))
        if isinstance(event, events.Delivered):
            metrics.WEBHOOK_NOTIFICATIONS.labels("delivered").inc(tried.notifications)
            metrics.WEBHOOK_DELAY_SECONDS.observe(max(0.0, self._clock() - tried.oldest_s))
        return event

    def _show_metrics(self) -> None:
        totals, told = replace(self._outbox.totals), self._told  # the thread of the database goes on counting
        metrics.WEBHOOK_NOTIFICATIONS.labels("buried").inc(totals.buried - told.buried)
        metrics.WEBHOOK_NOTIFICATIONS.labels("dropped").inc(totals.dropped - told.dropped)
        self._told = totals
        metrics.WEBHOOK_WAITING.set(totals.waiting)
        metrics.WEBHOOK_DEAD_LETTERS.set(totals.dead)
        metrics.WEBHOOK_BYTES.set(totals.size)
        for state in (State.IDLE, State.SENDING, State.PAUSING, State.DISABLED):
            metrics.WEBHOOK_ENDPOINTS.labels(state.value).set(self._states[state])
