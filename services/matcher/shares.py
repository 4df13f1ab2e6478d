"""Which of the subscriptions in the index count, for requests of which epoch.

During a scaling one index holds what the matcher has in the old epoch and what it has in the new one. Nothing is built
twice and nothing is swapped: at the cut, requests carry another epoch, and another part of the index counts.

    arrived   counts in the new epoch only: another matcher reports it in the old one
    leaving   counts in the old epoch only: another matcher reports it in the new one
    refuse    counts no more: is removed bit by bit
    swept     what is to be thrown out of very many: does not count, and is found out when it is looked at
"""

from collections.abc import Callable, Collection, Container, Iterator
from itertools import islice

from braid.id_tables import IdSet

_LOOKS = 4  # at what is swept, for each that may be removed

Hidden = list[Container[str]]


class _Swept:
    """All ids there were, of which some are another's. What has arrived since is not meant."""

    def __init__(self, ids: Iterator[str], is_foreign: Callable[[str], bool], shares: "Shares") -> None:
        self._ids = ids
        self._is_foreign = is_foreign
        self._shares = shares

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self._is_foreign(id) and id not in self._shares.arrived

    def some(self, looks: int) -> tuple[list[str], bool]:
        """Some of those that are another's, and whether there may be more."""
        looked = list(islice(self._ids, looks))
        return [id for id in looked if id in self], len(looked) == looks


class Shares:
    def __init__(self) -> None:
        self.arrived = IdSet()
        self.leaving = IdSet()
        self._refuse = IdSet()
        self._swept: _Swept | None = None

    def hidden(self, *, new_epoch: bool) -> Hidden:
        """Ids that do not count; none of these sets is empty."""
        epoch_has_not = self.leaving if new_epoch else self.arrived
        hidden: Hidden = [ids for ids in (epoch_has_not, self._refuse) if ids]
        return hidden if self._swept is None else [*hidden, self._swept]

    def discard(self, id: str) -> None:
        """It is no longer in the index."""
        self.arrived.discard(id)
        self.leaving.discard(id)
        self._refuse.discard(id)

    def is_refuse(self, id: str) -> bool:
        return id in self._refuse or (self._swept is not None and id in self._swept)

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

    def sweep(self, ids: Iterator[str], is_foreign: Callable[[str], bool]) -> None:
        """Throws away those that are another's and have not arrived since. There may be very many to look at."""
        self._swept = _Swept(ids, is_foreign, self)

    @property
    def has_refuse(self) -> bool:
        return bool(self._refuse) or self._swept is not None

    def some_refuse(self, most: int) -> list[str]:
        if not self._refuse and self._swept is not None:
            ids, has_more = self._swept.some(_LOOKS * most)
            self._swept = self._swept if has_more else None
            return ids
        return list(islice(self._refuse, most))
