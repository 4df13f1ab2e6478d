"""Keeping publications: what is to be stored of a request, and what must not be sent before it is.

Invariants: the partial of a batch leaves this matcher when what is kept of the batch is on disk, so a batch that is
confirmed is kept; whatever goes to an exit point afterwards leaves behind it, so the order of a link stays what it was.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence

import msgspec

from braid.keeping import keepers_of
from braid.messages import BatchUnderWay, Kept, KeptBatch, MatchRequest, Send, UnderWay
from braid.selector import Selector
from services.matcher.effects import Keep

_ORIGINS_MAX = 4096  # each start of a connection point makes one; the one that was silent longest is forgotten


class _Waiting(msgspec.Struct):
    ticket: int
    sends: list[Send]


class Keeping:
    def __init__(self, name: str, *, is_on: bool) -> None:
        self._name = name
        self._is_on = is_on
        self._tickets = 0
        self._waiting: deque[_Waiting] = deque()
        self._origins: OrderedDict[str, UnderWay] = OrderedDict()

    def keep(self, selector: Selector, requests: Sequence[MatchRequest]) -> list[Keep]:
        """What this matcher has to store of these requests."""
        batches: list[KeptBatch] = []
        if not self._is_on:
            return []
        for request in requests:
            origin = self._origin(request)
            batch = self._batch(selector, request)
            if batch is not None:
                batches.append(batch)
                origin.batches[request.sequence] = _under_way(request, batch, origin.batches.get(request.sequence))
        return [Keep(self.ticket(), batches)] if batches else []

    def ticket(self) -> int:
        """For what must be on disk before anything is sent that follows; 0 where nothing waits for the disk."""
        if not self._is_on:
            return 0
        self._tickets += 1
        self._waiting.append(_Waiting(self._tickets, []))
        return self._tickets

    def _batch(self, selector: Selector, request: MatchRequest) -> KeptBatch | None:
        own = keepers_of(selector, request.origin, request.sequence, request.contents).get(self._name)
        if not own:
            return None
        is_all = len(own) == len(request.contents)
        contents = request.contents if is_all else [request.contents[place] for place in own]
        places = own if request.places is None else [request.places[place] for place in own]
        return KeptBatch(request.origin, request.sequence, request.previous, request.published_s, places, contents)

    @property
    def waits_for(self) -> int:
        """The ticket behind which whatever is sent now leaves; 0 when it leaves at once."""
        return self._waiting[-1].ticket if self._waiting else 0

    def behind(self, sends: list[Send]) -> list[Send]:
        """What can be sent of it now; the rest goes when all is stored that was to be kept before."""
        if not self._waiting:
            return sends
        self._waiting[-1].sends += sends
        return []

    def on_kept(self, ticket: int) -> list[Send]:
        sends: list[Send] = []
        while self._waiting and self._waiting[0].ticket <= ticket:
            sends += self._waiting.popleft().sends
        return sends

    def marked(self, found: Sequence[Kept]) -> list[Kept]:
        """With what is known to be confirmed."""
        return [
            msgspec.structs.replace(kept, is_confirmed=True) if self._is_confirmed(kept) else kept for kept in found
        ]

    def under_way(self) -> dict[str, UnderWay]:
        """As it is now, whatever comes while somebody looks for it."""
        return {
            name: UnderWay(origin.watermark, dict(origin.batches))
            for name, origin in self._origins.items()
            if origin.batches
        }

    def _is_confirmed(self, kept: Kept) -> bool:
        origin = self._origins.get(kept.origin)
        return origin is not None and kept.sequence <= origin.watermark

    def _origin(self, request: MatchRequest) -> UnderWay:
        known = self._origins.get(request.origin)
        if known is None or request.watermark > known.watermark:
            unconfirmed = {} if known is None else {s: b for s, b in known.batches.items() if s > request.watermark}
            known = self._origins[request.origin] = UnderWay(request.watermark, unconfirmed)
            if len(self._origins) > _ORIGINS_MAX:
                self._origins.popitem(last=False)
        self._origins.move_to_end(request.origin)
        return known


def _under_way(request: MatchRequest, batch: KeptBatch, before: BatchUnderWay | None) -> BatchUnderWay:
    """Sent again behind a scaling, another part of it may be to be kept here; what was kept before still is."""
    whole = len(request.contents) if request.whole is None else request.whole
    places = None if len(batch.places) == whole else batch.places
    if places is not None and before is not None:
        both = {*places, *(range(whole) if before.places is None else before.places)}
        places = None if len(both) == whole else sorted(both)
    return BatchUnderWay(request.previous, request.published_s, whole, places)
