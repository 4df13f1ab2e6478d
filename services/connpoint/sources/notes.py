"""What is committed to Kafka for a partition: an offset, and a note beside it.

Everything before the offset is confirmed. The note says into which batches the records from there on are cut, and when
each was accepted: whoever has the partition next cuts them the same way, so that what was sent before is recognised.

    1 19a1b2c3d4e 200@19a1b2c3d60,35@19a1b2c3d62      version, log, batches: offsets they span, when they were accepted

The log is known by the time at which somebody began to read it, in hexadecimal milliseconds. An offset that was set by
somebody else has no note: what follows it is published as something new.
"""

from collections.abc import Sequence

import msgspec

BATCHES_MAX = 96  # of one note; Kafka takes 4096 bytes (offset.metadata.max.bytes)
_VERSION = "1"


class Cut(msgspec.Struct, frozen=True):
    """One batch: how many offsets it spans, and when it was accepted."""

    span: int
    accepted_ms: int


class Note(msgspec.Struct, frozen=True):
    offset: int
    log: int | None = None  # None: it was not Braid that committed the offset
    cuts: Sequence[Cut] = ()  # from the offset on


def write_note(note: Note) -> str:
    assert len(note.cuts) <= BATCHES_MAX, "more batches than a note has room for"
    cuts = ",".join([f"{cut.span}@{cut.accepted_ms:x}" for cut in note.cuts])
    return f"{_VERSION} {note.log or 0:x} {cuts}"


def read_note(offset: int, text: str | None) -> Note:
    """A note that cannot be read is as good as none."""
    version, _, rest = (text or "").partition(" ")
    log, _, cuts = rest.partition(" ")
    if version != _VERSION:
        return Note(offset)
    try:
        return Note(offset, int(log, 16), tuple(_read_cut(cut) for cut in cuts.split(",") if cut))
    except ValueError:
        return Note(offset)


def _read_cut(text: str) -> Cut:
    span, _, accepted_ms = text.partition("@")
    cut = Cut(int(span), int(accepted_ms, 16))
    if cut.span < 1:
        raise ValueError(text)
    return cut
