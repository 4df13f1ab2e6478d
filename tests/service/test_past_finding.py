"""Finding the past: matchers are asked page by page, and what they find together is what there is."""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from braid.config import Settings
from braid.messages import FindPublications, Kept, PublicationsFound, UnderWay
from braid.problems import Problem
from braid.subscription import Subscription
from services.connpoint import past as past_module
from services.connpoint.door import KeptPublication
from services.connpoint.past import PastFinder
from services.connpoint.questions import Questions
from tests.core.kept_cases import EVERYTHING, ORIGIN, kept, under_way
from tests.core.matching_cases import record
from tests.service.waiting import until

FIRST, SECOND = "matcher-1", "matcher-2"
ALWAYS = -math.inf
MANY_BYTES = 10**9


class Matchers(Questions):
    """Answer at once: each what it keeps, a few in one answer and all of one moment together."""

    def __init__(self, **kept_by: list[Kept]) -> None:
        super().__init__(1.0, lambda _sends: None)
        self.kept = {name.replace("_", "-"): found for name, found in kept_by.items()}
        self.page = dict.fromkeys(self.kept, 1000)
        self.under_way: dict[str, list[dict[str, UnderWay]]] = {name: [] for name in self.kept}  # in each answer
        self.asked: list[FindPublications] = []

    async def ask(self, key: int, make: Callable[[int, int], Any], *, through_all: bool = False) -> list[Any]:
        assert through_all
        await asyncio.sleep(0)
        question = make(4, len(self.asked))
        self.asked.append(question)
        return [self._answer(name, question) for name in self.kept]

    def _answer(self, name: str, question: FindPublications) -> PublicationsFound:
        found = [one for one in self.kept[name] if question.from_s <= one.published_s < question.until_s]
        moments = sorted({one.published_s for one in found}, reverse=True)
        limit = min(self.page[name], question.limit)
        taken = [one for one in found if one.published_s in moments[:limit]]
        reached_s = moments[limit] if len(moments) > limit else None
        known = self.under_way[name].pop(0) if self.under_way[name] else {}
        newest = sorted(taken, key=lambda one: -one.published_s)
        return PublicationsFound(4, question.ref, "connpoint-1", name, newest, known, reached_s, [*self.kept])


def at(moment_s: float, sequence: int, **changes: Any) -> Kept:
    return kept(sequence, published_s=moment_s, **changes)


def finder(matchers: Matchers) -> PastFinder:
    return PastFinder("connpoint-1", Settings(), matchers)


async def find(
    matchers: Matchers, limit: int = 100, from_s: float = ALWAYS, bytes_max: int = MANY_BYTES
) -> tuple[list[int], bool]:
    found = await finder(matchers).find_past(EVERYTHING, from_s, limit, bytes_max, [])
    return [one.sequence for one in found.newest], found.is_complete


async def test_what_all_matchers_have_comes_together_the_newest_first() -> None:
    matchers = Matchers(matcher_1=[at(1, 1), at(4, 4)], matcher_2=[at(3, 3), at(2, 2)])
    assert await find(matchers) == ([4, 3, 2, 1], True)
    other = record("s-2")
    await finder(matchers).find_past(EVERYTHING, 1.5, 50, MANY_BYTES, [other])
    expected = FindPublications(4, 1, "connpoint-1", EVERYTHING, 1.5, math.inf, 50, [other])
    assert matchers.asked[1] == expected


async def test_of_one_moment_the_later_places_are_newer() -> None:
    matchers = Matchers(matcher_1=[at(1, 2), kept(1, 1, published_s=1), kept(1, 0, published_s=1)], matcher_2=[])
    found = await finder(matchers).find_past(EVERYTHING, ALWAYS, 10, MANY_BYTES, [])
    assert [(one.sequence, one.place) for one in found.newest] == [(2, 0), (1, 1), (1, 0)]


async def test_nobody_has_anything() -> None:
    assert await find(Matchers(matcher_1=[], matcher_2=[])) == ([], True)


async def test_what_is_kept_twice_counts_once() -> None:
    both = [at(moment_s, int(moment_s)) for moment_s in (1.0, 2.0, 3.0)]
    matchers = Matchers(matcher_1=both, matcher_2=both[1:])
    assert await find(matchers) == ([3, 2, 1], True)
    assert await find(matchers, limit=3) == ([3, 2, 1], True)
    assert await find(matchers, limit=2) == ([3, 2], False)


