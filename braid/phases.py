"""From the configuration, as a slice sees it in ZooKeeper, to events of the machine of its layer.

A slice may miss phases: it sees the newest configuration, not every one. So each phase is an event that every state
understands, and whatever an earlier phase would have done is done then.
"""

import msgspec

from braid.topology import REVERSIBLE, Change, Configuration, Layer, Phase


class Settled(msgspec.Struct, frozen=True):
    """No scaling is under way: the last one is over, however it ended."""

    configuration: Configuration


class Copying(msgspec.Struct, frozen=True):
    configuration: Configuration


class Moving(msgspec.Struct, frozen=True):
    configuration: Configuration


class Changing(msgspec.Struct, frozen=True):
    configuration: Configuration


class Flushing(msgspec.Struct, frozen=True):
    configuration: Configuration


class Ending(msgspec.Struct, frozen=True):
    configuration: Configuration


PhaseEvent = Settled | Copying | Moving | Changing | Flushing | Ending
_EVENTS: dict[Phase, type[Copying | Moving | Changing | Flushing | Ending]] = {
    "copying": Copying,
    "moving": Moving,
    "changing": Changing,
    "flushing": Flushing,
    "ending": Ending,
}


def phase_events(name: str, layer: Layer, known: Change | None, configuration: Configuration) -> list[PhaseEvent]:
    """`known` is the change that the slice took notice of last. One that it has no part in is none for it."""
    events: list[PhaseEvent] = []
    change = configuration.change if name in configuration.union(layer) else None
    is_over = known is not None and (change is None or change.id != known.id)  # perhaps its end was never seen
    begins = known is None and (change is None or change.phase in REVERSIBLE)
    if is_over or begins:
        # Behind the point of no return, what was in force before is of no interest to whoever begins there.
        settled: Configuration = msgspec.structs.replace(configuration, change=None)
        events.append(Settled(settled))
    if change is not None:
        events.append(_EVENTS[change.phase](configuration))
    return events
