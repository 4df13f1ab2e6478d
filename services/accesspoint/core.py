"""The access point: sends publications to the matchers that must see them, subscriptions to the one that keeps them.

It holds no state of its own besides the configuration, so a restarted access point is as good as the old one. Whatever
epoch a connection point knows, what goes on from here is of the epoch that this access point has: so the cut of a
scaling lies at one place in each of its links. What a scaling makes it keep back or hold is in `scaling.py`.
"""

from collections.abc import Callable

from msgspec.structs import replace

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
from services.accesspoint.scaling import AccessPointScaling, Effects


class AccessPointCore:
    def __init__(self, name: str, clock_ns: Callable[[], int]) -> None:
        self._name = name
        self._clock_ns = clock_ns  # only stamps the hops of traced publications
        self._selector: BroadcastSelector | None = None
        self.scaling = AccessPointScaling(name, self._on_in_force, self._release, self._flush)
        self.stale = 0  # came before any configuration

    def on_configuration(self, configuration: Configuration, now_s: float) -> Effects:
        return self.scaling.on_configuration(configuration, now_s)

    def on_matcher_up(self, matcher: str) -> list[Send]:
        return self.scaling.on_matcher_up(matcher)

    def on_publications(self, batch: list[Publications], now_s: float, arrived_ns: int) -> list[Send]:
        selector = self._selector
        if selector is None:
            self.stale += len(batch)
            return []
        if self.scaling.holds:
            self.scaling.buffers.hold(batch, now_s, arrived_ns)
            return []
        requests = [self._request(selector, message, arrived_ns) for message in batch]
        return [Send(matcher, requests) for matcher in selector.matchers]

    def on_subscribe(self, message: Subscribe, now_s: float) -> list[Send]:
        return self._change(message, now_s)

    def on_unsubscribe(self, message: Unsubscribe, now_s: float) -> list[Send]:
        return self._change(message, now_s)

    def on_find_subscriptions(self, message: FindSubscriptions) -> list[Send]:
        selector = self._selector
        if selector is not None and message.id:
            asked = replace(message, epoch=selector.epoch, asked=1)
            return [Send(selector.matcher_of(message.id), [asked])]
        return self._to_all_matchers(message)

    def on_explain(self, message: Explain) -> list[Send]:
        return self._to_all_matchers(message)

    def on_answer(
        self,
        message: SubscriptionStored | SubscriptionRemoved | SubscriptionsFound | SubscriptionGone | Explained,
    ) -> list[Send]:
        """What a matcher has to say goes to the connection point concerned."""
        return [Send(message.connpoint, [message])]

    def _request(self, selector: BroadcastSelector, message: Publications, arrived_ns: int) -> MatchRequest:
        return MatchRequest(
            selector.epoch,
            message.origin,
            message.sequence,
            message.previous,
            message.watermark,
            message.publisher,
            len(selector.matchers),
            message.contents,
            None if message.hops is None else [*message.hops, (self._name, arrived_ns, self._clock_ns())],
        )

    def _change(self, message: Subscribe | Unsubscribe, now_s: float) -> list[Send]:
        selector = self._selector
        if selector is None:
            self.stale += 1
            return []
        if self.scaling.keeps_back:
            self.scaling.buffers.keep_back(message, now_s)
            return []
        id = message.record.id if isinstance(message, Subscribe) else message.id
        return [Send(selector.matcher_of(id), [replace(message, epoch=selector.epoch)])]

    def _to_all_matchers(self, message: FindSubscriptions | Explain) -> list[Send]:
        selector = self._selector
        if selector is None:
            self.stale += 1
            return []
        asked = replace(message, epoch=selector.epoch, asked=len(selector.matchers))
        return [Send(matcher, [asked]) for matcher in selector.matchers]

    # What the scaling asks for

    def _on_in_force(self, configuration: Configuration | None) -> None:
        """None: this access point has no part in the cluster, and forwards nothing."""
        self._selector = None if configuration is None else BroadcastSelector(configuration)

    def _release(self, now_s: float) -> list[Send]:
        """In the order of arrival to each matcher, under the epoch that is in force now."""
        by_matcher: dict[str, list[Subscribe | Unsubscribe]] = {}
        for call in self.scaling.buffers.take_kept_back(now_s):
            for send in self._change(call, now_s):
                by_matcher.setdefault(send.to, []).extend(send.messages)
        return [Send(matcher, calls) for matcher, calls in by_matcher.items()]

    def _flush(self, now_s: float) -> list[Send]:
        held = self.scaling.buffers.take_held(now_s)
        selector = self._selector
        if not held or selector is None:
            return []
        requests = [self._request(selector, message, arrived_ns) for message, arrived_ns in held]
        return [Send(matcher, requests) for matcher in selector.matchers]
