"""The directory of all state on this machine: who uses it, for which cluster it was made, and how to reach that."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coordinator.shape import Shape, decode


class DataDirectoryRefused(Exception):
    """The directory cannot be used now; the message says what to do."""


class DataDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._kept: Shape | None = None

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

    def read_shape(self) -> Shape | None:
        """The slices that this data belongs to; None before there is any."""
        try:
            return decode(self._shape_file.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise DataDirectoryRefused(
                f"{self._shape_file} cannot be read ({error}); restore it or choose another --data"
            ) from None

    def keep_shape(self, shape: Shape) -> None:
        """Called when the slices are about to write their first data, so that a start that failed binds nobody."""
        if shape != self._kept:
            _write_atomically(self._shape_file, shape)
            self._kept = shape

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


def _write_atomically(file: Path, content: Mapping[Any, Any]) -> None:
    """A reader finds the old content or the new one, never a part."""
    aside = file.with_name(f"{file.name}.new")
    aside.write_text(json.dumps(content, indent=2) + "\n")
    os.replace(aside, file)
