"""What the coordinator's core is told, and what it wants done. The shell carries one to the other."""

from collections.abc import Mapping
from typing import Any

import msgspec

from braid.anchor_map import AnchorMap
from braid.coordination_events import Deposed, Elected, ReportsChanged, ScalingChanged, SlicesChanged
from braid.scaling import Report, ScalingRecord
from braid.topology import Configuration


class ConfigurationRead(msgspec.Struct, frozen=True):
    """The answer to `ReadConfiguration`: everything on which a leader goes on, as it stood after the question."""

    attempt: int
    configuration: Configuration | None
    version: int
    record: ScalingRecord | None = None  # of the scaling under way
    reports: tuple[Report, ...] = ()  # of the change that the configuration names
    map: AnchorMap | None = None  # that the record asks for, if it does


class ConfigurationWritten(msgspec.Struct, frozen=True):
    """The answer to `WriteConfiguration`; the record stands too."""

    attempt: int
    configuration: Configuration
    version: int


class RecordWritten(msgspec.Struct, frozen=True):
    """The answer to `WriteRecord`."""

    attempt: int
    record: ScalingRecord


class AttemptFailed(msgspec.Struct, frozen=True):
    """The other answer to all three: refused, or nobody knows."""

    attempt: int
    reason: str


class Tick(msgspec.Struct, frozen=True):
    """Time passes; about once a second, and ten times as often while a scaling runs."""


class ReadConfiguration(msgspec.Struct, frozen=True):
    """Read configuration, record, reports and the map asked for, then feed `ConfigurationRead` or `AttemptFailed`."""

    attempt: int


class WriteConfiguration(msgspec.Struct, frozen=True):
    """Write if the version is still this one, then feed `ConfigurationWritten` or `AttemptFailed`.

    The record is written in the same transaction: both or neither. One that is not running any more goes to those
    that have ended.
    """

    attempt: int
    configuration: Configuration
    expected_version: int
    record: ScalingRecord | None = None


class WriteRecord(msgspec.Struct, frozen=True):
    """Write the record alone, then feed `RecordWritten` or `AttemptFailed`."""

    attempt: int
    record: ScalingRecord


class Sweep(msgspec.Struct, frozen=True):
    """Remove the reports of every change but this one, the oldest records, and maps that nobody names.

    No answer; the next one repeats it.
    """

    keep: str | None


class Inform(msgspec.Struct, frozen=True):
    """A line for the log."""

    message: str
    fields: Mapping[str, Any]
    warning: bool = False


Answer = ConfigurationRead | ConfigurationWritten | RecordWritten | AttemptFailed
Event = Elected | Deposed | SlicesChanged | ScalingChanged | ReportsChanged | Answer | Tick
Effect = ReadConfiguration | WriteConfiguration | WriteRecord | Sweep | Inform
Effects = list[Effect]
