"""The storages as targets of a measurement: simple subscriptions, and self-joining ones."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.storage.workloads import PAST_S, Operation
from services.matcher.storage.dual import DualDB
from services.matcher.storage.interface import Storage
from services.matcher.storage.records import Reach, StoredPublication, StoredSubscription
from services.matcher.storage.repeating import RepQueries
from services.matcher.storage.settings import StorageSettings
from services.matcher.storage.two import TwoDB

LAYOUTS = {"DualDB": DualDB, "TwoDB": TwoDB, "RepQueries": RepQueries}
_SETTINGS = StorageSettings(window_s=10, retention_s=60, retention_s_max=60, remember_s=0)
_ENTRIES_PER_TURN = 2_000


class StorageTarget:
    def __init__(self, layout: str, directory: Path, begin_s: float, *, self_join: bool, reach: Reach) -> None:
        self._storage: Storage = LAYOUTS[layout](directory, _SETTINGS, begin_s)
        self._directory = directory
        self._self_join = self_join
        self._reach = reach

    def subscribe(self, operation: Operation, lists: Sequence[bytes]) -> int:
        assert isinstance(operation.record, StoredSubscription)
        return len(self._storage.subscribe(operation.record, lists, operation.now_s, reach=self._reach))

    def publish(self, operation: Operation, lists: Sequence[bytes]) -> int:
        assert isinstance(operation.record, StoredPublication)
        previous_from_s = operation.now_s - PAST_S if self._self_join else None
        matched = self._storage.publish(
            operation.record, lists, operation.now_s, reach=self._reach, previous_from_s=previous_from_s
        )
        return len(matched.subscriptions)

    def due(self, now_s: float) -> int:
        return sum(len(answer.publications) for answer in self._storage.due(now_s))

    def maintain(self, now_s: float) -> None:
        self._storage.maintain(now_s, _ENTRIES_PER_TURN)

    def disk_bytes(self) -> int:
        return sum(file.stat().st_size for file in self._directory.rglob("*") if file.is_file())

    def close(self) -> None:
        self._storage.close()
