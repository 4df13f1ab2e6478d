"""What a store writes when it has nothing better to do: what other matchers hand over, and whatever is to be forgotten.

Loads are written in their order, a slice at a time, between the writes that somebody waits for. So publications need
not wait on their way to disk for the thousands of subscriptions that a scaling moves.

Bounded by whoever adds loads: chunks and parts under way to this matcher, and a number of ids that are to be forgotten.
"""

from collections import Counter, deque
from collections.abc import Iterable
from typing import Generic, TypeVar

from braid.group_writer import Done

T = TypeVar("T")


class Load(Generic[T]):
    def __init__(self, operations: Iterable[T], ids: Iterable[str], done: Done | None) -> None:
        self.operations = deque(operations)
        self.ids = list(ids)  # whose records it changes
        self.done = done
        self.is_due = False  # when all that was to be written before it is


class Bulk(Generic[T]):
    def __init__(self) -> None:
        self._loads: deque[Load[T]] = deque()
        self._ids: Counter[str] = Counter()

    def __bool__(self) -> bool:
        """Whether something can be written now."""
        return bool(self._loads) and self._loads[0].is_due

    def __len__(self) -> int:
        """Ids whose records are to be changed."""
        return len(self._ids)

    def touches(self, ids: Iterable[str]) -> bool:
        """Whether something is still to be done about one of them: whatever comes then must wait for it."""
        return bool(self._ids) and any(id in self._ids for id in ids)

    def add(self, load: Load[T]) -> None:
        self._loads.append(load)
        self._ids.update(load.ids)

    def take(self, most: int) -> tuple[Load[T], list[T]]:
        """The first load, and the next of its operations."""
        load = self._loads[0]
        return load, [load.operations.popleft() for _ in range(min(most, len(load.operations)))]

    def on_written(self, load: Load[T]) -> bool:
        """What was taken is written. Whether that was all of the load."""
        if load.operations:
            return False
        self._loads.popleft()
        self._forget(load)
        return True

    def on_failed(self, load: Load[T], again: Iterable[T]) -> None:
        """These are to be tried again, in the place of the whole load; nobody waits for them any more."""
        load.operations = deque(again)
        load.done = None
        if not load.operations:
            self._loads.popleft()
            self._forget(load)

    def take_out(self, operation: T) -> None:
        """It shall not be done after all."""
        for load in self._loads:
            load.operations = deque(one for one in load.operations if one != operation)

    def _forget(self, load: Load[T]) -> None:
        self._ids.subtract(load.ids)
        for id in load.ids:
            if self._ids[id] <= 0:
                del self._ids[id]
