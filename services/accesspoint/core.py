"""The access point: sends publications to the matchers that must see them, subscriptions to the one that keeps them.

It holds no state of its own besides the configuration, so a restarted access point is as good as the old one.
A message of another epoch is dropped: its connection point sends it again under the epoch in force.
"""

from collections.abc import Callable

from braid.messages import (
    Explain,
    Explained,
    FindSubscriptions,
    MatchRequest,
    Publications,
    Send,
    Subscribe,
    SubscriptionGone,
    SubscriptionRemoved,
    SubscriptionsFound,
    SubscriptionStored,
    Unsubscribe,
)
from braid.selector import BroadcastSelector
from braid.topology import Configuration


class AccessPointCore:
    def __init__(self, name: str, clock_ns: Callable[[], int]) -> None:
        self._name = name
        self._clock_ns = clock_ns  # only stamps the hops of traced publications
        self._selector: BroadcastSelector | None = None
        self.stale = 0

    def on_configuration(self, configuration: Configuration) -> None:
        self._selector = BroadcastSelector(configuration)

    def on_publications(self, batch: list[Publications], arrived_ns: int) -> list[Send]:
        selector = self._selector
        if selector is None:
            self.stale += len(batch)
            return []
        epoch, partials = selector.epoch, len(selector.matchers)
        requests = [
            MatchRequest(
                epoch,
                message.origin,
                message.sequence,
                message.previous,
                message.watermark,
                message.publisher,
                partials,
                message.contents,
                None if message.hops is None else [*message.hops, (self._name, arrived_ns, self._clock_ns())],
            )
            for message in batch
            if message.epoch == epoch
        ]
        self.stale += len(batch) - len(requests)
        return [Send(matcher, requests) for matcher in selector.matchers] if requests else []

    def on_subscribe(self, message: Subscribe) -> list[Send]:
        return self._to_matcher_of(message.record.id, message)

    def on_unsubscribe(self, message: Unsubscribe) -> list[Send]:
        return self._to_matcher_of(message.id, message)

    def on_find_subscriptions(self, message: FindSubscriptions) -> list[Send]:
        selector = self._current(message.epoch)
        if selector is None:
            return []
        if message.id:
            return [Send(selector.matcher_of(message.id), [message])]
        return [Send(matcher, [message]) for matcher in selector.matchers]

    def on_explain(self, message: Explain) -> list[Send]:
        selector = self._current(message.epoch)
        return [] if selector is None else [Send(matcher, [message]) for matcher in selector.matchers]

    def on_answer(
        self,
        message: SubscriptionStored | SubscriptionRemoved | SubscriptionsFound | SubscriptionGone | Explained,
    ) -> list[Send]:
        """What a matcher has to say goes to the connection point concerned."""
        return [Send(message.connpoint, [message])]

    def _to_matcher_of(self, subscription_id: str, message: Subscribe | Unsubscribe) -> list[Send]:
        selector = self._current(message.epoch)
        return [] if selector is None else [Send(selector.matcher_of(subscription_id), [message])]

    def _current(self, epoch: int) -> BroadcastSelector | None:
        if self._selector is None or self._selector.epoch != epoch:
            self.stale += 1
            return None
        return self._selector
