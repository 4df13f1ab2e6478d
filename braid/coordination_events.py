"""What coordination through ZooKeeper tells its process: events in the order they happened, and errors."""

from collections.abc import Mapping

import msgspec

from braid.scaling import Progress, Report, ScalingRecord
from braid.topology import Configuration, Registration


class SessionSuspended(msgspec.Struct, frozen=True):
    """The connection is gone, the session may live on: what is known may be old."""


class SessionRestored(msgspec.Struct, frozen=True):
    """Connected again, the same session: everything of ours is still there."""


class SessionExpired(msgspec.Struct, frozen=True):
    """ZooKeeper forgot us: our registration is gone. It comes back by itself, and `Registered` says when."""


class Registered(msgspec.Struct, frozen=True):
    """Our registration stands; once per session."""

    registration: Registration


class RegistrationRefused(msgspec.Struct, frozen=True):
    """After the session expired, another process took our name. This one should stop."""

    reason: str


class SlicesChanged(msgspec.Struct, frozen=True):
    """Every registered slice of every layer, by name."""

    slices: Mapping[str, Registration]


class ConfigurationChanged(msgspec.Struct, frozen=True):
    configuration: Configuration | None


class Elected(msgspec.Struct, frozen=True):
    """This process leads, until `Deposed`."""


class Deposed(msgspec.Struct, frozen=True):
    """This process no longer leads, or cannot know it: it comes before `SessionSuspended` too."""


class ScalingChanged(msgspec.Struct, frozen=True):
    """The scaling that is under way, or None. Told to those who follow scalings."""

    record: ScalingRecord | None


class ReportsChanged(msgspec.Struct, frozen=True):
    """All reports and the progress of the change under way. Told to those who follow scalings."""

    change: str
    reports: tuple[Report, ...]
    progress: tuple[Progress, ...]


Event = (
    SessionSuspended
    | SessionRestored
    | SessionExpired
    | Registered
    | RegistrationRefused
    | SlicesChanged
    | ConfigurationChanged
    | Elected
    | Deposed
    | ScalingChanged
    | ReportsChanged
)


class CoordinationUnavailable(Exception):
    """ZooKeeper does not answer. A write that ends so may or may not have happened: read, then decide again."""


class NameTaken(Exception):
    """Another process is registered under the same name."""


class StaleVersion(Exception):
    """The configuration is no longer the one that was read."""


class NotLeading(Exception):
    """A candidate that does not lead tried to write."""


class ScalingUnderWay(Exception):
    """Another scaling runs; `id` is its name."""

    def __init__(self, id: str) -> None:
        super().__init__(f"the scaling {id} is under way")
        self.id = id


class CorruptConfiguration(Exception):
    """The stored configuration cannot be read; nothing is guessed from it and nothing is written over it."""
