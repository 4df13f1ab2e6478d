"""Kept publications on their way to other matchers: of one that leaves (`departing.py`), or stays (`relocating.py`).

One of the two at a time, and only the last one that was begun counts: what was read or acknowledged for one before it
is told from its own by the number of its reader and the numbers of its parts.
"""

from collections.abc import Iterable, Sequence

from braid.messages import KeptBatch, PublicationsHandedOver, Send
from braid.selector import Selector
from braid.subscription import SubscriptionRecord
from services.matcher.departing import Departure
from services.matcher.effects import Effects
from services.matcher.relocating import Relocation, State
from services.matcher.storage.records import Cursor


class MovingKept:
    def __init__(self, name: str) -> None:
        self._name = name
        self._departure: Departure | None = None
        self._relocation: Relocation | None = None
        self._readers = 0
        self._parts = 0  # that were sent before the present one began
        self._handed_over = 0  # publications, by those before it
        self._removed = 0

    # What there is

    @property
    def departure(self) -> Departure | None:
        return self._departure

    @property
    def is_copied(self) -> bool:
        """Nearly everything is elsewhere that has to be before this matcher leaves."""
        return self._departure is None or self._departure.is_copied

    @property
    def is_gone(self) -> bool:
        """Everything is."""
        return self._departure is None or self._departure.is_done

    @property
    def is_relocating(self) -> bool:
        return self._relocation is not None and self._relocation.state is not State.DONE

    @property
    def receivers(self) -> list[str]:
        """To whom a matcher that stays has to speak."""
        return [] if self._relocation is None else self._relocation.receivers

    @property
    def handed_over(self) -> int:
        """Publications that their keepers have stored, since the start."""
        return self._handed_over + (0 if self._current is None else self._current.handed_over)

    @property
    def left(self) -> int:
        """Publications that were read, and are not known to be stored where they belong."""
        return 0 if self._current is None else self._current.left

    @property
    def removed(self) -> int:
        return self._removed + (0 if self._relocation is None else self._relocation.removed)

    @property
    def _current(self) -> Departure | Relocation | None:
        return self._departure or self._relocation

    # Beginning and ending

    def depart(self, selector: Selector, ended: Sequence[SubscriptionRecord]) -> Effects:
        self.stop()
        self._departure = Departure(selector, ended, reader=self._readers, parts=self._parts)
        return self._departure.begin()

    def relocate(self, selector: Selector) -> Effects:
        self.stop()
        self._relocation = Relocation(self._name, selector, reader=self._readers, parts=self._parts)
        return self._relocation.begin()

    def stop(self) -> None:
        current = self._current
        if current is not None:
            self._handed_over, self._removed = self.handed_over, self.removed
            self._parts = current.last_part
            self._readers += 1
        self._departure = self._relocation = None

    # What comes

    def on_kept(self, batches: Iterable[KeptBatch], now_s: float) -> list[Send]:
        return [] if self._departure is None else self._departure.add(batches, now_s)

    def on_ended(self, records: Iterable[SubscriptionRecord]) -> list[Send]:
        return [] if self._departure is None else self._departure.add_ended(records)

    def on_tick(self, now_s: float) -> Effects:
        return [] if self._relocation is None else self._relocation.on_tick(now_s)

    def on_second(self) -> list[Send]:
        return [] if self._current is None else self._current.on_second()

    def on_read(self, batches: Iterable[KeptBatch], after: Cursor | None, reader: int) -> Effects:
        current = self._current
        return [] if current is None or current.reader != reader else current.on_read(batches, after)

    def on_handed_over(self, matcher: str, message: PublicationsHandedOver) -> Effects:
        current = self._current
        if current is None or current.epoch != message.epoch:
            return []
        return current.on_handed_over(matcher, message.number)

    def on_receiver_up(self, matcher: str) -> list[Send]:
        return [] if self._current is None else self._current.on_receiver_up(matcher)
