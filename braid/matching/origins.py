"""How far those are who publish: what each origin has published last, and what of it may come again.

Bounded: each start of a connection point makes an origin; the one that was silent longest is forgotten, and what it has
published counts as confirmed.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable

import msgspec

from braid.matching.chains import Position

ORIGINS_MAX = 4096


class _Origin(msgspec.Struct):
    watermark: int = 0  # everything up to it is confirmed
    latest: tuple[int, int] = (0, 0)  # sequence and place
    unconfirmed: deque[tuple[int, str]] = msgspec.field(default_factory=deque)  # sequences and topics, as they came


class Origins:
    def __init__(self) -> None:
        self._origins: OrderedDict[str, _Origin] = OrderedDict()

    def __len__(self) -> int:
        return len(self._origins)

    def clear(self) -> None:
        self._origins.clear()

    def on_confirmed(self, name: str, watermark: int) -> Iterable[str]:
        """The topics of what does not come again any more."""
        origin = self._origin(name)
        origin.watermark = max(origin.watermark, watermark)
        while origin.unconfirmed and origin.unconfirmed[0][0] <= watermark:
            yield origin.unconfirmed.popleft()[1]

    def on_published(self, position: Position, topic: str) -> None:
        origin = self._origin(position.origin)
        origin.latest = max(origin.latest, position[1:])
        origin.unconfirmed.append((position.sequence, topic))

    def on_known(self, positions: Iterable[Position], topic: str) -> None:
        """These were published before, and are known again, or from somebody else."""
        unconfirmed: dict[str, set[tuple[int, str]]] = {}
        for position in positions:
            origin = self._origin(position.origin)
            origin.latest = max(origin.latest, position[1:])
            if position.sequence > origin.watermark:
                unconfirmed.setdefault(position.origin, set()).add((position.sequence, topic))
        for name, added in unconfirmed.items():
            origin = self._origin(name)
            origin.unconfirmed = deque(sorted({*origin.unconfirmed, *added}))

    def is_new(self, position: Position) -> bool:
        """Later than everything that its origin has published."""
        origin = self._origins.get(position.origin)
        return origin is None or position[1:] > origin.latest

    def is_confirmed(self, position: Position | None) -> bool:
        origin = None if position is None else self._origins.get(position.origin)
        return origin is None or position is None or position.sequence <= origin.watermark

    def _origin(self, name: str) -> _Origin:
        origin = self._origins.get(name)
        if origin is None:
            origin = self._origins[name] = _Origin()
            if len(self._origins) > ORIGINS_MAX:
                self._origins.popitem(last=False)
        self._origins.move_to_end(name)
        return origin
