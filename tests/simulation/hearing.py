"""What a process must have heard before it says how far a scaling is, kept apart from the cores: one of these may be
wrong about it, and then what it counts of orders that are broken is wrong too.
"""

from typing import Any

from braid.messages import (
    ChangeMatcher,
    ChangeMatcherOnExitPoint,
    ExitPointScaling,
    ScaleEnd,
    StartScale,
)
from braid.scaling import Step
from braid.topology import Configuration

_GONE_ON = ("flushing", "ending")  # the coordinator has: nobody waits for cuts any longer
_WORDS = (StartScale, ChangeMatcherOnExitPoint, ExitPointScaling, ChangeMatcher, ScaleEnd)

Word = tuple[type[Any], int, str, str]  # with the epoch that it leads to, from whom, and through whom


class Hearing:
    """Of one process, since it started."""

    def __init__(self) -> None:
        self.configuration: Configuration | None = None
        self._heard: set[Word] = set()

    def note(self, sender: str, message: Any) -> None:
        if isinstance(message, ChangeMatcherOnExitPoint):
            self._heard.add((type(message), message.epoch, message.accesspoint, sender))
        elif isinstance(message, _WORDS):
            self._heard.add((type(message), message.epoch, sender, ""))

    def missing(self, layer: str, step: Step) -> list[str]:
        """What somebody of this layer has not heard and says nevertheless that it is so far."""
        configuration = self.configuration
        assert configuration is not None
        return sorted(
            f"{kind.__name__} of {by} {through}".strip()
            for kind, epoch, by, through in _due(configuration, layer, step) - self._heard
        )


def _due(configuration: Configuration, layer: str, step: Step) -> set[Word]:
    change = configuration.change
    assert change is not None
    epoch, accesspoints = change.to.epoch, configuration.union("accesspoint")
    match layer, step:
        case "matcher", "change-ready":
            return {(StartScale, epoch, one, "") for one in configuration.accesspoints}
        case "matcher", "done" if change.phase not in _GONE_ON:
            return {(kind, epoch, one, "") for kind in (ExitPointScaling, ChangeMatcher) for one in accesspoints}
        case "matcher", "drained":
            return {(ScaleEnd, epoch, one, "") for one in accesspoints}
        case "exitpoint", "exit-point-matcher-updated" if change.phase not in _GONE_ON:
            pairs = ((one, matcher) for one in accesspoints for matcher in configuration.matchers)
            return {(ChangeMatcherOnExitPoint, epoch, one, matcher) for one, matcher in pairs}
        case _:
            return set()
