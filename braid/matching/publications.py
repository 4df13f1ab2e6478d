"""The parts of publications that the engine leaves to Python: texts, zones other than points, unusual spellings."""

from typing import Any

import msgspec
import numpy as np

from braid.content import DECODE_ERRORS, decode_content, encode_content
from braid.instants import format_instant, parse_instant
from braid.matching.engine.finding import keys_of_boxes
from braid.matching.engine.memory import MATCHED, Memory
from braid.matching.engine.reading import TEXT, TEXT_END, ZONE, ZONE_END
from braid.matching.row_writing import RowWriter
from braid.matching.vocabulary import Vocabulary
from braid.topics import canonical_topic, parse_topic
from braid.zones import bounds, check_zone

Integers = np.ndarray[Any, np.dtype[np.int64]]
_decode_text = msgspec.json.Decoder(str).decode
_decode_zone = msgspec.json.Decoder(dict[str, Any]).decode


def in_canonical_form(content: bytes) -> bytes | None:
    """What a connection point would have written; None for what is no publication."""
    try:
        decoded = decode_content(content)
        if decoded.topic:
            decoded.topic = canonical_topic(parse_topic(decoded.topic))
        if decoded.zone is not None:
            decoded.zone = check_zone(decoded.zone)
        if decoded.expires is not None:
            decoded.expires = format_instant(parse_instant(decoded.expires, 0.0))
        return encode_content(decoded)
    except (*DECODE_ERRORS, ValueError):
        return None


class ExtraKeys:
    """Finds the keys of words and tiles that the engine does not find itself."""

    def __init__(self, memory: Memory, writer: RowWriter) -> None:
        self._memory = memory
        self._vocabulary = Vocabulary(memory, writer)

    def of(self, events: Integers, joined: bytes, address: int) -> tuple[Integers, Integers]:
        """For the records of the publications in `joined`, which stands at the address: where the extra keys of each
        end, and the keys."""
        found: list[tuple[Integers, Integers]] = []
        with_text = np.flatnonzero(events[:, TEXT])
        if with_text.size:
            spans = events[with_text][:, [TEXT, TEXT_END]] - address
            ends, keys = self._vocabulary.keys_of([_decode_text(joined[start:end]) for start, end in spans.tolist()])
            found.append((np.repeat(with_text, np.diff(ends, prepend=0)), keys))
        for event in np.flatnonzero(events[:, ZONE_END] > 0).tolist():
            start, end = (events[event, [ZONE, ZONE_END]] - address).tolist()
            keys = self._keys_of_zone(_decode_zone(joined[start:end]))
            found.append((np.full(len(keys), event), keys))
        if not found:
            return np.zeros(len(events), dtype=np.int64), np.empty(0, dtype=np.int64)
        owners = np.concatenate([part[0] for part in found])
        keys = np.concatenate([part[1] for part in found])
        owners, keys = owners[keys != 0], keys[keys != 0]
        order = np.argsort(owners, kind="stable")
        counted = np.bincount(owners, minlength=len(events))
        return np.cumsum(counted, dtype=np.int64), keys[order]

    def _keys_of_zone(self, zone: dict[str, Any]) -> Integers:
        return self._memory.view(MATCHED, keys_of_boxes(self._memory.addresses, np.array(bounds(zone)))).copy()
