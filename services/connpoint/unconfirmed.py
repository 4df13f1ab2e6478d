"""What matchers say of the batches that are not confirmed: what of them is still to come before a past, or behind it.

Each batch names the one before it of its publisher that was not confirmed, so along these names one sees all of them.
What is kept is in the past, where it is wanted; what is not kept yet, by all who have to keep a part of it, is still to
come. What was published before the past begins is not in it, and may come live behind something that is.

Linear in what is looked at.
"""

from collections.abc import Iterable, Iterator

import msgspec

from braid.messages import BatchUnderWay, Kept, UnderWay

ORDER_S = 60.0  # what was published before that has arrived, or is sent again
_NOTHING: frozenset[int] = frozenset()

Batch = tuple[str, int]  # origin, sequence


class _Known(msgspec.Struct):
    """A batch, by what all matchers say of it."""

    previous: int
    published_s: float
    missing: frozenset[int]  # places that nobody keeps yet


class Unconfirmed:
    def __init__(self, under_way: Iterable[dict[str, UnderWay]]) -> None:
        """`under_way` is what each matcher says of it, all of them before they looked for the past."""
        self._watermarks: dict[str, int] = {}
        self._known: dict[Batch, _Known] = {}
        for of_matcher in under_way:
            for origin, own in of_matcher.items():
                self._watermarks[origin] = max(own.watermark, self._watermarks.get(origin, 0))
                for sequence, batch in own.batches.items():
                    missing = _missing(batch, self._known.get((origin, sequence)))
                    self._known[origin, sequence] = _Known(batch.previous, batch.published_s, missing)

    def is_in_order(self, past: Iterable[Kept], now_s: float) -> bool:
        """Whether nothing of a publisher is still to come that was published before something of its past.

        Matchers that were started again know nothing of old ones, so only new ones are looked at.
        """
        new = (kept for kept in past if kept.published_s >= now_s - ORDER_S)
        return all(known is not None and not known.missing for _, known in self._up_to(new))

    def before(self, past: Iterable[Kept], from_s: float) -> set[Batch]:
        """Those before something of its publisher in the past, that were published before the past begins."""
        return {batch for batch, known in self._up_to(past) if known is not None and known.published_s < from_s}

    def _up_to(self, past: Iterable[Kept]) -> Iterator[tuple[Batch, _Known | None]]:
        """The batches of a past that are not confirmed, and those of their publishers before them; each once.

        Of one that nobody keeps yet nothing is known, not even which was before it. The same may be of one of the past
        itself: its keeper was started again, or has it from another one. Then others may not have their parts of it.
        """
        seen: set[Batch] = set()
        for kept in past:
            if kept.is_confirmed:
                continue
            origin = kept.origin
            watermark = self._watermarks.get(origin, 0)
            sequence = kept.sequence
            while sequence > watermark and (origin, sequence) not in seen:
                seen.add((origin, sequence))
                known = self._known.get((origin, sequence))
                yield (origin, sequence), known
                if known is None:
                    break
                sequence = known.previous


def _missing(batch: BatchUnderWay, known: _Known | None) -> frozenset[int]:
    if batch.places is None:
        return _NOTHING
    before = frozenset(range(batch.whole)) if known is None else known.missing
    return before.difference(batch.places)
