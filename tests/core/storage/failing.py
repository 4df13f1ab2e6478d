"""A disk that is full for one write."""

from types import TracebackType
from typing import Any

import plyvel

from services.matcher.storage.interface import Storage
from services.matcher.storage.list_storage import ListStorage


class FailingWrite:
    """Of all writes of a storage, counted from 1, the one with this number fails. Databases count that are there."""

    def __init__(self, storage: Storage, number: int = 1) -> None:
        assert isinstance(storage, ListStorage)
        self._left = number
        self._databases = [one for part in storage._parts for one in part.all() if one._database is not None]

    def __enter__(self) -> None:
        for database in self._databases:
            database._database = _Failing(database._database, self)

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        for database in self._databases:
            if isinstance(database._database, _Failing):
                database._database = database._database.real

    def count(self) -> None:
        self._left -= 1
        if not self._left:
            raise plyvel.IOError(b"IO error: 000003.log: No space left on device")


class _Failing:
    """A database of plyvel, as far as it is not the real one that answers."""

    def __init__(self, real: Any, writes: FailingWrite) -> None:
        self.real = real
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def put(self, *given: Any, **options: Any) -> None:
        self._writes.count()
        self.real.put(*given, **options)

    def write_batch(self, **options: Any) -> "_FailingBatch":
        return _FailingBatch(self.real.write_batch(**options), self._writes)


class _FailingBatch:
    def __init__(self, real: Any, writes: FailingWrite) -> None:
        self._real = real
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def write(self) -> None:
        self._writes.count()
        self._real.write()