async def test_each_page_goes_as_far_as_the_slowest_has_come() -> None:
    matchers = Matchers(matcher_1=[at(n, n) for n in range(0, 20, 2)], matcher_2=[at(n, n) for n in range(1, 20, 2)])
    matchers.page = {FIRST: 2, SECOND: 5}
    assert await find(matchers) == (list(range(19, -1, -1)), True)
    until_s = [question.until_s for question in matchers.asked]
    assert until_s[:3] == [math.inf, math.nextafter(14, math.inf), math.nextafter(10, math.inf)]


async def test_what_only_the_faster_has_seen_is_not_given_before_its_time() -> None:
    """The slower one may have something newer than it."""
    matchers = Matchers(matcher_1=[at(9, 9), at(8, 8), at(7, 7)], matcher_2=[at(1, 1), at(0, 0)])
    matchers.page = {FIRST: 1, SECOND: 5}
    assert await find(matchers, limit=2) == ([9, 8], False)
    matchers.page = {FIRST: 1, SECOND: 1}
    assert await find(matchers, limit=4) == ([9, 8, 7, 1], False)


async def test_no_more_is_asked_for_than_it_takes() -> None:
    matchers = Matchers(matcher_1=[at(n, n) for n in range(20)])
    matchers.page = {FIRST: 5}
    assert await find(matchers, limit=7) == ([19, 18, 17, 16, 15, 14, 13], False)
    assert len(matchers.asked) == 2
    assert {question.limit for question in matchers.asked} == {7}


async def test_one_answer_is_bounded_also_where_much_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_module, "_LIMIT", 3)
    matchers = Matchers(matcher_1=[at(n, n) for n in range(10)])
    assert await find(matchers, limit=1000) == (list(range(9, -1, -1)), True)
    assert {question.limit for question in matchers.asked} == {3}


@pytest.mark.parametrize(("several", "is_complete"), [(4, True), (5, True), (6, False)])
async def test_it_is_complete_when_there_is_no_more_than_was_wanted(several: int, is_complete: bool) -> None:
    matchers = Matchers(matcher_1=[at(n, n) for n in range(several)])
    matchers.page = {FIRST: 2}
    assert await find(matchers, limit=5) == (list(range(several - 1, -1, -1))[:5], is_complete)


async def test_an_empty_page_is_not_the_end() -> None:
    """A matcher that has looked at enough says how far it came, although it found nothing."""
    matchers = Matchers(matcher_1=[at(1, 1)], matcher_2=[])
    given = matchers._answer

    def answer(name: str, question: FindPublications) -> PublicationsFound:
        found = given(name, question)
        found.reached_s = 5.0 if name == SECOND and question.until_s == math.inf else found.reached_s
        return found

    matchers._answer = answer  # type: ignore[method-assign]  # it looks in two goes
    assert await find(matchers) == ([1], True)
    assert len(matchers.asked) == 2


async def test_when_it_takes_too_long_what_was_found_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    matchers = Matchers(matcher_1=[at(n, n) for n in range(10)])
    matchers.page = {FIRST: 1}
    monkeypatch.setattr(past_module, "_FIND_S_MAX", 0.0)
    assert await find(matchers) == ([9], False)


# The order

NEW_S = time.time() + 3600  # what is older has settled, however long it takes until a test is run


async def test_what_was_published_before_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_module, "_ORDER_PAUSE_S", 0.0)
    matchers = Matchers(matcher_1=[at(NEW_S, 7, previous=6)])
    missing, there = {ORIGIN: under_way(5, {7: 6})}, {ORIGIN: under_way(5, {7: 6, 6: 0})}
    matchers.under_way = {FIRST: [missing, missing, there]}
    assert await find(matchers) == ([7], True)
    assert len(matchers.asked) == 3


async def test_what_is_kept_meanwhile_is_given_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_module, "_ORDER_PAUSE_S", 0.0)
    matchers = Matchers(matcher_1=[at(NEW_S, 7, previous=6)])
    finding = asyncio.ensure_future(find(matchers))
    await until(lambda: len(matchers.asked) > 3)
    matchers.kept[FIRST].append(at(NEW_S - 1, 6, previous=5, is_confirmed=True))
    matchers.under_way = {FIRST: [{}, {ORIGIN: under_way(6, {})}]}
    assert await finding == ([7, 6], True)


async def test_it_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_module, "_ORDER_S_MAX", 0.05)
    monkeypatch.setattr(past_module, "_ORDER_PAUSE_S", 0.01)
    matchers = Matchers(matcher_1=[at(NEW_S, 7, previous=6)])
    begun_s = time.monotonic()
    assert await find(matchers) == ([7], True)
    assert 0.05 <= time.monotonic() - begun_s < 5
    assert 2 <= len(matchers.asked) <= 7


