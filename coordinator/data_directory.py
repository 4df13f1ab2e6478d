"""The directory of all state on this machine: who uses it, for which cluster it was made, and how to reach that."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from braid.config import Slices
from braid.topology import CONFIGURED_LAYERS


class DataDirectoryRefused(Exception):
    """The directory cannot be used now; the message says what to do."""


class DataDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def zookeeper(self) -> Path:
        return self.path / "zookeeper"

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One launcher at a time. The kernel lets go of the lock when its owner ends, however it ends."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / "launcher.lock").open("a")
        except OSError as error:
            raise DataDirectoryRefused(
                f"cannot write to the data directory {self.path}: {error.strerror}; choose another with --data"
            ) from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataDirectoryRefused(self._describe_owner()) from None
            try:
                yield
            finally:
                self._cluster_file.unlink(missing_ok=True)

    def check_shape(self, slices: Slices) -> None:
        """Subscriptions were placed for so many matchers; starting with another number would lose some of them."""
        asked = _shape(slices)
        try:
            made_for = json.loads(self._shape_file.read_text())
        except FileNotFoundError:
            return
        except ValueError:
            raise DataDirectoryRefused(
                f"{self._shape_file} cannot be read; restore it or choose another --data"
            ) from None
        if made_for != asked:
            shown = ",".join(f"{layer}={number}" for layer, number in made_for.items())
            wanted = ",".join(f"{layer}={number}" for layer, number in asked.items())
            raise DataDirectoryRefused(
                f"the data in {self.path} was made for {shown}, and {wanted} is asked. "
                f"Start it with --slices {shown}, or choose another --data directory, "
                f"or remove {self.path} if its subscriptions are not needed any more"
            )

    def keep_shape(self, slices: Slices) -> None:
        """Called when the slices are about to write their first data, so that a start that failed binds nobody."""
        _write_atomically(self._shape_file, _shape(slices))

    def write_cluster(self, cluster: Mapping[str, Any]) -> None:
        _write_atomically(self._cluster_file, cluster)

    @property
    def _shape_file(self) -> Path:
        return self.path / "shape.json"

    @property
    def _cluster_file(self) -> Path:
        return self.path / "cluster.json"

    def _describe_owner(self) -> str:
        try:
            cluster = json.loads(self._cluster_file.read_text())
            where = f" (process {cluster['pid']}, API {', '.join(cluster['api']) or 'not up yet'})"
        except (OSError, ValueError, KeyError):
            where = ""
        return (
            f"a cluster runs on the data directory {self.path} already{where}. "
            "Stop it with 'braid down', or choose another directory with --data"
        )


def _shape(slices: Slices) -> dict[str, int]:
    return {layer: getattr(slices, layer) for layer in CONFIGURED_LAYERS}


def _write_atomically(file: Path, content: Mapping[str, Any]) -> None:
    """A reader finds the old content or the new one, never a part."""
    aside = file.with_name(f"{file.name}.new")
    aside.write_text(json.dumps(content, indent=2) + "\n")
    os.replace(aside, file)
