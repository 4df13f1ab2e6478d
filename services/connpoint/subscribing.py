"""Subscriptions as the connection point sees them.

It asks the matchers, which alone keep them, and routes deliveries.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable

import msgspec
import structlog

from braid import anchors, metrics, problems
from braid.config import Settings
from braid.messages import (
    FindSubscriptions,
    Subscribe,
    SubscriptionGone,
    SubscriptionRemoved,
    SubscriptionsFound,
    SubscriptionStored,
    Unsubscribe,
)
from braid.selector import hash64
from braid.subscription import Subscription, SubscriptionPatch, SubscriptionRecord, apply_patch, check_subscription
from services.connpoint.couriers import Couriers
from services.connpoint.delivery import DeliveryCore
from services.connpoint.door import Past
from services.connpoint.earlier import begins_in_the_past
from services.connpoint.giving import PastGiver
from services.connpoint.past import PastFinder
from services.connpoint.questions import Questions
from services.connpoint.streams import Streams

log = structlog.get_logger()

_PAGE = 1000
_GONE_AT_ONCE = 100


class Subscribing:
    def __init__(
        self,
        name: str,
        settings: Settings,
        delivery: DeliveryCore,
        streams: Streams,
        couriers: Couriers,
        *,
        questions: Questions,
        past: PastFinder,
    ) -> None:
        self._name = name
        self._settings = settings
        self._delivery = delivery
        self._streams = streams
        self._couriers = couriers
        self._questions = questions
        self._giver = PastGiver(
            name, settings, delivery, streams, couriers, questions=questions, past=past, find_all=self._pages
        )
        self._by_subscriber: dict[str, set[str]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._ending_slots = asyncio.Semaphore(_GONE_AT_ONCE)

    # The calls of the door

    async def subscribe(
        self, given: Subscription, *, subscriber: str, temporary: bool
    ) -> tuple[SubscriptionRecord, Past | None]:
        limit = self._settings.limits.subscriptions_per_connpoint_max
        if len(self._delivery) >= limit:
            raise problems.limit_exceeded("limits.subscriptions_per_connpoint_max", limit, None)
        record = anchors.placed(
            check_subscription(
                given,
                self._settings.limits,
                time.time(),
                id="",
                subscriber=subscriber,
                home=self._name,
                temporary=temporary,
            )
        )
        self._couriers.check(record)
        wants_past = begins_in_the_past(record)
        past: Past | None = None
        if wants_past:
            self._giver.begin(record)
        try:
            await self._store(record)
            if wants_past:
                past = await self._giver.give(record)
        except BaseException:
            # The caller was told that it failed, so it must not exist; a matcher may have stored it nevertheless.
            self._unroute(record.id)
            self._couriers.remove(record.id)
            self._end_later([record.id], void=None if wants_past else record)
            raise
        return record, past

    async def change(self, id: str, patch: SubscriptionPatch) -> SubscriptionRecord:
        """One whose address is given here is delivered from here, wherever it was homed; be it the same address."""
        before = await self.find(id)
        record = anchors.anchored(apply_patch(before, patch, self._settings.limits, time.time()))
        if patch.deliver is msgspec.UNSET:
            await self._put(record)
            return record
        self._couriers.check(record)
        if record.home == self._name:
            await self._put(record)
            self._couriers.expect(record)
        else:
            record = msgspec.structs.replace(record, home=self._name)
            await self._store(record)
        return record

    async def unsubscribe(self, id: str) -> None:
        answers = await self._questions.ask(hash64(id), self._unsubscribe(id))
        known = self._unroute(id)
        self._couriers.remove(id)
        if not known and not answers[0].existed:
            raise problems.not_found("subscription", id)

    async def find(self, id: str) -> SubscriptionRecord:
        answers = await self._questions.ask(
            hash64(id), lambda epoch, ref: FindSubscriptions(epoch, ref, self._name, id=id)
        )
        found = _open(answers[0].records)
        if not found:
            raise problems.not_found("subscription", id)
        return found[0]

    async def find_all(self, subscriber: str) -> AsyncIterator[list[SubscriptionRecord]]:
        """Those of a subscriber whose windows have not passed, a page at a time."""
        async for page in self._pages(subscriber=subscriber):
            yield _open(page)

    async def _pages(self, subscriber: str = "", home: str = "") -> AsyncIterator[list[SubscriptionRecord]]:
        """In the order of ids, merged from all matchers. One whose window has passed is there until it ends."""
        after = ""
        while True:
            question = self._find(subscriber, home, after)
            answers: list[SubscriptionsFound] = await self._questions.ask(hash64(subscriber), question)
            cursors = [answer.cursor for answer in answers if answer.cursor]
            after = min(cursors, default="")
            # Beyond the smallest cursor some matcher may still have records in between.
            page = [r for answer in answers for r in answer.records if not after or r.id <= after]
            yield sorted(page, key=lambda record: record.id)
            if not after:
                return

    # Homes

    async def restore(self) -> int:
        """Learns after a start which subscriptions this connection point delivers."""
        loop = asyncio.get_running_loop()
        restored = 0
        async for page in self._pages(home=self._name):
            for record in page:
                self._route(record)
                if record.deliver is None:
                    self._streams.expect(record.subscriber, record.temporary, loop.time(), dormant=not record.temporary)
            restored += len(page)
        self._couriers.on_restored()
        return restored

    async def bring_home(self, subscriber: str) -> None:
        """Its connection is here now, so its subscriptions are delivered here; those with an address need none."""
        async for page in self._pages(subscriber=subscriber):
            for record in page:
                if record.home != self._name and record.deliver is None:
                    await self._store(msgspec.structs.replace(record, home=self._name))

    def has_any(self, subscriber: str) -> bool:
        return subscriber in self._by_subscriber

    def on_subscriber_gone(self, subscriber: str) -> None:
        """A temporary subscriber stayed away: its subscriptions end."""
        ids = list(self._by_subscriber.get(subscriber, ()))
        for id in ids:
            self._unroute(id)
        self._end_later(ids)

    def _end_later(self, ids: list[str], void: SubscriptionRecord | None = None) -> None:
        """`void` is one through which nothing was given: it must not be remembered as one through which it was."""

        async def end() -> None:
            for id in ids:
                async with self._ending_slots:
                    try:
                        if void is not None and void.distinct:
                            await self._questions.ask(hash64(id), self._void(void))
                        await self._questions.ask(hash64(id), self._unsubscribe(id))
                    except problems.Problem as problem:
                        log.warning("a subscription could not be ended", subscription=id, reason=problem.detail)

        if ids:
            task = asyncio.get_running_loop().create_task(end())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    # Answers

    def on_subscription_stored(self, message: SubscriptionStored) -> None:
        self._questions.on_answer(message.ref, "", message)

    def on_subscription_removed(self, message: SubscriptionRemoved) -> None:
        self._questions.on_answer(message.ref, "", message)

    def on_subscriptions_found(self, message: SubscriptionsFound) -> None:
        self._questions.on_answer(message.ref, message.matcher, message, message.asked)

    def on_subscription_gone(self, message: SubscriptionGone) -> None:
        self._unroute(message.id)
        self._couriers.end(message.id)

    def on_tick(self) -> None:
        metrics.SUBSCRIPTIONS.labels("connpoint").set(len(self._delivery))

    def close(self) -> None:
        for task in self._ending:
            task.cancel()

    async def _store(self, record: SubscriptionRecord) -> None:
        # Routed before it is stored: the first notification may be here before the acknowledgement.
        self._route(record)
        if record.deliver is None:
            self._streams.expect(record.subscriber, record.temporary, asyncio.get_running_loop().time())
        await self._put(record)

    async def _put(self, record: SubscriptionRecord) -> None:
        await self._questions.ask(hash64(record.id), lambda epoch, ref: Subscribe(epoch, ref, self._name, record))

    def _unsubscribe(self, id: str) -> Callable[[int, int], Unsubscribe]:
        return lambda epoch, ref: Unsubscribe(epoch, ref, self._name, id)

    def _void(self, record: SubscriptionRecord) -> Callable[[int, int], Subscribe]:
        return lambda epoch, ref: Subscribe(epoch, ref, self._name, record, given_from_s=math.inf)

    def _find(self, subscriber: str, home: str, after: str) -> Callable[[int, int], FindSubscriptions]:
        return lambda epoch, ref: FindSubscriptions(
            epoch, ref, self._name, subscriber=subscriber, home=home, after=after, limit=_PAGE
        )

    def _route(self, record: SubscriptionRecord) -> None:
        if record.deliver is not None:
            self._delivery.addressed.add(record.id)
            self._couriers.expect(record)
            return
        self._delivery.subscribers[record.id] = record.subscriber
        if record.distinct:
            self._delivery.distinct.add(record.id)
        self._by_subscriber.setdefault(record.subscriber, set()).add(record.id)

    def _unroute(self, id: str) -> bool:
        """Whether it was delivered from here."""
        subscriber = self._delivery.subscribers.pop(id, None)
        self._delivery.distinct.discard(id)
        self._delivery.catching_up.forget(id)
        if id in self._delivery.addressed:
            self._delivery.addressed.discard(id)
            return True
        if subscriber is None:
            return False
        own = self._by_subscriber[subscriber]
        own.discard(id)
        if not own:
            del self._by_subscriber[subscriber]
            self._streams.let_go(subscriber)
        return True


def _open(records: list[SubscriptionRecord]) -> list[SubscriptionRecord]:
    """Those whose window has not passed; the others are removed a moment later."""
    now_s = time.time()
    return [record for record in records if record.until_s is None or record.until_s > now_s]
