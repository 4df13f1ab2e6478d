"""Does what a matcher's store is asked to write, on the thread of the store."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from braid.group_writer import PartlyWritten
from services.matcher.filing import filed_publications, filed_subscription
from services.matcher.operations import (
    Forget,
    Keep,
    KeepForeign,
    KeepPrevious,
    Mark,
    Operation,
    Put,
    Remember,
    Remove,
    RemoveKept,
)
from services.matcher.storage.interface import Storage
from services.matcher.storage.records import Filed, StorageFullError, StoredSubscription


class RecordWriter:
    """New records that follow one another are one write; the others are done one by one, and fail one by one."""

    def __init__(self, storage: Storage, mark_path: Path) -> None:
        self._storage = storage
        self._mark_path = mark_path
        self.not_kept = 0  # records of publications that found no room

    def write(self, operations: list[Operation], now_s: float) -> None:
        """In their order. Raises `PartlyWritten`; after any other error nothing counts as written."""
        filed: list[Filed] = []
        failed: list[tuple[Operation, Exception]] = []
        for operation in operations:
            match operation:
                case KeepPrevious():
                    pass
                case Keep(batches):
                    filed += (one for batch in batches for one in filed_publications(batch, now_s))
                case Put(record, True):
                    filed.append(filed_subscription(record, now_s))
                case _:
                    self._put(filed, now_s)
                    filed = []
                    failure = failure_of(partial(self._write_other, operation, now_s))
                    if failure is not None and isinstance(operation, Mark):
                        raise failure  # nothing may be there without it
                    if failure is not None:
                        failed.append((operation, failure))
        self._put(filed, now_s)
        if failed:
            raise PartlyWritten(failed)

    def _write_other(self, operation: Operation, now_s: float) -> None:
        match operation:
            case Put(record):
                one = filed_subscription(record, now_s)
                assert isinstance(one.record, StoredSubscription)
                self._storage.replace(one.record, one.lists, now_s)
            case Remove(ids):
                self._storage.unsubscribe(ids, now_s)
            case Forget(ids):
                self._storage.forget(ids, now_s)
            case KeepForeign(batches):
                if self._storage.put([one for batch in batches for one in filed_publications(batch, now_s)], now_s):
                    # Whoever has it hands it over again when its window has gone.
                    raise StorageFullError("the window of what is handed over is being given up for want of room")
            case RemoveKept(batches):
                self._storage.remove_publications(
                    [one for batch in batches for one in filed_publications(batch, now_s)]
                )
            case Remember(records):
                self._storage.remember([filed_subscription(record, now_s) for record in records], now_s)
            case Mark(foreign):
                if foreign:
                    self._mark_path.touch()
                else:
                    self._mark_path.unlink(missing_ok=True)

    def _put(self, filed: list[Filed], now_s: float) -> None:
        """Without room publications are given up, so that they are delivered at least; subscriptions are refused."""
        if not filed:
            return
        try:
            self._storage.put(filed, now_s)
        except StorageFullError:
            if any(isinstance(one.record, StoredSubscription) for one in filed):
                raise
            self.not_kept += len(filed)


def failure_of(write: Callable[[], None]) -> Exception | None:
    try:
        write()
    except PartlyWritten as error:
        return error.reason
    except Exception as error:
        return error
    return None
