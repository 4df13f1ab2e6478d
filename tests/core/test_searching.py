"""Searching kept publications: the newest first, slice by slice, and how far an answer has come."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.messages import FindPublications, Kept, KeptBatch
from services.matcher import searching
from services.matcher.filing import filed_publications
from services.matcher.searching import Judge, Search
from services.matcher.storage.dual import DualDB
from services.matcher.storage.settings import StorageSettings
from tests.core.kept_cases import ORIGIN, batch, on_topic, question
from tests.core.matching_cases import content, record

NOW_S = 1000.0
SETTINGS = StorageSettings(retention_s=100.0, retention_s_max=500.0)
POINT = {"type": "point", "lat": 40.0, "lon": 3.0}


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[DualDB]:
    opened = DualDB(tmp_path, SETTINGS, NOW_S)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "RECORDS_AT_ONCE", 3)


def keep(storage: DualDB, *batches: KeptBatch, now_s: float = NOW_S) -> None:
    storage.put([filed for one in batches for filed in filed_publications(one, now_s)], now_s)


def at(seconds: float, sequence: int, *contents: bytes) -> KeptBatch:
    return batch(sequence, *(contents or (b"{}",)), published_s=NOW_S + seconds)


def searched(storage: DualDB, asked: FindPublications, now_s: float = NOW_S) -> Search:
    search = Search(asked)
    while not search.is_done:
        search.step(storage, now_s)
    return search


def found(storage: DualDB, asked: FindPublications | None = None, now_s: float = NOW_S) -> list[tuple[int, int]]:
    """Sequence and place of all that one answer has."""
    return [(kept.sequence, kept.place) for kept in searched(storage, asked or question(), now_s).found]


# What is found


def test_the_newest_come_first(storage: DualDB) -> None:
    keep(storage, at(-3, 1), at(-1, 2, b"{}", b"{}", b"{}"), at(-2, 3, on_topic("a"), on_topic("a")))
    assert found(storage) == [(2, 2), (2, 1), (2, 0), (3, 1), (3, 0), (1, 0)]


def test_each_is_told_with_its_batch(storage: DualDB) -> None:
    own = on_topic("a", n=1)
    keep(storage, batch(7, own, places=[4], previous=6, published_s=NOW_S - 1))
    search = searched(storage, question())
    assert search.found == [Kept(NOW_S - 1, ORIGIN, 7, 4, own, 6, expires_s=NOW_S + 99)]
    assert search.reached_s is None


def test_nothing_is_kept_so_nothing_is_found(storage: DualDB) -> None:
    search = searched(storage, question())
    assert (search.found, search.reached_s) == ([], None)


def test_only_what_matches_is_found(storage: DualDB) -> None:
    keep(storage, at(-2, 1, content({"n": 1}), content({"n": 2}, text="taxes"), on_topic("a/b", n=3)), at(-1, 2))
    assert found(storage, question(1, record("s-1", "n = 2"))) == [(1, 1)]
    assert found(storage, question(1, record("s-1", words=("tax",)))) == [(1, 1)]
    assert found(storage, question(1, record("s-1", topic="a"))) == [(1, 2)]
    assert found(storage, question(1, record("s-1", topic="a/b/c"))) == [(1, 2)]
    assert found(storage, question(1, record("s-1", topic="b"))) == []


def test_what_lies_in_several_lists_is_found_once(storage: DualDB) -> None:
    across = {"type": "box", "south": -0.005, "west": -0.01, "north": 0.005, "east": 0.01}
    keep(storage, *(at(-number, number, content(topic="a", zone=across)) for number in range(1, 9)))
    expected = [(number, 0) for number in range(1, 9)]
    assert found(storage) == found(storage, question(1, record("s-1", zone=across))) == expected
    assert found(storage, question(1, record("s-1", zone=POINT))) == []


def test_where_there_are_very_many_lists_everything_is_looked_through(
    storage: DualDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "LISTS_MAX", 3)
    keep(storage, *(at(-number, number, on_topic(f"a/{number}"), on_topic("b")) for number in range(1, 9)))
    asked = question(1, record("s-1", topic="a/#"))
    assert found(storage, asked) == [(number, 0) for number in range(1, 9)]


def test_the_window_has_its_beginning_and_not_its_end(storage: DualDB) -> None:
    keep(storage, *(at(-number, number) for number in range(1, 6)))
    assert found(storage, question(from_s=NOW_S - 4, until_s=NOW_S - 2)) == [(3, 0), (4, 0)]
    assert found(storage, question(from_s=math.nextafter(NOW_S - 4, math.inf), until_s=NOW_S - 2)) == [(3, 0)]
    after = math.nextafter(NOW_S - 2, math.inf)
    assert found(storage, question(from_s=NOW_S - 4, until_s=after)) == [(2, 0), (3, 0), (4, 0)]


def test_what_has_expired_is_never_found(storage: DualDB) -> None:
    keep(storage, at(-50, 1), at(-1, 2, content(expires="1970-01-01T00:16:45Z")), at(-1, 3))
    assert found(storage, now_s=1004.999) == [(2, 0), (3, 0), (1, 0)]
    assert found(storage, now_s=1005.0) == [(3, 0), (1, 0)]
    assert found(storage, now_s=1049.999) == [(3, 0), (1, 0)]
    assert found(storage, now_s=1050.0) == [(3, 0)]


def expiring(several: int) -> list[KeptBatch]:
    """They expire at 1005 s."""
    return [at(-number, number, content(expires="1970-01-01T00:16:45Z")) for number in range(1, several + 1)]


@pytest.mark.parametrize("looked_at", [1, 2, 4])
def test_what_expires_while_others_have_their_turn_is_not_found(
    storage: DualDB, monkeypatch: pytest.MonkeyPatch, looked_at: int
) -> None:
    """Neither what was found before, nor what was only read."""
    monkeypatch.setattr(searching, "PUBLICATIONS_AT_ONCE", looked_at)
    keep(storage, *expiring(6), at(-9, 7))
    search = Search(question())
    search.step(storage, 1004.999)
    assert search.found
    while not search.is_done:
        search.step(storage, 1005.0)
    assert ([kept.sequence for kept in search.found], search.reached_s) == ([7], None)


def test_an_answer_says_when_its_publications_expire(storage: DualDB) -> None:
    keep(storage, *expiring(1), at(-2, 2))
    assert [kept.expires_s for kept in searched(storage, question()).found] == [1005.0, NOW_S - 2 + 100.0]


# How far an answer comes


def row(storage: DualDB, several: int) -> None:
    """One batch in each second, the first one is the newest."""
    keep(storage, *(at(-number, number) for number in range(1, several + 1)))


def ends_behind(search: Search, last: int) -> bool:
    """Whether it says that it came to this one of a row, and not to the next."""
    return search.reached_s is not None and NOW_S - last - 1 <= search.reached_s < NOW_S - last


def test_an_answer_that_has_enough_says_how_far_it_came(storage: DualDB) -> None:
    row(storage, 9)
    search = searched(storage, question(limit=2))
    assert [kept.sequence for kept in search.found] == [1, 2]
    assert ends_behind(search, 2)


def test_the_next_answer_goes_on_from_there(storage: DualDB) -> None:
    row(storage, 4)
    first = searched(storage, question(limit=2))
    assert first.reached_s is not None
    last = searched(storage, question(limit=3, until_s=math.nextafter(first.reached_s, math.inf)))
    assert [kept.sequence for kept in last.found] == [3, 4]
    assert last.reached_s is None or ends_behind(last, 4)


def test_an_answer_that_has_looked_at_enough_ends(storage: DualDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "LOOKED_AT_MAX", 4)
    row(storage, 9)
    search = searched(storage, question(1, record("s-1", "n = 1")))
    assert search.found == []
    assert ends_behind(search, 4)


def test_an_answer_that_is_long_enough_ends(storage: DualDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FOUND_BYTES_MAX", 4)
    row(storage, 9)
    assert ends_behind(searched(storage, question()), 2)
    assert searched(storage, question(1, record("s-1", "n = 1"))).reached_s is None  # nothing is found, so all is seen


def test_an_answer_is_not_much_longer_than_it_may_be(storage: DualDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FOUND_BYTES_MAX", 2000)
    monkeypatch.setattr(searching, "RECORDS_AT_ONCE", 50)
    keep(storage, *(at(-number, number, *[content(text="x" * 500)] * 3) for number in range(1, 40)))
    assert len(searched(storage, question()).found) == 6


def test_a_batch_that_is_more_than_enough_is_found_whole(storage: DualDB) -> None:
    keep(storage, at(-1, 1, b"{}", b"{}", b"{}"), at(-2, 2))
    search = searched(storage, question(limit=1))
    assert [(kept.sequence, kept.place) for kept in search.found] == [(1, 2), (1, 1), (1, 0)]
    assert ends_behind(search, 1)


def test_all_of_one_moment_are_in_one_answer(storage: DualDB) -> None:
    """They could not be told apart by their time."""
    keep(storage, at(-1, 1), *(at(-2, number) for number in range(2, 12)), at(-3, 12), at(-4, 13))
    search = searched(storage, question(limit=2))
    assert search.found[0].sequence == 1
    assert {kept.sequence for kept in search.found} >= set(range(1, 12))
    assert search.reached_s is not None
    assert search.reached_s < NOW_S - 2


def test_nothing_but_one_moment_is_found_whole(storage: DualDB) -> None:
    keep(storage, *(at(-2, number) for number in range(1, 14)))
    search = searched(storage, question(limit=1))
    assert sorted(kept.sequence for kept in search.found) == list(range(1, 14))
    assert search.reached_s is None or search.reached_s < NOW_S - 2


def test_a_step_looks_at_a_bounded_number(storage: DualDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "PUBLICATIONS_AT_ONCE", 2)
    keep(storage, at(-1, 1, b"{}", b"{}", b"{}"), *(at(-number, number) for number in range(2, 5)))
    search = Search(question())
    counts = []
    while not search.is_done:
        search.step(storage, NOW_S)
        counts.append(len(search.found))
    assert counts == [3, 4, 6]


# What was given already


def test_what_others_were_given_in_their_time_is_left_out(storage: DualDB) -> None:
    keep(storage, *(at(-number, number, content({"n": number % 2})) for number in range(1, 8)))
    other = record("s-2", "n = 1", given_from_s=NOW_S - 5, until_s=NOW_S - 1)
    assert [sequence for sequence, _ in found(storage, question(without=[other]))] == [1, 2, 4, 6, 7]
    third = record("s-3", given_from_s=NOW_S - 2)
    assert [sequence for sequence, _ in found(storage, question(without=[other, third]))] == [4, 6, 7]


def test_a_time_begins_where_it_was_given_what_it_matches_and_not_before_its_from() -> None:
    known, later, unknown = (
        Judge(record("s-1", created_s=50.0, from_s=from_s, until_s=60.0, given_from_s=given_from_s))
        for from_s, given_from_s in ((40.0, 45.0), (55.0, 50.0), (40.0, math.inf))
    )
    assert [known.was_given(moment_s) for moment_s in (44.9, 45.0, 59.9, 60.0)] == [False, True, True, False]
    assert [later.was_given(moment_s) for moment_s in (54.9, 55.0)] == [False, True]
    assert not any(unknown.was_given(moment_s) for moment_s in (40.0, 50.0, 59.9))
    assert Judge(record("s-1", given_from_s=50.0)).was_given(1e12)
