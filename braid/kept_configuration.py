"""The configuration that a matcher followed last, in a file beside its subscriptions.

Where subscriptions lie follows from the configuration, and that stands in ZooKeeper alone. When ZooKeeper has lost it,
the next coordinator writes a first one from the settings; a matcher that this one does not name would never be asked
again for what it holds, and nobody would be told. So each matcher keeps what it followed, refuses whatever contradicts
that, and `coordinator.restoring` puts it back.

A change under way is not kept, only what is in force: whoever loses ZooKeeper in the middle of a scaling finds it
either given up or ended.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import structlog

from braid import znodes
from braid.anchor_map import AnchorMap
from braid.topology import Configuration

log = structlog.get_logger()

FILE = "configuration.json"
REFUSED = os.EX_CONFIG  # the exit code of a slice that refuses the configuration: starting it again does not help


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    configuration: msgspec.Raw  # as it stands in ZooKeeper
    maps: dict[str, bytes]  # that it names


class UnreadableConfiguration(Exception):
    """The file is there, and holds something else."""


def settled(configuration: Configuration) -> Configuration:
    """What is in force, with the highest number that was used."""
    change = configuration.change
    number = max(configuration.epoch, configuration.epochs, 0 if change is None else change.to.epoch)
    return msgspec.structs.replace(configuration.in_force(), epochs=number)


def contradiction(kept: Configuration, found: Configuration) -> str:
    """Why what was found cannot follow what was kept; empty when it can. Both are settled."""
    if found.epoch < kept.epoch:
        return f"it has epoch {found.epoch}, and epoch {kept.epoch} was in force already"
    if found.epoch == kept.epoch and _layout(found) != _layout(kept):
        return f"it says of epoch {found.epoch} something else than was in force"
    return ""


def newest(found: Iterable[Configuration]) -> Configuration | None:
    return max(found, key=lambda each: (each.epoch, each.epochs), default=None)


def read(file: Path) -> Configuration | None:
    """None when nothing is kept there. Raises `UnreadableConfiguration`."""
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=_Kept)
        maps = {version: AnchorMap.decode(payload) for version, payload in kept.maps.items()}
        return znodes.decode_configuration(bytes(kept.configuration), maps)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UnreadableConfiguration(f"{file}: {error}") from None


def write(file: Path, configuration: Configuration) -> None:
    """A reader finds the old content or the new one, never a part."""
    maps = {} if configuration.map is None else {configuration.map.version: configuration.map.encode()}
    aside = file.with_name(f"{file.name}.new")
    aside.write_bytes(msgspec.json.encode(_Kept(msgspec.Raw(znodes.encode(configuration)), maps)))
    os.replace(aside, file)


class Following:
    """What one matcher follows, and what it refuses."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._kept: Configuration | None = None

    def open(self) -> None:
        """A file that a power failure has left in pieces refuses nothing, and is written anew."""
        try:
            self._kept = read(self._file)
        except UnreadableConfiguration as error:
            what = "the kept configuration cannot be read, and is not held against that in ZooKeeper"
            log.error(what, reason=str(error))

    def objection(self, configuration: Configuration) -> str:
        return "" if self._kept is None else contradiction(self._kept, settled(configuration))

    def follow(self, configuration: Configuration) -> None:
        """Writes it down, unless it is known already. Where that fails it is tried again with the next one: it is
        needed only when ZooKeeper loses its own.
        """
        configuration = settled(configuration)
        if configuration != self._kept:
            try:
                write(self._file, configuration)
            except OSError as error:
                log.error("the configuration cannot be kept on disk", reason=str(error))
            else:
                self._kept = configuration


def _layout(configuration: Configuration) -> tuple[object, ...]:
    """What decides at which matcher a subscription lies."""
    map = configuration.map
    return configuration.matchers, configuration.routing, None if map is None else map.version
