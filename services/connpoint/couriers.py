"""Everything that is delivered to an address: by its kind, to webhooks or to topics of Kafka."""

from collections.abc import Callable

from braid.config import Settings
from braid.deliver import Topic, Webhook
from braid.subscription import SubscriptionRecord
from services.connpoint.delivery import Addressed
from services.connpoint.door import DeliveryState
from services.connpoint.past_order import Key
from services.connpoint.sinks.courier import TopicCourier
from services.connpoint.webhooks.addresses import check_url
from services.connpoint.webhooks.courier import Courier


class Couriers:
    def __init__(self, settings: Settings, webhooks: Courier, topics: TopicCourier) -> None:
        self._settings = settings
        self.webhooks = webhooks
        self.topics = topics

    async def open(self) -> None:
        await self.webhooks.open()
        await self.topics.open()

    async def close(self) -> None:
        await self.webhooks.close()
        await self.topics.close()

    def on_tick(self, now_s: float) -> None:
        self.webhooks.on_tick(now_s)
        self.topics.on_tick(now_s)

    # Subscriptions

    def check(self, record: SubscriptionRecord) -> None:
        """Whether it may be delivered where it says; raises `Problem`."""
        match record.deliver:
            case Webhook() as webhook:
                check_url(webhook.url, allow_private=self._settings.webhooks.allow_private)
            case Topic() as topic:
                self.topics.check(topic)

    def expect(self, record: SubscriptionRecord) -> None:
        if isinstance(record.deliver, Topic):
            self.topics.expect(record)
        else:
            self.webhooks.expect(record)

    def on_restored(self) -> None:
        self.webhooks.on_restored()
        self.topics.on_restored()

    def end(self, id: str) -> None:
        self.webhooks.end(id)
        self.topics.end(id)

    def remove(self, id: str) -> None:
        self.webhooks.remove(id)
        self.topics.end(id)

    # Notifications

    def deliver(self, addressed: list[Addressed], receipt: Callable[[], None]) -> None:
        """`receipt` is called when all of them are on disk."""
        left = 2

        def written() -> None:
            nonlocal left
            left -= 1
            if not left:
                receipt()

        for_topics: list[Addressed] = []
        for_webhooks: list[Addressed] = []
        for one in addressed:
            (for_topics if one.id in self.topics else for_webhooks).append(one)
        self.webhooks.deliver(for_webhooks, written)
        self.topics.deliver(for_topics, written)

    async def delivered(self, record: SubscriptionRecord, past: list[Addressed], may_come: set[Key]) -> None:
        """The past of one of them, and what of it may come live too; returns when it is on disk."""
        if isinstance(record.deliver, Topic):
            await self.topics.give(past, may_come)
        else:
            await self.webhooks.delivered(past)

    # What is asked of them

    async def delivery_of(self, id: str) -> DeliveryState:
        return self.topics.delivery_of(id) if id in self.topics else await self.webhooks.delivery_of(id)