async def test_what_another_matcher_keeps_is_before_it() -> None:
    matchers = Matchers(matcher_1=[at(NEW_S, 7, previous=6)], matcher_2=[])
    matchers.under_way = {FIRST: [{ORIGIN: under_way(5, {7: 6})}], SECOND: [{ORIGIN: under_way(4, {6: 0})}]}
    assert await find(matchers) == ([7], True)
    assert len(matchers.asked) == 1


async def test_what_is_kept_behind_the_first_question_is_still_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is newer than what the next question asks for, so nobody has looked for it."""
    monkeypatch.setattr(past_module, "_ORDER_PAUSE_S", 0.0)
    matchers = Matchers(matcher_1=[at(NEW_S, 7, previous=6), at(1, 1, is_confirmed=True)])
    matchers.page = {FIRST: 1}
    missing, there = {ORIGIN: under_way(5, {7: 6})}, {ORIGIN: under_way(5, {7: 6, 6: 0})}
    matchers.under_way = {FIRST: [missing, there, there, there, there]}
    given = matchers._answer

    def answer(name: str, question: FindPublications) -> PublicationsFound:
        found = given(name, question)
        if len(matchers.asked) == 1:
            matchers.kept[FIRST].append(at(NEW_S - 1, 6))
        return found

    matchers._answer = answer  # type: ignore[method-assign]  # it is kept behind the first answer
    assert await find(matchers) == ([7, 6, 1], True)
    assert len(matchers.asked) == 5


# What a client asks for


async def test_kept_publications_are_found_by_what_a_client_writes() -> None:
    matchers = Matchers(matcher_1=[at(1, 1), at(3, 3)], matcher_2=[at(2, 2)])
    wanted = Subscription(filter="n=1", from_=2, until=10)
    found = await finder(matchers).find_publications(wanted, 10)
    assert found == [KeptPublication(3, b"3.0"), KeptPublication(2, b"2.0")]
    (question,) = matchers.asked
    assert (question.record.filter, question.record.from_s, question.record.until_s) == ("n = 1", None, None)
    assert (question.from_s, question.until_s, question.limit, question.without) == (2.0, 10.0, 10, [])


async def test_the_order_of_publishers_is_not_waited_for_there() -> None:
    matchers = Matchers(matcher_1=[at(NEW_S, 7, previous=6)])
    assert len(await finder(matchers).find_publications(Subscription(), 10)) == 1
    assert len(matchers.asked) == 1


async def test_what_cannot_be_read_is_not_asked() -> None:
    matchers = Matchers(matcher_1=[])
    with pytest.raises(Problem):
        await finder(matchers).find_publications(Subscription(filter="n >"), 10)
    with pytest.raises(Problem):
        await finder(matchers).find_publications(Subscription(from_=5, until=5), 10)
    assert matchers.asked == []


async def test_an_answer_of_a_matcher_reaches_its_question() -> None:
    questions = Questions(1.0, lambda _sends: None)
    heard: list[Any] = []
    questions.on_answer = lambda *given: heard.append(given)  # type: ignore[method-assign]  # only this is of interest
    answer = PublicationsFound(4, 7, "connpoint-1", SECOND, [], {}, None, [FIRST, SECOND])
    PastFinder("connpoint-1", Settings(), questions).on_publications_found(answer)
    assert heard == [(7, SECOND, answer, (FIRST, SECOND))]


async def test_what_expired_while_it_was_looked_for_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr(time, "time", lambda: now_s)
    gone = [at(float(n), n, expires_s=now_s) for n in (6, 7)]
    left = [at(float(n), n, expires_s=now_s + 0.1) for n in range(1, 6)]
    matchers = Matchers(matcher_1=[*left, *gone])
    assert await find(matchers) == ([5, 4, 3, 2, 1], True)
    found = await finder(matchers).find_publications(Subscription(), 2)
    assert [one.published_s for one in found] == [5.0, 4.0]


async def test_others_are_looked_for_in_place_of_what_expired() -> None:
    matchers = Matchers(matcher_1=[at(float(n), n, expires_s=0.0 if n > 3 else math.inf) for n in range(8)])
    matchers.page = {FIRST: 3}
    found = await finder(matchers).find_publications(Subscription(), 2)
    assert [one.published_s for one in found] == [3.0, 2.0]


async def test_no_more_is_collected_than_fits() -> None:
    """What large publications weigh is known only when they are there, so one answer of each may be too much."""
    matchers = Matchers(matcher_1=[at(n, n, content=bytes(1000)) for n in range(20)], matcher_2=[])
    matchers.page = {FIRST: 2, SECOND: 2}
    assert await find(matchers, bytes_max=5000) == ([19, 18, 17, 16, 15, 14], False)
    assert len(matchers.asked) == 3
