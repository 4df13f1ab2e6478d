"""Which version of a record counts, when the entries that are there do not agree."""

from collections.abc import Mapping, Sequence

from services.matcher.storage import keys
from services.matcher.storage.records import Stored

Entry = tuple[Stored, tuple[bytes, ...]]  # with all lists of the record, where it is the first one
Entries = Mapping[bytes, Entry]  # those of one record that are there, by their keys


def version_of(there: Entries, by_id: list[bytes] | None) -> list[bytes]:
    """The keys of all entries of the version that counts, also of those that are missing.

    That is the one that is filed by id, when all its entries are there and the first one names the same lists. Else
    the entry by id was hit, or one of these: then it is the version of which most is there, since what came before it
    was removed.
    """
    if by_id and all(key in there for key in by_id) and there[by_id[0]][1] == lists_of(by_id):
        return by_id
    versions = [by_id] if by_id else []
    for key in sorted(there, key=keys.identity):
        list_id, _ = keys.split_key(key)
        if names := there[key][1]:
            versions.append([name + key[len(list_id) :] for name in names])

    def how_much(version: list[bytes]) -> tuple[int, bool]:
        count = sum(key in there for key in version)
        return count, count == len(version)

    best = max(versions, key=how_much, default=[])
    if any(key in there for key in best):
        return best
    newest = min(map(keys.identity, there))
    return sorted(key for key in there if keys.identity(key) == newest)


def record_of(there: Entries, version: Sequence[bytes]) -> Stored:
    """Of its first entry, else of a further one; under its keys may also be what an older one left."""
    lists = lists_of(version)

    def how_far(key: bytes) -> int:
        names = there[key][1]
        return 0 if names == lists else 2 if names or key == version[0] else 1

    return there[min((key for key in version if key in there), key=how_far)][0]


def lists_of(version: Sequence[bytes]) -> tuple[bytes, ...]:
    return tuple(keys.split_key(key)[0] for key in version)
