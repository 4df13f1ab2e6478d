"""What was received for topics and may be sent here again: it is recognised, also behind a crash.

Of a batch that came live everything is known, so the batch is noted. What a subscription was given with its past is
noted by itself: others may not have had it. Both are forgotten when the watermark of their origin passes them, because
what is confirmed does not come again.

As pairs for the disk: `s/ORIGIN/SEQUENCE`, with nothing, or with places and subscriptions that were given them.
"""

from collections.abc import Callable, Iterable

import msgspec

from braid.leveldb import Pair
from services.connpoint.delivery import Addressed
from services.connpoint.unconfirmed import Batch

PREFIX = b"s/"
SEEN_MAX = 200_000  # batches; beyond it those of the origin that was silent longest are forgotten

Given = frozenset[tuple[int, str]]  # places, and subscriptions that have what is there
Notes = dict[Batch, Given | None]  # None: everybody has whatever is for them

_NOBODY: Given = frozenset()
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[int, str]]).decode


class Seen:
    def __init__(self) -> None:
        self._origins: dict[str, dict[int, Given | None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def load(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        for key, value in pairs:
            origin, _, sequence = key[len(PREFIX) :].decode().rpartition("/")
            self._put((origin, int(sequence, 16)), frozenset(_decode(value)) if value else None)

    def fresh(self, addressed: list[Addressed]) -> tuple[set[Batch], list[Addressed]]:
        """Those that were not received before, and their batches; those of one batch follow one another."""
        batches: set[Batch] = set()
        fresh: list[Addressed] = []
        latest: Batch | None = None
        given: Given | None = _NOBODY
        is_noted = False
        for one in addressed:
            origin, sequence, place = one.key
            if latest is None or sequence != latest[1] or origin != latest[0]:
                latest, is_noted = (origin, sequence), False
                of_origin = self._origins.get(origin)
                given = _NOBODY if of_origin is None else of_origin.get(sequence, _NOBODY)
            if given is None or (given and (place, one.id) in given):
                continue
            fresh.append(one)
            if not is_noted:
                batches.add(latest)
                is_noted = True
        return batches, fresh

    def merged(self, batches: Iterable[Batch], given: Iterable[Addressed]) -> Notes:
        """What is to be noted when these have come, live and with a past."""
        notes: Notes = dict.fromkeys(batches)
        for one in given:
            origin, sequence, place = one.key
            batch = origin, sequence
            before = notes.get(batch, self._origins.get(origin, {}).get(sequence, _NOBODY))
            notes[batch] = None if before is None else before | {(place, one.id)}
        return notes

    def note(self, notes: Notes) -> list[Pair]:
        """They are on disk. What is forgotten for them is to be erased there."""
        for batch, given in notes.items():
            self._put(batch, given)
        erased: list[Pair] = []
        while self._count > SEEN_MAX:
            origin = next(iter(self._origins))
            sequences = self._origins.pop(origin)
            self._count -= len(sequences)
            erased += [(_key(origin, sequence), None) for sequence in sequences]
        return erased

    def forget(self, watermark_of: Callable[[str], int]) -> list[Pair]:
        erased: list[Pair] = []
        for origin, sequences in list(self._origins.items()):
            watermark = watermark_of(origin)
            over = [sequence for sequence in sequences if sequence <= watermark]
            for sequence in over:
                del sequences[sequence]
            if not sequences:
                del self._origins[origin]
            self._count -= len(over)
            erased += [(_key(origin, sequence), None) for sequence in over]
        return erased

    def _put(self, batch: Batch, given: Given | None) -> None:
        origin, sequence = batch
        of_origin = self._origins.pop(origin, None)
        if of_origin is None:
            of_origin = {}
        self._origins[origin] = of_origin  # heard of last
        self._count += sequence not in of_origin
        of_origin[sequence] = given


def pairs_of(notes: Notes) -> list[Pair]:
    return [
        (_key(origin, sequence), b"" if given is None else _encode(sorted(given)))
        for (origin, sequence), given in notes.items()
    ]


def _key(origin: str, sequence: int) -> bytes:
    return b"%b%b/%016x" % (PREFIX, origin.encode(), sequence)
