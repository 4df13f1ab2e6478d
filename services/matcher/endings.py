"""When the windows of subscriptions end."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from braid.id_tables import IdMap
from braid.subscription import SubscriptionRecord

_OUTDATED_MAX = 10_000  # entries beyond twice those that count


class Endings:
    """A heap of ends. A subscription that ended otherwise, or got another end, leaves its old entry behind."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._ends_s: IdMap[float] = IdMap()  # the end that counts, of each subscription that has one

    def __len__(self) -> int:
        return len(self._heap)

    def note(self, record: SubscriptionRecord) -> None:
        """The subscription is new or has changed."""
        if record.until_s is None:
            self._ends_s.pop(record.id, None)
        elif self._ends_s.get(record.id) != record.until_s:
            self._ends_s[record.id] = record.until_s
            heappush(self._heap, (record.until_s, record.id))
            if len(self._heap) > 2 * len(self._ends_s) + _OUTDATED_MAX:
                self._heap = [(end_s, id) for id, end_s in self._ends_s.items()]
                heapify(self._heap)

    def note_many(self, records: Iterable[SubscriptionRecord]) -> None:
        """The same as noting each; most have no end, and had none."""
        known = self._ends_s if len(self._ends_s) else ()
        for record in records:
            if record.until_s is not None or (known and record.id in known):
                self.note(record)

    def forget(self, id: str) -> None:
        self._ends_s.pop(id, None)

    def has_passed(self, now_s: float) -> bool:
        """Also when it is only an entry that counts no more."""
        return bool(self._heap) and self._heap[0][0] <= now_s

    def passed(self, now_s: float, most: int) -> list[str]:
        """The subscriptions that have ended, the first ones first; each is given once. Looks at so many entries."""
        ended: list[str] = []
        while most > 0 and self.has_passed(now_s):
            most -= 1
            end_s, id = heappop(self._heap)
            if self._ends_s.get(id) == end_s:
                del self._ends_s[id]
                ended.append(id)
        return ended

    def put_off(self, id: str, until_s: float) -> None:
        """It has ended and cannot go yet: it is given again then."""
        self._ends_s[id] = until_s
        heappush(self._heap, (until_s, id))
