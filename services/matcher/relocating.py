"""What a matcher that stays does, when a scaling is over, with publications that another one keeps by now.

    copying   what is on disk is read bit by bit, and what is another's is handed over (`departing.py`)
    waiting   it is stored where it belongs; questions for the past that came there before that are still answered here
    removing  everything is read once more, and what is another's is removed

No scaling waits for it. It may be begun anew at any time, from the start, and is when a process starts in the middle of
it or when the configuration changes: a publication that is kept twice counts once. Invariant: nothing is removed here
that is not known to be on the disk of its keeper, and has been there for longer than a question lasts.

Paced: a few pieces are read in each tick, so that whoever publishes and asks meanwhile need not wait.
"""

import enum
import math
from collections.abc import Iterable

from braid.keeping import keepers_of
from braid.messages import KeptBatch, Send
from braid.selector import Selector
from services.matcher.departing import Departure
from services.matcher.effects import Continue, Effects, ReadKept, RemoveKept
from services.matcher.storage.records import Cursor

REMOVE_AFTER_S = 60.0  # longer than anybody waits for the answer to one question
READS_PER_TICK = 5  # more than come meanwhile, or there would be no end: records are read in the order they expire


class State(enum.Enum):
    COPYING = "copying"
    WAITING = "waiting"
    REMOVING = "removing"
    DONE = "done"


class Relocation:
    def __init__(self, name: str, selector: Selector, *, reader: int = 0, parts: int = 0) -> None:
        """`reader` tells its readings from those of others, `parts` is the number of the last part before it."""
        self._name = name
        self._selector = selector
        self._departure = Departure(selector, [], staying=name, reader=reader, parts=parts)
        self._next: ReadKept | None = None  # with the next tick, or at once
        self._reads = 0  # that may still be made before the next tick
        self._remove_at_s = math.inf
        self.reader = reader
        self.epoch = selector.epoch
        self.state = State.COPYING
        self.removed = 0  # publications

    @property
    def receivers(self) -> list[str]:
        """To whom it has to speak."""
        own = self._name
        return [name for name in self._selector.matchers if name != own] if self.state is State.COPYING else []

    @property
    def handed_over(self) -> int:
        return self._departure.handed_over

    @property
    def left(self) -> int:
        return self._departure.left

    @property
    def last_part(self) -> int:
        return self._departure.last_part

    def begin(self) -> Effects:
        return self._paced(self._departure.begin())

    def on_tick(self, now_s: float) -> Effects:
        if self.state is State.WAITING:
            self._remove_at_s = min(self._remove_at_s, now_s + REMOVE_AFTER_S)
            if now_s >= self._remove_at_s:
                self.state = State.REMOVING
                self._next = ReadKept(None, self.reader)
        self._reads = READS_PER_TICK
        return self._read_when_due()

    def on_second(self) -> list[Send]:
        return self._departure.on_second()

    def on_read(self, batches: Iterable[KeptBatch], after: Cursor | None) -> Effects:
        if self.state is State.COPYING:
            return self._paced(self._departure.on_read(batches, after))
        foreign = [batch for batch in batches if not is_kept_by(self._selector, self._name, batch)]
        self.removed += sum(len(batch.contents) for batch in foreign)
        effects: Effects = [RemoveKept(foreign)] if foreign else []
        if after is not None:
            self._next = ReadKept(after, self.reader)
            return [*effects, *self._read_when_due()]
        self.state = State.DONE
        return [*effects, Continue()]

    def on_handed_over(self, receiver: str, number: int) -> Effects:
        return self._paced(self._departure.on_handed_over(receiver, number))

    def on_receiver_up(self, receiver: str) -> list[Send]:
        return self._departure.on_receiver_up(receiver)

    def _paced(self, effects: Effects) -> Effects:
        readings = [effect for effect in effects if isinstance(effect, ReadKept)]
        self._next = readings[0] if readings else self._next
        if self.state is State.COPYING and self._departure.is_done:
            self.state = State.WAITING
        return [*(effect for effect in effects if not isinstance(effect, ReadKept)), *self._read_when_due()]

    def _read_when_due(self) -> Effects:
        if self._next is None or not self._reads:
            return []
        following, self._next = self._next, None
        self._reads -= 1
        return [following]


def is_kept_by(selector: Selector, name: str, batch: KeptBatch) -> bool:
    """Whether any of it is: one record is one keeper's, except where two topics are spelled alike."""
    return name in keepers_of(selector, batch.origin, batch.sequence, batch.contents)
