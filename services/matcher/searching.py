"""Looking through kept publications for what a subscription matches, in slices so that nobody waits for long.

The newest are looked at first. A search ends when it has found enough, or has looked at enough for one answer: then it
says how far it came, and whoever asked asks again from there. Others have their turn between two slices, so what has
been read or found may expire meanwhile: both are asked for it again.
"""

import math

import msgspec

from braid.matching.chains import Attributes
from braid.matching.checking import CheckedSubscription, Seen
from braid.matching.meaning import Publication, read_publication
from braid.matching.previous import read_published
from braid.messages import FindPublications, Kept
from braid.subscription import SubscriptionRecord
from braid.words import stems_of, stems_of_words
from services.matcher.filing import EVERYTHING, lists_of_subscription, read_body, topic_list
from services.matcher.storage.interface import Storage
from services.matcher.storage.reading import TooBroadError
from services.matcher.storage.records import Reach, StoredPublication

RECORDS_AT_ONCE = 25
LISTS_MAX = 64  # below those that are named; where there are more, everything is looked through instead
PUBLICATIONS_AT_ONCE = 200  # looked at in one slice, somewhat more with the last record
LOOKED_AT_MAX = 20_000  # publications, for one answer
FOUND_BYTES_MAX = 1024 * 1024  # in one answer, somewhat more with the last record


class Judge:
    """Says what one subscription accepts, whatever the time is now."""

    def __init__(self, record: SubscriptionRecord) -> None:
        self.record = record
        self._checked = CheckedSubscription.of(record)
        self._stems = frozenset(stems_of_words(record.words))
        self.looks_back = bool(self._checked.looks_back_to)

    def accepts(self, seen: Seen) -> bool:
        if self._stems and not self._stems.issubset(stems_of(seen.publication.text)):
            return False
        return self._checked.accepts(seen)

    def was_given(self, published_s: float) -> bool:
        """Whether its time held that moment: from where what it was given begins, and not before its `from`."""
        record = self.record
        from_s = max(record.given_from_s, -math.inf if record.from_s is None else record.from_s)
        return from_s <= published_s < (math.inf if record.until_s is None else record.until_s)


