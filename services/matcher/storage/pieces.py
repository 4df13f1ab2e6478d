"""All records of a kind, or those of some lists, in pieces: for building an index anew and for handing records on."""

from collections.abc import Sequence

from services.matcher.storage import keys
from services.matcher.storage.database import DamagedError, Database
from services.matcher.storage.records import Cursor, Filed, Kind, Piece, StoredSubscription
from services.matcher.storage.windows import Windows, order_of

_ENTRIES_PER_RECORD = 8  # entries looked at for each record asked for; a piece may end with fewer records than asked


def read_piece(
    windows: Windows, kind: Kind, now_s: float, after: Cursor | None, limit: int, *, lists: Sequence[bytes] | None
) -> Piece:
    """Raises `DamagedError`. A piece may be empty and yet not the last."""
    filed: list[Filed] = []
    left = limit * _ENTRIES_PER_RECORD
    flag = int(kind)
    for database in windows.live(now_s):
        if after is not None and order_of(database.name) < order_of(after.database):
            continue
        begin = after.key if after is not None and after.database == database.name else keys.ENTRIES_BEGIN
        for start, stop in _ranges(kind, lists):
            if stop is not None and stop <= begin:
                continue
            for key, value in database.entries(max(start, begin), stop):
                if left == 0 or len(filed) == limit:
                    return Piece(filed, Cursor(database.name, key))
                left -= 1
                if key[key.index(0) + 1] == flag:
                    one = _filed(database, key, value, now_s, as_copy=lists is not None)
                    if one is not None:
                        filed.append(one)
    return Piece(filed, None)


def _ranges(kind: Kind, lists: Sequence[bytes] | None) -> list[tuple[bytes, bytes | None]]:
    if lists is None:
        return [(keys.ENTRIES_BEGIN, None)]
    flag = bytes((0, kind))
    behind = bytes((0, kind + 1))
    return [(name + flag, name + behind) for name in sorted(set(lists))]


def _filed(database: Database, key: bytes, value: bytes, now_s: float, *, as_copy: bool) -> Filed | None:
    """Nothing for what has expired, and for further entries of one record unless copies are wanted as they are."""
    try:
        record, names = keys.decode_entry(key, value)
    except ValueError as error:
        raise DamagedError(database, str(error)) from None
    expires_s = record.until_s if isinstance(record, StoredSubscription) else record.expires_s
    if expires_s <= now_s or not (names or as_copy):
        return None
    return Filed(record, names or (keys.split_key(key)[0],))
