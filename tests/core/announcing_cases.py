"""A matcher that announces its anchors, access points that learn them, and the links between."""

import random
from collections import Counter, deque

from braid.anchors import text_of
from braid.messages import Anchors, AnchorsKnown, Send
from braid.subscription import SubscriptionRecord
from services.accesspoint.routes import Routes
from services.matcher.holdings import Holdings
from tests.core.matching_cases import record

MATCHER = "matcher-1"
ACCESSPOINTS = ("accesspoint-1", "accesspoint-2", "accesspoint-3")


def numbered(id: str, number: int) -> SubscriptionRecord:
    """Its anchor is `filter:n = …`."""
    return record(id, f"n = {number} and x > 1")


def anchor(number: int) -> str:
    return f"filter:n = {number}"


class Linked:
    """Everything that is sent is under way until it is delivered, in order; what is under way is lost with its link."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.holdings = Holdings()
        self.announcing = self.holdings.announcing
        self.records: dict[str, SubscriptionRecord] = {}  # the oracle
        self.routes = {name: Routes() for name in ACCESSPOINTS}
        self.to: dict[str, deque[Anchors]] = {name: deque() for name in ACCESSPOINTS}
        self.back: dict[str, deque[AnchorsKnown]] = {name: deque() for name in ACCESSPOINTS}
        self.awaited: list[str] = []
        self.up: set[str] = set()

    # The matcher

    def configure(self, *, is_on: bool, accesspoints: list[str]) -> None:
        self.awaited = accesspoints
        self.send(self.announcing.on_configured(is_on=is_on, accesspoints=accesspoints))

    def put(self, given: SubscriptionRecord) -> None:
        self.holdings.put(given)
        self.records[given.id] = given
        self.send(self.announcing.changes())

    def put_several(self, several: list[SubscriptionRecord]) -> None:
        """As they come from another matcher."""
        self.holdings.put_arrived(several)
        self.records |= {given.id: given for given in several}
        self.send(self.announcing.changes())

    def remove(self, id: str) -> None:
        assert self.holdings.remove(id, []) == self.records.pop(id, None)
        self.send(self.announcing.changes())

    def go_on(self) -> None:
        self.send(self.announcing.on_continue())

    def send(self, sends: list[Send]) -> None:
        for send in sends:
            self.to[send.to].extend(send.messages)

    # The links

    def link(self, accesspoint: str) -> None:
        """Perhaps again: what was under way is lost."""
        self.to[accesspoint].clear()
        self.back[accesspoint].clear()
        self.up.add(accesspoint)
        self.send(self.announcing.on_accesspoint_up(accesspoint))

    def deliver_to(self, accesspoint: str) -> None:
        if self.to[accesspoint]:
            message = self.to[accesspoint].popleft()
            if self.routes[accesspoint].on_anchors(MATCHER, message):
                self.back[accesspoint].append(AnchorsKnown(0, message.part))

    def deliver_back(self, accesspoint: str) -> None:
        if self.back[accesspoint]:
            sends, _ = self.announcing.on_known(accesspoint, self.back[accesspoint].popleft())
            self.send(sends)

    def deliver_all(self) -> None:
        while self.announcing.wants_to_go_on:
            self.go_on()
        while any(self.to.values()) or any(self.back.values()):
            for name in ACCESSPOINTS:
                self.deliver_to(name)
                self.deliver_back(name)

    # What must hold

    @property
    def counts(self) -> Counter[str]:
        return Counter(map(text_of, self.records.values()))

    @property
    def counted(self) -> dict[str, int]:
        """By the matcher."""
        return {text: count for page in self.announcing._counts._pages.values() for text, count in page.items()}

    def check_nothing_is_missed(self) -> None:
        """What may be acknowledged is found: each access point knows its anchor, or sends everything."""
        if not self.announcing.is_on:
            return
        for text in self.counted:
            if self.announcing.is_known(text):
                for name in self.awaited:
                    known = self.routes[name].anchors_of(MATCHER)
                    assert known is None or text in known
        if self.announcing.is_told:
            assert self.counted == self.counts
            assert all(self.routes[name].knows(MATCHER) for name in self.awaited)

    def check_all_is_known(self) -> None:
        assert self.counted == self.counts
        assert self.announcing.anchors == len(self.counts)
        assert self.announcing.is_told
        assert all(map(self.announcing.is_known, self.counts))
        for name in self.awaited:
            while self.routes[name]._listed[MATCHER].refuse:
                self.routes[name].clean()
            assert self.routes[name].anchors_of(MATCHER) == set(self.counts)
            assert self.routes[name].anchors == len(self.counts)
