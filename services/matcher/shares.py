"""Which of the subscriptions in the index count, for requests of which epoch.

During a scaling one index holds what the matcher has in the old epoch and what it has in the new one. Nothing is built
twice and nothing is swapped: at the cut, requests carry another epoch, and another part of the index counts.

    arrived   counts in the new epoch only: another matcher reports it in the old one
    leaving   counts in the old epoch only: another matcher reports it in the new one
    refuse    counts no more: is removed bit by bit
"""

from collections.abc import Collection, Iterator
from itertools import islice

from services.matcher.id_set import IdSet


class Shares:
    def __init__(self) -> None:
        self.arrived = IdSet()
        self.leaving = IdSet()
        self._refuse = IdSet()
        self._swept: Iterator[str] | None = None  # all there were when everything was thrown out, and are not looked at

    def hidden(self, *, new_epoch: bool) -> list[Collection[str]]:
        """Sets of ids that do not count; none of them is empty."""
        epoch_has_not = self.leaving if new_epoch else self.arrived
        return [ids for ids in (epoch_has_not, self._refuse) if ids]

    def discard(self, id: str) -> None:
        """It is no longer in the index."""
        self.arrived.discard(id)
        self.leaving.discard(id)
        self._refuse.discard(id)

    def is_refuse(self, id: str) -> bool:
        return id in self._refuse

    def go_forward(self) -> None:
        """The new epoch is the only one: what arrived counts, what left does not."""
        self.arrived = IdSet()
        self.throw_away(self.leaving)
        self.leaving = IdSet()

    def go_back(self) -> None:
        """The old epoch stays the only one."""
        self.leaving = IdSet()
        self.throw_away(self.arrived)
        self.arrived = IdSet()

    def throw_away(self, ids: Collection[str]) -> None:
        if isinstance(ids, IdSet) and not self._refuse:
            self._refuse = ids  # there may be very many
        else:
            self._refuse.update(ids)

    def throw_away_all(self, ids: Iterator[str]) -> None:
        """Whatever has not arrived since. There may be very many, so they are looked at when they are removed."""
        self._swept = ids

    @property
    def has_refuse(self) -> bool:
        return bool(self._refuse) or self._swept is not None

    def some_refuse(self, most: int) -> list[str]:
        if not self._refuse and self._swept is not None:
            ids = list(islice(self._swept, most))
            self._swept = self._swept if len(ids) == most else None
            return [id for id in ids if id not in self.arrived]
        return list(islice(self._refuse, most))
