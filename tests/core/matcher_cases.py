"""What the tests of the matcher share: a matcher with subscriptions, and short ways to ask it."""

from typing import Any

from braid.content import Content, encode_content
from braid.messages import MatchRequest, Send, Subscribe
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from services.matcher.core import MatcherCore
from services.matcher.effects import Effects

CONFIGURATION = Configuration(1, ("accesspoint-1",), ("matcher-1", "matcher-2"), ("exitpoint-1", "exitpoint-2"))
NOW = 1000.0


def record(id: str, filter: str = "", **changes: Any) -> SubscriptionRecord:
    """As the matcher below stores it."""
    given: dict[str, Any] = {"subscriber": "anna", "home": "connpoint-1", "created_s": 0.0, "given_from_s": 999 / 1e9}
    return SubscriptionRecord(id=id, filter=filter, **(given | changes))


def matcher(*records: SubscriptionRecord, clock_ns: int = 999) -> MatcherCore:
    core = MatcherCore("matcher-1", lambda: clock_ns)
    core.on_recovered(records)
    core.on_configuration(CONFIGURATION)
    return core


def content(**attributes: Any) -> bytes:
    return encode_content(Content(attributes=attributes))


def request(sequence: int, *contents: bytes, publisher: int = 0, epoch: int = 1, hops: Any = None) -> MatchRequest:
    return MatchRequest(epoch, "connpoint-1.a", sequence, sequence - 1, 0, publisher, 1.5, 2, list(contents), hops)


def match(core: MatcherCore, *requests: MatchRequest) -> Effects:
    return core.on_match_requests(list(requests), NOW, 7)


def matched(core: MatcherCore, *contents: bytes) -> dict[str, list[Any]]:
    ((message,),) = [send.messages for send in sent(match(core, request(1, *contents)))]
    return dict(message.matched)


def sent(effects: Effects) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send)]


def subscribe(core: MatcherCore, given: SubscriptionRecord, epoch: int = 1, ref: int = 3) -> list[Any]:
    return core.on_subscribe("accesspoint-1", Subscribe(epoch, ref, "connpoint-1", given))
