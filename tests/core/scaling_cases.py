"""What the tests of the layers' scalings share: one scaling from one matcher to two, phase by phase."""

from typing import Any

import msgspec

from braid.selector import BroadcastSelector
from braid.subscription import SubscriptionRecord
from braid.topology import Change, Configuration, Phase, Target

CHANGE = "scaling-1"
OLD_EPOCH, NEW_EPOCH = 4, 6  # 5 was used by a scaling that was given up
SETTLED = Configuration(
    OLD_EPOCH, ("accesspoint-1", "accesspoint-2"), ("matcher-1",), ("exitpoint-1",), epochs=NEW_EPOCH - 1
)
TARGET = Target(NEW_EPOCH, ("accesspoint-1", "accesspoint-2"), ("matcher-1", "matcher-2"), ("exitpoint-1",))
ENDED = Configuration(
    NEW_EPOCH, TARGET.accesspoints, TARGET.matchers, TARGET.exitpoints, TARGET.routing, epochs=NEW_EPOCH
)
GIVEN_UP = msgspec.structs.replace(SETTLED, epochs=NEW_EPOCH)


def during(phase: Phase, target: Target = TARGET, settled: Configuration = SETTLED) -> Configuration:
    """The same scaling in another phase."""
    return msgspec.structs.replace(settled, change=Change(CHANGE, phase, target, {}))


def to(**slices: tuple[str, ...]) -> Target:
    """Another target: `to(exitpoints=…)`."""
    return msgspec.structs.replace(TARGET, **slices)


def record(id: str, filter: str = "", **changes: Any) -> SubscriptionRecord:
    """As a matcher stores it whose time is 999 ns."""
    given: dict[str, Any] = {"subscriber": "anna", "home": "connpoint-1", "created_s": 0.0, "given_from_s": 999 / 1e9}
    return SubscriptionRecord(id=id, filter=filter, **(given | changes))


OLD, NEW = BroadcastSelector(SETTLED), BroadcastSelector(ENDED)
IDS = [f"s-{number}" for number in range(40)]
STAYING = [id for id in IDS if NEW.matcher_of(id) == "matcher-1"]
MOVING = [id for id in IDS if NEW.matcher_of(id) == "matcher-2"]
