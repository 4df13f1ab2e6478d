"""The access point: sends publications to the matchers that must see them, subscriptions to the one that keeps them.

It holds no state of its own besides the configuration and what matchers tell it of their anchors (`routes.py`), so a
restarted access point is as good as the old one. Whatever
epoch a connection point knows, what goes on from here is of the epoch that this access point has: so the cut of a
scaling lies at one place in each of its links. What a scaling makes it keep back or hold is in `scaling.py`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from braid.keeping import keepers_of
from braid.messages import (
    Anchors,
    AnchorsKnown,
    Explain,
    Explained,
    FindPublications,
    FindSubscriptions,
    MatchRequest,
    Publications,
    PublicationsFound,
    Send,
    Subscribe,
    SubscriptionGone,
    SubscriptionRemoved,
    SubscriptionsFound,
    SubscriptionStored,
    Unsubscribe,
)
from braid.selector import Selector, selector_of
from braid.topology import Configuration
from services.accesspoint.scaling import AccessPointScaling, Effects

if TYPE_CHECKING:
    from services.accesspoint.routes import Places, Routes


class AccessPointCore:
    def __init__(self, name: str, clock_ns: Callable[[], int], *, keeps_publications: bool = False) -> None:
        self._name = name
        self._clock_ns = clock_ns  # only stamps the hops of traced publications
        self._keeps_publications = keeps_publications
        self._selector: Selector | None = None
        self._keepers: list[str] = []  # whoever may keep publications: while a scaling runs, old and new matchers
        self._senders: dict[int, list[str]] = {}  # by epoch, the access points that may send publications in it
        self.routes: Routes | None = None  # until the first anchors come; until then everything goes to everybody
        self.scaling = AccessPointScaling(name, self._on_in_force, self._release, self._flush)
        self.stale = 0  # came before any configuration, or when this access point had left
        # For telemetry: batches that are sent on, with when they came; the routes that publications took.
        self.on_routed: Callable[[list[tuple[Publications, int]]], None] | None = None
        self.on_anchors_hit: Callable[[list[list[str]]], None] | None = None

    def on_configuration(self, configuration: Configuration, now_s: float) -> Effects:
        self._keepers = configuration.union("matcher")
        # Those that leave send what they held at the cut in the new epoch.
        self._senders = {configuration.epoch: [*configuration.accesspoints]}
        if configuration.change is not None:
            self._senders[configuration.change.to.epoch] = configuration.union("accesspoint")
        if self.routes is not None:
            self.routes.keep(self._keepers)
        return self.scaling.on_configuration(configuration, now_s)

    def on_matcher_up(self, matcher: str) -> list[Send]:
        return self.scaling.on_matcher_up(matcher)

    def on_anchors(self, matcher: str, message: Anchors) -> list[Send]:
        """Routed by from now on, so that the matcher may acknowledge what it keeps under them."""
        if self.routes is None:
            from services.accesspoint.routes import Routes  # brings the matching engine

            self.routes = Routes(self.on_anchors_hit)
        is_known = self.routes.on_anchors(matcher, message)
        return [Send(matcher, [AnchorsKnown(0, message.part)])] if is_known else []

    def on_publications(self, batch: list[Publications], now_s: float, arrived_ns: int) -> list[Send]:
        if self.scaling.holds:
            self.scaling.buffers.hold(batch, now_s, arrived_ns)
            return []
        selector = self._selector
        if selector is None or self.scaling.has_left:
            self.stale += len(batch)
            return []
        return self._requests(selector, [(message, arrived_ns) for message in batch], now_s)

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

    def on_find_publications(self, message: FindPublications) -> list[Send]:
        """Each matcher waits until it has come through all access points that may send in the epoch.

        Also through one that has left: what it sent before is there when the question is.
        """
        selector = self._selector
        if selector is None:
            self.stale += 1
            return []
        accesspoints = self._senders[selector.epoch]
        question = replace(message, epoch=selector.epoch, accesspoints=accesspoints, asked=self._keepers)
        return [Send(matcher, [question]) for matcher in self._keepers]

    def on_answer(
        self,
        message: SubscriptionStored
        | SubscriptionRemoved
        | SubscriptionsFound
        | SubscriptionGone
        | Explained
        | PublicationsFound,
    ) -> list[Send]:
        """What a matcher has to say goes to the connection point concerned."""
        return [Send(message.connpoint, [message])]

    def _requests(self, selector: Selector, batch: list[tuple[Publications, int]], now_s: float) -> list[Send]:
        if self.on_routed is not None:
            self.on_routed(batch)
        if selector.routing == "broadcast" or self.routes is None:
            requests = [
                self._request(selector, message, message.contents, arrived_ns, places=None, asked=None)
                for message, arrived_ns in batch
            ]
            return [Send(matcher, requests) for matcher in selector.matchers]
        by_matcher: dict[str, list[MatchRequest]] = {}
        all_routed = self.routes.route([message.contents for message, _ in batch], selector.matchers, now_s)
        for (message, arrived_ns), routed in zip(batch, all_routed, strict=True):
            if self._keeps_publications:
                _add_places(routed, keepers_of(selector, message.origin, message.sequence, message.contents))
            elif not routed:  # somebody has to answer, or the exit point would wait for ever
                routed[selector.matchers[message.publisher % len(selector.matchers)]] = []
            asked = sorted(routed)
            for matcher, places in routed.items():
                is_all = len(places) == len(message.contents)
                contents = message.contents if is_all else [message.contents[place] for place in places]
                request = self._request(
                    selector, message, contents, arrived_ns, places=None if is_all else places, asked=asked
                )
                by_matcher.setdefault(matcher, []).append(request)
        return [Send(matcher, requests) for matcher, requests in by_matcher.items()]

    def _request(
        self,
        selector: Selector,
        message: Publications,
        contents: list[bytes],
        arrived_ns: int,
        *,
        places: list[int] | None,
        asked: list[str] | None,
    ) -> MatchRequest:
        return MatchRequest(
            selector.epoch,
            message.origin,
            message.sequence,
            message.previous,
            message.watermark,
            message.publisher,
            message.published_s,
            len(selector.matchers if asked is None else asked),
            contents,
            None if message.hops is None else [*message.hops, (self._name, arrived_ns, self._clock_ns())],
            places,
            asked,
            message.attempt,
            None if places is None else len(message.contents),
        )

    def _change(self, message: Subscribe | Unsubscribe, now_s: float) -> list[Send]:
        if self.scaling.keeps_back:
            self.scaling.buffers.keep_back(message, now_s)
            return []
        selector = self._selector
        if selector is None or self.scaling.has_left:
            self.stale += 1
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
        self._selector = None if configuration is None else selector_of(configuration)

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
        if selector is None:  # it was to be taken in, and is not
            self.stale += len(held)
            return []
        return self._requests(selector, held, now_s) if held else []


def _add_places(routed: "Places", kept: "Places") -> None:
    for matcher, places in kept.items():
        known = routed.get(matcher)
        routed[matcher] = places if not known else sorted({*known, *places})
