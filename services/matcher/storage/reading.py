"""Reading lists: the entries of an id from all databases, merged, newest first, valid at the time of reading.

Entries of a list lie newest first, so a range that ends at T_min is the early stop: what is older is never touched, and
databases in which everything is older are passed over as a whole. In a subtree the reader jumps over what is too old or
of the other kind, from node to node.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import plyvel

from services.matcher.storage import keys
from services.matcher.storage.database import DamagedError, Database
from services.matcher.storage.keys import decode_publication, decode_subscription
from services.matcher.storage.records import Kind, Reach, StoredPublication, StoredSubscription
from services.matcher.storage.windows import Windows

BOTH = int(Kind.SUBSCRIPTION | Kind.PUBLICATION)
_SUBSCRIPTION, _PUBLICATION = int(Kind.SUBSCRIPTION), int(Kind.PUBLICATION)
_STEPS_BEFORE_JUMP = 8  # a jump costs about as much as that many steps

WasGiven = Callable[[StoredSubscription, StoredPublication], bool]


class Query(msgspec.Struct, frozen=True):
    lists: Sequence[bytes]
    reach: Reach
    wanted: int  # kinds
    now_s: float
    from_s: float = -math.inf  # T_P of publications
    until_s: float = math.inf
    limit: int | None = None  # of publications
    nodes_max: int | None = None  # lists below that may be looked into


class TooBroadError(Exception):
    """There are more lists below those that were named than may be looked into."""


class Found:
    """Each with the list it was found in, and the end of its key, which is its time and its id: sorted, newest first.

    Subscriptions that have ended are among them while they are remembered.
    """

    __slots__ = ("publications", "subscriptions")

    def __init__(self) -> None:
        self.subscriptions: list[tuple[bytes, bytes, StoredSubscription]] = []
        self.publications: list[tuple[bytes, bytes, StoredPublication]] = []

    def subscribers(self, published_s: float, now_s: float) -> list[StoredSubscription]:
        """Each once, newest first: those that a publication of this time concerns, and that are valid now."""
        if not self.subscriptions:
            return []
        valid = {
            end: found
            for _, end, found in self.subscriptions
            if found.until_s > now_s and found.from_s <= published_s < found.until_s
        }
        return [valid[end] for end in sorted(valid)]

    def data(self, limit: int | None = None) -> list[StoredPublication]:
        """Each once, newest first."""
        if not self.publications:
            return []
        once = {end: found for _, end, found in self.publications}
        return [once[end] for end in sorted(once)[:limit]]


def read_from(windows: Windows, query: Query) -> Found:
    """From all databases of a part that may have something. Raises `DamagedError`."""
    if query.wanted == _SUBSCRIPTION:
        return read(windows.with_subscriptions(query.now_s), query)
    if query.wanted == _PUBLICATION:
        return read(windows.with_publications(query.now_s, query.from_s), query)
    return read(windows.with_either(query.now_s, query.from_s), query)


def read(databases: Iterable[Database], query: Query) -> Found:
    """Raises `DamagedError`."""
    found = Found()
    below: Sequence[bytes] = ()
    if query.reach is Reach.SELF:
        ranges = [_range_of(name, query) for name in query.lists]
    else:
        nodes = {node for name in query.lists for node in keys.above(name)}
        ranges = [_range_of(node, query) for node in sorted(nodes)]
        below = query.lists
    for database in databases:
        try:
            cursor = database.cursor()
            for start, stop in ranges:
                _read_range(cursor, start, stop, query, found)
            for name in below:
                _read_below(cursor, name, query, found)
        except plyvel.Error as error:
            raise database.damaged_by(error) from None
        except ValueError as error:  # the decoder of a record
            raise DamagedError(database, str(error)) from None
    return found


def not_given_yet(
    found: Found, to: StoredSubscription, query: Query, remember_s: float, was_given: WasGiven | None
) -> Found:
    """Without the publications that an earlier or overlapping subscription of the same subscriber was given.

    What has not expired now had not expired when that one came, so it was given what its window holds.
    """
    earlier = [
        (name, other)
        for name, _, other in found.subscriptions
        if other.subscriber == to.subscriber
        and other.id != to.id
        and other.until_s + (remember_s if other.distinct else 0.0) > query.now_s
    ]
    if earlier:
        given = {
            publication.id
            for at, _, publication in found.publications
            for name, other in earlier
            if (at == name or (query.reach is Reach.LINE and keys.on_one_line(at, name)))
            and other.accepts(publication.made_s)
            and (was_given is None or was_given(other, publication))
        }
        found.publications = [hit for hit in found.publications if hit[2].id not in given]
    return found


def _range_of(name: bytes, query: Query) -> tuple[bytes, bytes]:
    if query.wanted == _SUBSCRIPTION:
        return keys.subscriptions_range(name)
    if query.wanted == _PUBLICATION:
        return keys.publications_range(name, query.from_s, query.until_s)
    return keys.both_range(name, query.from_s)


def _read_range(cursor: Any, start: bytes, stop: bytes, query: Query, found: Found) -> None:
    """One list of one database, both of its kinds where both are wanted."""
    cursor.seek(start)
    flag_at = start.index(0) + 1
    end_at, name = flag_at + 1, start[: flag_at - 1]
    left = query.limit
    while cursor.valid():
        key = cursor.key()
        if key >= stop:
            return
        if key[flag_at] == _SUBSCRIPTION:
            found.subscriptions.append((name, key[end_at:], decode_subscription(cursor.value())))
        else:
            publication = decode_publication(cursor.value())
            if _is_wanted(publication, query):
                found.publications.append((name, key[end_at:], publication))
                if left is not None:
                    left -= 1
                    if left <= 0:
                        return
        cursor.next()


def _read_below(cursor: Any, name: bytes, query: Query, found: Found) -> None:
    """The node and all below it; as many publications of each as the limit says."""
    start, stop = keys.below_range(name)
    oldest, newest = keys.inverted(query.from_s), keys.inverted(query.until_s)
    nodes = 0
    wanted, limit = query.wanted, math.inf if query.limit is None else query.limit
    node, left, passed_over = b"", limit, 0
    cursor.seek(start)
    while cursor.valid():
        key = cursor.key()
        if stop is not None and key >= stop:
            return
        zero_at = key.index(0)
        flag, end = key[zero_at + 1], key[zero_at + 2 :]
        if zero_at != len(node) or not key.startswith(node):
            node, left, passed_over = key[:zero_at], limit, 0
            nodes += 1
            if query.nodes_max is not None and nodes > query.nodes_max:
                raise TooBroadError
        if not flag & wanted or (flag != _SUBSCRIPTION and (left <= 0 or end[:8] > oldest)):
            passed_over += 1
            if passed_over >= _STEPS_BEFORE_JUMP:
                cursor.seek(node + bytes((0, flag + 1)))
                passed_over = 0
                continue
        elif flag != _SUBSCRIPTION and end[:8] < newest:
            cursor.seek(b"%b\x00\x02%b" % (node, newest))
            continue
        elif flag == _SUBSCRIPTION:
            found.subscriptions.append((node, end, decode_subscription(cursor.value())))
        else:
            publication = decode_publication(cursor.value())
            if _is_wanted(publication, query):
                found.publications.append((node, end, publication))
                left -= 1
        cursor.next()


def _is_wanted(publication: StoredPublication, query: Query) -> bool:
    return publication.expires_s > query.now_s and query.from_s <= publication.made_s < query.until_s
