"""What a store writes when it has nothing better to do: what other matchers hand over, and whatever is to be forgotten.

Loads are written in their order, a slice at a time, between the writes that somebody waits for. So publications need
not wait on their way to disk for the thousands of subscriptions that a scaling moves. A slice is of as many loads as
weigh enough: on a busy machine it is long until the event loop hears of the end of a slice, however short that is, and
a scaling has to move more subscriptions meanwhile than change.

Bounded by whoever adds loads: chunks and parts under way to this matcher, and a number of ids that are to be forgotten.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from braid.group_writer import Done

T = TypeVar("T")


class Load(Generic[T]):
    def __init__(self, operations: Iterable[T], ids: Iterable[str], done: Done | None) -> None:
        self.operations = deque(operations)
        self.ids = list(ids)  # whose records it changes
        self.done = done
        self.is_due = False  # when all that was to be written before it is


Slice = list[tuple[Load[T], list[T]]]  # loads, and what is to be done of each now


class Bulk(Generic[T]):
    def __init__(self, weigh: Callable[[T], int]) -> None:
        self._weigh = weigh
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

    def take(self, weight: int) -> Slice[T]:
        """The next operations of the first loads that are due, until they weigh that much."""
        taken: Slice[T] = []
        for load in self._loads:
            if weight <= 0 or not load.is_due:
                break
            operations: list[T] = []
            while load.operations and weight > 0:
                operations.append(load.operations.popleft())
                weight -= self._weigh(operations[-1])
            weight -= 1
            taken.append((load, operations))
        return taken

    def put_back(self, load: Load[T], operations: list[T]) -> None:
        """Taken, and not begun."""
        load.operations.extendleft(reversed(operations))

    def on_written(self, load: Load[T]) -> bool:
        """What was taken is written. Whether that was all of the load."""
        if load.operations:
            return False
        self._forget(load)
        return True

    def on_failed(self, load: Load[T], again: Iterable[T]) -> None:
        """These are to be tried again, in the place of the whole load; nobody waits for them any more."""
        load.operations = deque(again)
        load.done = None
        if not load.operations:
            self._forget(load)

    def take_out(self, operation: T) -> None:
        """It shall not be done after all."""
        for load in self._loads:
            load.operations = deque(one for one in load.operations if one != operation)

    def _forget(self, load: Load[T]) -> None:
        self._loads.remove(load)  # one of the first
        self._ids.subtract(load.ids)
        for id in load.ids:
            if self._ids[id] <= 0:
                del self._ids[id]
