"""What the leading coordinator decides. Pure: events in, effects out.

Purpose: write the first configuration when every desired slice is there, and never touch one that exists. The number
of matchers is part of where subscriptions are placed, so another number is a scaling, not a new configuration.

States
    standby     another coordinator leads, or the connection is lost
    reading     elected; the stored configuration is not known yet
    gathering   there is no configuration; waits for the desired slices
    writing     the first configuration is on its way
    settled     a configuration is in force

Invariants: effects that touch ZooKeeper come only while leading, one at a time; a configuration is written only over
the version that was read; after a write whose end is not known everything is read again.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from braid.config import Slices
from braid.coordination import Deposed, Elected, SlicesChanged
from braid.topology import CONFIGURED_LAYERS, Configuration, Layer, Registration, slice_name

REMIND_S = 10.0  # how often a wait is mentioned
RETRY_S = 1.0


class State(enum.Enum):
    STANDBY = "standby"
    READING = "reading"
    GATHERING = "gathering"
    WRITING = "writing"
    SETTLED = "settled"


class ConfigurationRead(msgspec.Struct, frozen=True):
    """The answer to `ReadConfiguration`."""

    attempt: int
    configuration: Configuration | None
    version: int


class ConfigurationWritten(msgspec.Struct, frozen=True):
    """The answer to `WriteConfiguration`."""

    attempt: int
    configuration: Configuration


class AttemptFailed(msgspec.Struct, frozen=True):
    """The other answer to both: refused, or nobody knows."""

    attempt: int
    reason: str


class Tick(msgspec.Struct, frozen=True):
    """Time passes; about once a second."""


class ReadConfiguration(msgspec.Struct, frozen=True):
    """Read from ZooKeeper, then feed `ConfigurationRead` or `AttemptFailed` with the same attempt."""

    attempt: int


class WriteConfiguration(msgspec.Struct, frozen=True):
    """Write if the version is still this one, then feed `ConfigurationWritten` or `AttemptFailed`."""

    attempt: int
    configuration: Configuration
    expected_version: int


class Inform(msgspec.Struct, frozen=True):
    """A line for the log."""

    message: str
    fields: Mapping[str, Any]
    warning: bool = False


Answer = ConfigurationRead | ConfigurationWritten | AttemptFailed
Event = Elected | Deposed | SlicesChanged | Answer | Tick
Effect = ReadConfiguration | WriteConfiguration | Inform
Effects = list[Effect]


class IllegalEvent(Exception):
    """An event that cannot happen in this state: a mistake of ours."""


class Coordinator:
    """One per process; decides only while it leads."""

    def __init__(self, desired: Slices) -> None:
        self.state = State.STANDBY
        self._desired = desired_names(desired)
        self._slices: Mapping[str, Registration] = {}
        self._attempt = 0  # counts reads and writes; an answer to an earlier one says nothing any more
        self._version: int | None = None
        self._read_at: float | None = None  # a failed attempt is repeated then
        self._remind_at = 0.0

    def on_event(self, event: Event, now: float) -> Effects:
        if isinstance(event, Answer) and event.attempt != self._attempt:
            return []
        handler = TRANSITIONS.get((self.state, type(event)))
        if handler is None:
            raise IllegalEvent(f"{event} while {self.state.value}")
        return handler(self, event, now)

    def on_elected(self, _event: Elected, _now: float) -> Effects:
        return [Inform("leading", {}), self._read()]

    def on_deposed(self, _event: Deposed, _now: float) -> Effects:
        self.state, self._read_at = State.STANDBY, None
        self._attempt += 1
        return [Inform("no longer leading", {})]

    def on_slices_changed(self, event: SlicesChanged, now: float) -> Effects:
        self._slices = event.slices
        return self._write_when_complete(now) if self.state is State.GATHERING else []

    def on_configuration_read(self, event: ConfigurationRead, now: float) -> Effects:
        if event.configuration is not None:
            return self._settle(event.configuration)
        self.state, self._version, self._remind_at = State.GATHERING, event.version, now
        return self._write_when_complete(now)

    def on_configuration_written(self, event: ConfigurationWritten, _now: float) -> Effects:
        return self._settle(event.configuration)

    def on_attempt_failed(self, event: AttemptFailed, now: float) -> Effects:
        self.state, self._read_at = State.READING, now + RETRY_S
        return [Inform("will read the configuration again", {"reason": event.reason}, warning=True)]

    def on_tick(self, _event: Tick, now: float) -> Effects:
        if self._read_at is not None and now >= self._read_at:
            return [self._read()]
        return self._write_when_complete(now) if self.state is State.GATHERING else []

    def _read(self) -> ReadConfiguration:
        self.state, self._version, self._read_at = State.READING, None, None
        self._attempt += 1
        return ReadConfiguration(self._attempt)

    def _settle(self, configuration: Configuration) -> Effects:
        self.state = State.SETTLED
        effects: Effects = [Inform("configuration in force", {"epoch": configuration.epoch})]
        for layer in CONFIGURED_LAYERS:
            configured, desired = configuration.of_layer(layer), self._desired[layer]
            if configured != desired:
                what = "the stored configuration stays in force, although other slices are desired"
                fields = {"layer": layer, "configured": configured, "desired": desired}
                effects.append(Inform(what, fields, warning=True))
        return effects

    def _write_when_complete(self, now: float) -> Effects:
        missing = [name for layer in CONFIGURED_LAYERS for name in self._desired[layer] if name not in self._slices]
        if missing:
            if now < self._remind_at:
                return []
            self._remind_at = now + REMIND_S
            return [Inform("waiting for slices", {"missing": missing})]
        assert self._version is not None, "gathering begins with a read"
        self.state = State.WRITING
        self._attempt += 1
        first = Configuration(
            epoch=1,
            accesspoints=self._desired["accesspoint"],
            matchers=self._desired["matcher"],
            exitpoints=self._desired["exitpoint"],
        )
        return [WriteConfiguration(self._attempt, first, self._version)]


def desired_names(slices: Slices) -> dict[Layer, tuple[str, ...]]:
    """{"matcher": ("matcher-1", "matcher-2"), …} for the layers that a configuration lists."""
    return {
        layer: tuple(slice_name(layer, number) for number in range(1, getattr(slices, layer) + 1))
        for layer in CONFIGURED_LAYERS
    }


_LEADING = (State.READING, State.GATHERING, State.WRITING, State.SETTLED)

# Everything that may happen; what is not listed is a mistake.
TRANSITIONS: dict[tuple[State, type], Callable[..., Effects]] = {
    (State.STANDBY, Elected): Coordinator.on_elected,
    **{(state, Deposed): Coordinator.on_deposed for state in _LEADING},
    **{(state, SlicesChanged): Coordinator.on_slices_changed for state in State},
    **{(state, Tick): Coordinator.on_tick for state in State},
    (State.READING, ConfigurationRead): Coordinator.on_configuration_read,
    (State.WRITING, ConfigurationWritten): Coordinator.on_configuration_written,
    (State.READING, AttemptFailed): Coordinator.on_attempt_failed,
    (State.WRITING, AttemptFailed): Coordinator.on_attempt_failed,
}
