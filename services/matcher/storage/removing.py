"""Unsubscribing, replacing, and removing publications.

Appending never reads, so removing must find what it removes: a subscription is also filed by its id, beside its
entries, in the same database and the same write. Replacing may touch two databases, which no single write can; so what
is intended is written down first, and taken up again when a crash came between. Where it fails without a crash, nobody
was told that it was replaced: whoever removes the subscription removes also what was intended.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace as changed

from services.matcher.storage import keys
from services.matcher.storage.database import Database, Write
from services.matcher.storage.records import Damage, Filed, Kind, Stored, StoredPublication, StoredSubscription
from services.matcher.storage.settings import StorageSettings
from services.matcher.storage.windows import Windows

Outdated = Mapping[Database, Sequence[bytes]]
WriteFiled = Callable[[Sequence[tuple[Stored, Sequence[bytes]]], float, Outdated], list[Database]]


class _Intent(msgspec.Struct, array_like=True):
    subscription: StoredSubscription
    lists: list[bytes]


_encode_intent = msgspec.msgpack.Encoder().encode
_decode_intent = msgspec.msgpack.Decoder(_Intent).decode


def unsubscribe(windows: Windows, id: str, now_s: float) -> bool:
    """Whether it was there. A distinct one is only ended: what it was given is still known for a while."""
    was_there = False
    key = keys.by_id_key(id)
    _forget_intent(windows, id)
    for database in windows.with_subscriptions(now_s):
        packed = database.get(key)
        if packed is None:
            continue
        filed = keys.decode_by_id(id, packed)
        was_there |= filed.until_s > now_s
        if not filed.distinct:
            database.write(Write(removed=filed.keys, others_removed=[key]))
        elif filed.until_s > now_s:
            _end(database, filed, now_s)
    return was_there


def forget(windows: Windows, ids: Sequence[str], now_s: float, remember_s: float) -> int:
    """One write for each database. How many were there, also of those that have ended and are remembered; what is over
    and only waits for its window to pass goes too, and was not there any more.
    """
    found: set[str] = set()
    for id in windows.replacing.intersection(ids):
        _forget_intent(windows, id)
    for database in windows.with_subscriptions(now_s):
        write = Write()
        for id in ids:
            key = keys.by_id_key(id)
            packed = database.get(key)
            if packed is not None:
                filed = keys.decode_by_id(id, packed)
                if filed.until_s + (remember_s if filed.distinct else 0.0) > now_s:
                    found.add(id)
                write.removed += filed.keys
                write.others_removed.append(key)
        if write.others_removed:
            database.write(write)
    return len(found)


def _end(database: Database, filed: keys.ById, now_s: float) -> None:
    payload = database.get(filed.keys[0])
    if payload is not None:
        ended = changed(keys.subscription_in(payload), until_s=now_s)
        lists = [keys.split_key(key)[0] for key in filed.keys]
        database.write(Write(entries=keys.entries_of(ended, lists), others=[keys.by_id_entry(ended, lists)]))


def replace(windows: Windows, filed: Filed, write: WriteFiled, now_s: float) -> None:
    subscription = filed.record
    assert isinstance(subscription, StoredSubscription)
    intent_key = _intent_key(subscription.id)
    intent = _encode_intent(_Intent(subscription, list(filed.lists)))
    # Of an earlier one that failed, what was intended may lie in a base that was followed by another one since.
    _forget_intent(windows, subscription.id)
    windows.replacing.add(subscription.id)
    windows.base.write(Write(others=[(intent_key, keys.sealed(intent_key, intent))]))
    by_id = keys.by_id_key(subscription.id)
    new = {keys.entry_key(name, Kind.SUBSCRIPTION, subscription.made_s, subscription.id) for name in filed.lists}
    old = {
        database: keys.decode_by_id(subscription.id, packed).keys
        for database in windows.with_subscriptions(now_s)
        if (packed := database.get(by_id)) is not None
    }
    # Where old and new lie in one database, one write does both: else nobody would know the old entries by then.
    outdated = {database: [entry for entry in entries if entry not in new] for database, entries in old.items()}
    put_into = write([(subscription, filed.lists)], now_s, outdated)
    for database, entries in old.items():
        if database not in put_into:
            database.write(Write(removed=entries, others_removed=[by_id]))
    _forget_intent(windows, subscription.id)


def _forget_intent(windows: Windows, id: str) -> None:
    if id in windows.replacing:
        for base in windows.bases():
            base.write(Write(others_removed=[_intent_key(id)]))
        windows.replacing.discard(id)


def _intent_key(id: str) -> bytes:
    return keys.INTENTS_BEGIN + id.encode()


def finish_replacing(windows: Windows, write: WriteFiled, now_s: float, damages: list[Damage]) -> None:
    """What a crash interrupted. Appends to `damages` which of it cannot be read."""
    for base in windows.bases():
        for key, value in list(base.entries(keys.INTENTS_BEGIN, keys.INTENTS_END)):
            id = key[len(keys.INTENTS_BEGIN) :].decode(errors="replace")
            unreadable: list[Damage] = []
            try:
                intent = _decode_intent(keys.opened(key, value))
            except ValueError as error:  # also what the decoder says
                reason = f"what was to replace '{id}' when it was interrupted cannot be read: {error}"
                unreadable = [Damage(base.name, (), reason, 0, 0)]
                _keep_one(windows, id, now_s)
            else:
                # Without one that it replaces, it is left of a replacing that had come to its end.
                if _holders(windows, id, now_s):
                    replace(windows, Filed(intent.subscription, tuple(intent.lists)), write, now_s)
            base.write(Write(others_removed=[key]))
            damages += unreadable


def _keep_one(windows: Windows, id: str, now_s: float) -> None:
    """Of two versions in two databases, of which nobody can say which is the new one: nobody was told of it either."""
    for database, filed in _holders(windows, id, now_s)[:-1]:
        database.write(Write(removed=filed.keys, others_removed=[keys.by_id_key(id)]))


def _holders(windows: Windows, id: str, now_s: float) -> list[tuple[Database, keys.ById]]:
    """Where a subscription is filed, bases last."""
    found = [(database, database.get(keys.by_id_key(id))) for database in windows.with_subscriptions(now_s)]
    return [(database, keys.decode_by_id(id, packed)) for database, packed in found if packed is not None]


def remove_publications(windows: Windows, filed: Sequence[Filed], settings: StorageSettings) -> int:
    """How many were there. Each lies where it was put, which follows from when it expires: as it says, or as the
    retention made it, which counts for one that is not given back as it was read. One write for each database.
    """
    removed = 0
    writes: dict[Database, Write] = {}
    for one in filed:
        record = one.record
        assert isinstance(record, StoredPublication)
        entries = [keys.entry_key(name, Kind.PUBLICATION, record.made_s, record.id) for name in one.lists]
        moments = {record.expires_s, settings.expiry_s(record.made_s, record.expires_s)} - {math.inf}
        was_there = False
        for database in {database for moment_s in moments for database in windows.spanning(moment_s)}:
            # Only what is there is counted as removed.
            present = [entry for entry in entries if database.get(entry) is not None]
            was_there |= bool(present)
            write = writes.get(database) or writes.setdefault(database, Write())
            write.removed += present
        removed += was_there
    for database, write in writes.items():
        if write.removed:
            database.write(write)
    return removed