class Search:
    def __init__(self, question: FindPublications) -> None:
        self.question = question
        self.found: list[Kept] = []  # the newest first
        self.reached_s: float | None = question.until_s  # later ones were looked at; nothing: all
        self.is_done = False
        self._judge: Judge | None = None  # made with the first step: very many may be asked about
        self._without: list[Judge] = []
        self._looks_back = False
        self._lists: tuple[bytes, ...] = ()
        self._until_s = question.until_s
        self._waiting: list[StoredPublication] = []  # read, and not looked at yet; the newest last
        self._read_ids: set[str] = (
            set()
        )  # the last ones; of two moments that are close to one another, one may come again
        self._is_last = False
        self._looked_at = 0
        self._bytes = 0

    def step(self, storage: Storage, now_s: float) -> None:
        """One slice."""
        judge = self._judge or self._begin()
        if not self._waiting:
            self._read(storage, now_s)
        looked_at = self._looked_at
        while self._waiting and self._looked_at - looked_at < PUBLICATIONS_AT_ONCE:
            record = self._waiting.pop()
            if record.expires_s > now_s:
                self._look(judge, record, storage, now_s)
            if self._is_enough() and not self._has_more_of(record.made_s):
                self.reached_s, self.is_done = math.nextafter(record.made_s, -math.inf), True
                break
        if not self._waiting and self._is_last:
            self.reached_s, self.is_done = None, True
        if self.is_done:
            self.found = [kept for kept in self.found if kept.expires_s > now_s]

    def _has_more_of(self, moment_s: float) -> bool:
        """Those of one moment are looked at together: whoever goes on from there asks for earlier ones."""
        return bool(self._waiting) and _microseconds(self._waiting[-1].made_s) == _microseconds(moment_s)

    def _begin(self) -> Judge:
        self._judge = Judge(self.question.record)
        self._without = [Judge(record) for record in self.question.without]
        self._looks_back = self._judge.looks_back or any(judge.looks_back for judge in self._without)
        self._lists = lists_of_subscription(self.question.record)
        return self._judge

    def _is_enough(self) -> bool:
        return (
            len(self.found) >= self.question.limit or self._bytes >= FOUND_BYTES_MAX or self._looked_at >= LOOKED_AT_MAX
        )

    def _read(self, storage: Storage, now_s: float) -> None:
        """The next newest. Those of the last moment may not be all of that moment: they are read again.

        Lists are sorted by microseconds, so moments are told apart by these.
        """
        limit = RECORDS_AT_ONCE
        while True:
            records = self._newest(storage, now_s, limit)
            self._is_last = len(records) < limit
            if self._is_last:
                break
            oldest = _microseconds(records[-1].made_s)
            whole = [record for record in records if _microseconds(record.made_s) > oldest]
            if whole:
                records, self._until_s = whole, math.nextafter((oldest + 1) / 1e6, math.inf)
                break
            limit *= 2
        self._waiting = [record for record in reversed(records) if record.id not in self._read_ids]
        self._read_ids = {record.id for record in records}

    def _newest(self, storage: Storage, now_s: float, limit: int) -> list[StoredPublication]:
        from_s, until_s = self.question.from_s, self._until_s
        try:
            return storage.get_data(
                self._lists, now_s, from_s=from_s, until_s=until_s, reach=Reach.LINE, limit=limit, nodes_max=LISTS_MAX
            )
        except TooBroadError:
            self._lists = EVERYTHING
            return storage.get_data(self._lists, now_s, from_s=from_s, until_s=until_s, limit=limit)

    def _look(self, judge: Judge, record: StoredPublication, storage: Storage, now_s: float) -> None:
        body = read_body(record.body)
        found: list[Kept] = []
        for place, content in zip(body.places, body.contents, strict=True):
            publication = _readable(content)
            if publication is None:
                continue  # nobody was ever given it
            previous: Attributes | None = None
            if self._looks_back and publication.topic:
                position = (record.made_s, body.origin, body.sequence, place)
                before = previous_of(storage, publication.topic, position, now_s)
                previous = None if before is None else read_published(before).attributes
            seen = Seen(publication, previous)
            if judge.accepts(seen) and not self._was_given(record, seen):
                found.append(
                    Kept(
                        record.made_s,
                        body.origin,
                        body.sequence,
                        place,
                        content,
                        body.previous,
                        expires_s=record.expires_s,
                    )
                )
                self._bytes += len(content)
        self.found += reversed(found)
        self._looked_at += len(body.contents)

    def _was_given(self, record: StoredPublication, seen: Seen) -> bool:
        return any(judge.was_given(record.made_s) and judge.accepts(seen) for judge in self._without)


Position = tuple[float, str, int, int]  # when it was published, origin, sequence, place


def previous_of(storage: Storage, topic: str, position: Position, now_s: float) -> bytes | None:
    """What came before it on the same topic; of one moment, in the order of origins, sequences and places."""
    limit = 4
    until_s = math.nextafter(position[0], math.inf)
    while True:
        records = storage.get_data([topic_list(topic)], now_s, until_s=until_s, limit=limit)
        before = [
            ((record.made_s, body.origin, body.sequence, place), content)
            for record in records
            for body in (read_body(record.body),)
            for place, content in zip(body.places, body.contents, strict=True)
        ]
        latest = max((one for one in before if one[0] < position), default=None)
        is_all = len(records) < limit
        # Of the oldest moment that was read, there may be more.
        if is_all or (latest is not None and latest[0][0] > records[-1].made_s):
            return None if latest is None else latest[1]
        limit *= 4


def _microseconds(moment_s: float) -> int:
    return int(moment_s * 1e6)


def _readable(content: bytes) -> Publication | None:
    try:
        return read_publication(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
