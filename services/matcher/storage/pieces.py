"""All records of a kind, or those of some lists, in pieces: for building an index anew and for handing records on."""

from collections.abc import Sequence
from itertools import islice

from services.matcher.storage import keys
from services.matcher.storage.database import DamagedError, Database
from services.matcher.storage.records import Cursor, Filed, Kind, Piece, Stored, StoredSubscription
from services.matcher.storage.windows import Windows, order_of

_ENTRIES_PER_RECORD = 8  # entries looked at for each record asked for; a piece may end with fewer records than asked


def read_piece(
    windows: Windows, kind: Kind, now_s: float, after: Cursor | None, limit: int, *, lists: Sequence[bytes] | None
) -> Piece:
    """Raises `DamagedError`. A piece may be empty and yet not the last."""
    filed: list[Filed] = []
    for database in windows.live(now_s):
        if not database.has(kind) or (after is not None and order_of(database.name) < order_of(after.database)):
            continue
        begin = after.key if after is not None and after.database == database.name else b""
        if kind is Kind.SUBSCRIPTION and lists is None and not database.is_base:
            next_key = _read_by_id(database, begin, filed, now_s, limit)
        elif kind is Kind.SUBSCRIPTION and lists is None:
            next_key = _read_base(database, begin, filed, now_s, limit)
        else:
            next_key = _read_entries(database, begin, filed, kind=kind, now_s=now_s, limit=limit, lists=lists)
        if next_key is not None:
            return Piece(filed, Cursor(database.name, next_key))
    return Piece(filed, None)


def _read_entries(
    database: Database,
    begin: bytes,
    filed: list[Filed],
    *,
    kind: Kind,
    now_s: float,
    limit: int,
    lists: Sequence[bytes] | None,
) -> bytes | None:
    """Where to go on in this database; nothing when it is done."""
    left = limit * _ENTRIES_PER_RECORD
    flag, as_copy, decode = int(kind), lists is not None, keys.decode_entry
    for start, stop in _ranges(kind, lists):
        if stop is not None and stop <= begin:
            continue
        for key, value in database.entries(max(start, begin), stop):
            if left == 0 or len(filed) == limit:
                return key
            left -= 1
            if key[key.index(0) + 1] != flag:
                continue
            try:
                record, names = decode(key, value)
            except ValueError as error:
                raise DamagedError(database, str(error)) from None
            # Further entries of one record are left out, unless copies are wanted as they are.
            if (names or as_copy) and _end_of(record) > now_s:
                filed.append(Filed(record, names or (keys.split_key(key)[0],)))
    return None


def _read_base(database: Database, begin: bytes, filed: list[Filed], now_s: float, limit: int) -> bytes | None:
    """Only subscriptions are there, and a matcher that starts waits for them: LevelDB's own checksums are enough, and
    many are decoded at once.
    """
    at: bytes | None = max(begin, keys.ENTRIES_BEGIN)
    while at is not None and len(filed) < limit:
        room = limit - len(filed)
        entries = list(islice(database.entries(at), room + 1))
        at = entries.pop()[0] if len(entries) > room else None
        try:
            filed += _live_subscriptions(entries, now_s)
        except ValueError as error:
            raise DamagedError(database, str(error)) from None
    return at


def _live_subscriptions(entries: list[tuple[bytes, bytes]], now_s: float) -> list[Filed]:
    """Each once, by the first of its entries."""
    records = keys.decode_sole_subscriptions([value for _, value in entries])
    if records is None:
        each = [keys.decode_main_subscription(key, value) for key, value in entries]
        return [Filed(record, names) for record, names in each if names and record.until_s > now_s]
    return [
        Filed(record, (key[: key.index(0)],))
        for record, (key, _) in zip(records, entries, strict=True)
        if record.until_s > now_s
    ]


def _read_by_id(database: Database, begin: bytes, filed: list[Filed], now_s: float, limit: int) -> bytes | None:
    """The subscriptions among publications, which are many more: by their ids, without a look at the others."""
    for key, value in database.entries(max(begin, keys.BY_ID_BEGIN), keys.BY_ID_END):
        if len(filed) == limit:
            return key
        by_id = _by_id(database, key, value)
        payload = database.get(by_id.keys[0]) if by_id.until_s > now_s else None
        if payload is not None:
            names = tuple(keys.split_key(entry)[0] for entry in by_id.keys)
            filed.append(Filed(keys.subscription_in(payload), names))
    return None


def read_ended(windows: Windows, now_s: float, remember_s: float) -> list[StoredSubscription]:
    """Raises `DamagedError`."""
    ended: dict[str, StoredSubscription] = {}
    for database in windows.with_subscriptions(now_s):
        for key, value in database.entries(keys.BY_ID_BEGIN, keys.BY_ID_END):
            by_id = _by_id(database, key, value)
            if by_id.distinct and by_id.until_s <= now_s < by_id.until_s + remember_s:
                payload = database.get(by_id.keys[0])
                if payload is not None:
                    record = keys.subscription_in(payload)
                    ended[record.id] = record
    return list(ended.values())


def _by_id(database: Database, key: bytes, value: bytes) -> keys.ById:
    try:
        return keys.decode_by_id(key[len(keys.BY_ID_BEGIN) :].decode(), keys.opened(key, value))
    except ValueError as error:
        raise DamagedError(database, str(error)) from None


def _ranges(kind: Kind, lists: Sequence[bytes] | None) -> list[tuple[bytes, bytes | None]]:
    if lists is None:
        return [(keys.ENTRIES_BEGIN, None)]
    flag = bytes((0, kind))
    behind = bytes((0, kind + 1))
    return [(name + flag, name + behind) for name in sorted(set(lists))]


def _end_of(record: Stored) -> float:
    return record.until_s if isinstance(record, StoredSubscription) else record.expires_s
