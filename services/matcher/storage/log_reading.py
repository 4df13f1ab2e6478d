"""Reading LevelDB's logs ourselves: where one record is damaged, LevelDB gives up all that lie behind it in the log.
A MANIFEST, which names the tables of a database, is such a log too.

A log is a row of blocks of 32 KiB. A block is a row of pieces: checksum (4), length (2), type (1), so many bytes. A
batch is one whole piece, or a first, some middle and a last one: number (8), count (4), then puts and deletions.

Checksums of pieces are not looked at: every value has one of its own (`keys.py`), and whoever takes something from here
holds it against that. So a piece with one flipped bit still gives all its other entries. Where a header does not lead
to another one, its piece ends at the next place from which headers lead to the end of the block.
"""

from bisect import bisect_left
from collections.abc import Iterator

_BLOCK = 32 * 1024
_HEADER = 7
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_BATCH_HEADER = 12
_DELETION, _PUT = 0, 1

Change = tuple[bytes, bytes | None]  # a key and its value; nothing where it was deleted


def changes_in(log: bytes) -> Iterator[Change]:
    """In their order, as far as they can be read."""
    for batch in _batches(log):
        yield from _changes_of(batch)


def is_broken(log: bytes) -> bool:
    """Whether something can be read behind a place that cannot. What is torn off at the end is the trace of a crash,
    and LevelDB takes every other broken header in the last block for that too.
    """
    return any(is_wrong for _, _, is_wrong in _pieces(log))


def is_whole(log: bytes) -> bool:
    """Whether its records lead to its last byte. LevelDB notices other bits in whole records by their checksums."""
    at, is_begun = 0, False
    while at < len(log):
        block_end = at - at % _BLOCK + _BLOCK
        if block_end - at < _HEADER:
            at = block_end
            continue
        if len(log) - at < _HEADER:
            return False
        kind, end = log[at + 6], at + _HEADER + (log[at + 4] | log[at + 5] << 8)
        if end > min(block_end, len(log)) or not 0 < kind <= _LAST or is_begun != (kind in (_MIDDLE, _LAST)):
            return False
        at, is_begun = end, kind in (_FIRST, _MIDDLE)
    return at == len(log) and not is_begun


def _batches(log: bytes) -> Iterator[bytes]:
    begun: list[bytes] = []
    for kind, content, _ in _pieces(log):
        if begun and kind not in (_MIDDLE, _LAST):
            yield b"".join(begun)  # what there is of it
            begun = []
        if kind == _FIRST:
            begun = [content]
        elif begun:
            begun.append(content)
            if kind == _LAST:
                yield b"".join(begun)
                begun = []
        elif kind not in (_MIDDLE, _LAST):
            yield content
    if begun:
        yield b"".join(begun)


def _pieces(log: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Type and content, and whether the length was wrong. No type and nothing, where the rest of a block is lost."""
    for start in range(0, len(log), _BLOCK):
        block = log[start : start + _BLOCK]
        good: list[int] | None = None  # found out where it is needed
        at = 0
        while len(block) - at >= _HEADER:
            end, is_wrong = _end_of(block, at), False
            if end is None or not _leads_on(block, end):
                good = _good_places(block) if good is None else good
                place = bisect_left(good, at + _HEADER)
                following = good[place] if place < len(good) else None
                if following is not None and (end is None or following < end):
                    end, is_wrong = following, True
            if end is None:
                if start + _BLOCK < len(log):
                    yield 0, b"", True
                break
            yield block[at + 6], block[at + _HEADER : end], is_wrong
            at = end


def _end_of(block: bytes, at: int) -> int | None:
    """Where the piece ends that begins here; nothing where that is behind the block."""
    end = at + _HEADER + (block[at + 4] | block[at + 5] << 8)
    return end if end <= len(block) else None


def _leads_on(block: bytes, at: int) -> bool:
    """Whether another header can begin here."""
    if len(block) - at < _HEADER:
        return True
    return 0 < block[at + 6] <= _LAST and _end_of(block, at) is not None


def _good_places(block: bytes) -> list[int]:
    """From where headers lead to the end of the block, which is shorter than a header and empty."""
    size = len(block)
    good = [size - at < _HEADER and not any(block[at:]) for at in range(size + 1)]
    for at in range(size - _HEADER, -1, -1):
        if 0 < block[at + 6] <= _LAST:
            end = at + _HEADER + (block[at + 4] | block[at + 5] << 8)
            good[at] = end <= size and good[end]
    return [at for at in range(size - _HEADER + 1) if good[at]]


def _changes_of(batch: bytes) -> Iterator[Change]:
    at = _BATCH_HEADER
    try:
        while at < len(batch):
            kind = batch[at]
            key, at = _counted(batch, at + 1)
            if kind == _PUT:
                value, at = _counted(batch, at)
                yield key, value
            elif kind == _DELETION:
                yield key, None
            else:
                return
    except IndexError:
        return


def _counted(batch: bytes, at: int) -> tuple[bytes, int]:
    """A length in groups of seven bits, the lowest first, then so many bytes. Raises `IndexError`."""
    length = shift = 0
    while True:
        byte = batch[at]
        at += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if at + length > len(batch):
        raise IndexError
    return batch[at : at + length], at + length
