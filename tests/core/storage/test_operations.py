"""SUBSCRIBE and PUBLISH, told as stories; all layouts where they agree."""

import os
import random
from pathlib import Path

import pytest

from services.matcher.storage.dual import DualDB
from services.matcher.storage.interface import Storage
from services.matcher.storage.keys import list_id
from services.matcher.storage.quadtree import cell_list
from services.matcher.storage.records import Filed, Kind, Reach
from services.matcher.storage.repeating import RepQueries
from tests.core.storage.cases import LAYOUTS, NOW_S, SMALL, A, everything, publication, subscription

INSTANT = ["dual", "two"]


@pytest.fixture(params=INSTANT)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return LAYOUTS[request.param](tmp_path, SMALL, NOW_S)


def test_the_past_first_then_the_stream_nothing_missing_nothing_twice(storage: Storage) -> None:
    storage.publish(publication("p1", NOW_S), [A], NOW_S)
    given = storage.subscribe(subscription("s", NOW_S, from_s=NOW_S - 10), [A], NOW_S)
    matched = storage.publish(publication("p2", NOW_S), [A], NOW_S)  # in the same instant
    assert [one.id for one in given] == ["p1"]
    assert [one.id for one in matched.subscriptions] == ["s"]


def test_newest_first(storage: Storage) -> None:
    for number in (2, 0, 3, 1):
        storage.publish(publication(f"p{number}", NOW_S + number, expires_s=NOW_S + 9 - number), [A], NOW_S + 3)
    assert [one.id for one in storage.get_data([A], NOW_S + 3)] == ["p3", "p2", "p1", "p0"]
    assert [one.id for one in storage.get_data([A], NOW_S + 3, limit=2)] == ["p3", "p2"]


def test_valid_is_what_has_not_expired_when_it_is_read(storage: Storage) -> None:
    storage.publish(publication("p", NOW_S, expires_s=NOW_S + 1), [A], NOW_S)
    storage.subscribe(subscription("s", NOW_S, until_s=NOW_S + 1), [A], NOW_S)
    assert len(storage.get_data([A], NOW_S + 0.999)) == 1
    assert len(storage.get_subscribers([A], NOW_S, NOW_S + 0.999)) == 1
    assert storage.get_data([A], NOW_S + 1) == []
    assert storage.get_subscribers([A], NOW_S, NOW_S + 1) == []


def test_a_window_that_lies_in_the_past_is_only_a_question(storage: Storage) -> None:
    for number in range(4):
        storage.publish(publication(f"p{number}", NOW_S + number), [A], NOW_S + number)
    asked = subscription("s", NOW_S + 4, from_s=NOW_S + 1, until_s=NOW_S + 3)
    assert [one.id for one in storage.subscribe(asked, [A], NOW_S + 4)] == ["p2", "p1"]
    assert everything(storage, Kind.SUBSCRIPTION, NOW_S + 4) == []


def test_retention_where_nothing_is_said_and_where_too_much_is(storage: Storage) -> None:
    storage.publish(publication("short"), [A], NOW_S)
    storage.publish(publication("long", expires_s=NOW_S + 1e9), [A], NOW_S)
    kept = {one.id: one.expires_s for one in storage.get_data([A], NOW_S)}
    assert kept == {"short": NOW_S + SMALL.retention_s, "long": NOW_S + SMALL.retention_s_max}


def test_self_join_of_a_publication_returns_what_came_before(storage: Storage) -> None:
    storage.subscribe(subscription("s"), [A], NOW_S)
    storage.publish(publication("p1", NOW_S), [A], NOW_S)
    storage.publish(publication("p2", NOW_S + 1), [A], NOW_S + 1)
    matched = storage.publish(
        publication("p3", NOW_S + 2), [A], NOW_S + 2, previous_from_s=NOW_S - 10, previous_limit=1
    )
    assert [one.id for one in matched.publications] == ["p2"]
    assert [one.id for one in matched.subscriptions] == ["s"]


def enter(storage: Storage, id: str, cell: str, now_s: float) -> list[str]:
    """A distinct subscription of ten seconds both ways, as of somebody who drives through the town."""
    new = subscription(id, now_s, from_s=now_s - 10, until_s=now_s + 10, distinct=True)
    return [one.id for one in storage.subscribe(new, [list_id(cell)], now_s)]


def test_distinct_whoever_comes_back_is_not_given_the_same_again(storage: Storage) -> None:
    storage.publish(publication("p1", NOW_S - 1), [list_id("c1")], NOW_S)
    assert enter(storage, "s1", "c1", NOW_S) == ["p1"]
    storage.publish(publication("p2", NOW_S + 1), [list_id("c1")], NOW_S + 1)
    assert enter(storage, "s2", "c2", NOW_S + 2) == []
    assert storage.unsubscribe(["s1"], NOW_S + 2) == 1
    storage.publish(publication("p3", NOW_S + 3), [list_id("c1")], NOW_S + 3)
    assert enter(storage, "s3", "c1", NOW_S + 4) == ["p3"]
    # Nobody else has had any of it.
    other = subscription("o", NOW_S + 4, subscriber="bob", from_s=NOW_S - 10, distinct=True)
    assert [one.id for one in storage.subscribe(other, [list_id("c1")], NOW_S + 4)] == ["p3", "p2", "p1"]


def test_distinct_asks_whether_the_earlier_one_accepted_it(storage: Storage) -> None:
    storage.publish(publication("p1"), [A], NOW_S)
    storage.subscribe(subscription("s1", body=b"only cats"), [A], NOW_S)
    new = subscription("s2", from_s=NOW_S - 1, distinct=True)
    given = storage.subscribe(new, [A], NOW_S, was_given=lambda other, _: other.body != b"only cats")
    assert [one.id for one in given] == ["p1"]


def test_distinct_what_the_window_of_the_earlier_one_did_not_hold_is_given(storage: Storage) -> None:
    storage.subscribe(subscription("s1", NOW_S - 5, from_s=NOW_S - 4), [A], NOW_S)
    storage.publish(publication("before", NOW_S - 4.5), [A], NOW_S)
    storage.publish(publication("after", NOW_S - 3), [A], NOW_S)
    new = subscription("s2", from_s=NOW_S - 10, distinct=True)
    assert [one.id for one in storage.subscribe(new, [A], NOW_S)] == ["before"]


@pytest.mark.parametrize(("distinct", "there_s", "over_s"), [(False, 0.0, 1.0), (True, 6.0, 7.0)])
def test_what_is_over_was_not_there_though_its_window_has_not_passed(
    storage: Storage, distinct: bool, there_s: float, over_s: float
) -> None:
    for id in ("s1", "s2"):
        storage.subscribe(subscription(id, until_s=NOW_S + 0.5, distinct=distinct), [A], NOW_S)
    assert storage.forget(["s1", "never-there"], NOW_S + there_s) == 1
    assert storage.forget(["s1", "s2"], NOW_S + over_s) == 0


def test_hierarchy_one_line_of_the_tree(storage: Storage) -> None:
    for cell in ((), (1,), (1, 4), (1, 4, 2), (1, 3), (2,)):
        name = ".".join(map(str, cell)) or "root"
        storage.subscribe(subscription(name), [cell_list(cell)], NOW_S)
    found = storage.get_subscribers([cell_list((1, 4))], NOW_S, NOW_S, reach=Reach.LINE)
    assert {one.id for one in found} == {"root", "1", "1.4", "1.4.2"}
    found = storage.get_subscribers([cell_list(())], NOW_S, NOW_S, reach=Reach.LINE)
    assert len(found) == 6


def test_hierarchy_jumps_over_long_lists_of_the_other_kind(storage: Storage) -> None:
    for number in range(60):
        storage.publish(publication(f"old{number}", NOW_S - 5), [cell_list((1, 2))], NOW_S)
        storage.publish(publication(f"new{number}", NOW_S), [cell_list((1, 2))], NOW_S)
    storage.subscribe(subscription("s1"), [cell_list((1, 2))], NOW_S)
    storage.subscribe(subscription("s2"), [cell_list((1, 3))], NOW_S)
    found = storage.get_data_and_subscribers([cell_list((1,))], NOW_S, NOW_S, from_s=NOW_S - 1, reach=Reach.LINE)
    assert {one.id for one in found.subscriptions} == {"s1", "s2"}
    assert {one.id for one in found.publications} == {f"new{number}" for number in range(60)}
    assert {one.id for one in storage.get_subscribers([cell_list((1,))], NOW_S, NOW_S, reach=Reach.LINE)} == {
        "s1",
        "s2",
    }


def test_time_does_not_go_back(storage: Storage) -> None:
    storage.publish(publication("p", NOW_S, expires_s=NOW_S + 1), [A], NOW_S)
    assert storage.get_data([A], NOW_S + 2) == []
    assert storage.get_data([A], NOW_S) == []


def test_a_clock_that_is_far_ahead_is_refused(storage: Storage) -> None:
    with pytest.raises(ValueError, match="ahead of the clock"):
        storage.publish(publication("p", NOW_S + 100), [A], NOW_S)


def test_pieces_of_some_lists_only(storage: Storage) -> None:
    filed = [
        Filed(publication(f"p{number}", NOW_S, expires_s=NOW_S + 1 + number), (list_id(str(number % 3)),))
        for number in range(20)
    ]
    storage.put(filed, NOW_S)
    after, found = None, set()
    while True:
        piece = storage.read_piece(Kind.PUBLICATION, NOW_S, after, 3, [list_id("0"), list_id("2")])
        found |= {one.record.id for one in piece.filed}
        after = piece.next
        if after is None:
            break
    assert found == {f"p{number}" for number in range(20) if number % 3 != 1}
    assert storage.remove_publications(filed[:5]) == 5
    assert storage.remove_publications(filed[:5]) == 0
    assert len(everything(storage, Kind.PUBLICATION, NOW_S)) == 15


def test_repeated_queries_come_late_and_miss_what_is_short(tmp_path: Path) -> None:
    storage = RepQueries(tmp_path, SMALL, NOW_S)
    storage.publish(publication("past", NOW_S - 1), [A], NOW_S)
    given = storage.subscribe(subscription("s", NOW_S, from_s=NOW_S - 5, until_s=NOW_S + 9), [A], NOW_S)
    assert [one.id for one in given] == ["past"]
    assert storage.publish(publication("p1", NOW_S + 0.25), [A], NOW_S + 0.25).subscriptions == []
    storage.publish(publication("short", NOW_S + 0.25, expires_s=NOW_S + 0.5), [A], NOW_S + 0.25)
    assert storage.due(NOW_S + 0.75) == []
    (answer,) = storage.due(NOW_S + 1)
    assert (answer.subscription.id, [one.id for one in answer.publications]) == ("s", ["p1"])
    assert storage.due(NOW_S + 2) == []
    with pytest.raises(ValueError, match="given already"):
        storage.subscribe(subscription("d", distinct=True), [A], NOW_S + 2)
    storage.close()


@pytest.mark.parametrize("life_s", [0.0, 9.0])
def test_a_repeated_query_that_was_replaced_is_asked_once_or_not_at_all(tmp_path: Path, life_s: float) -> None:
    storage = RepQueries(tmp_path, SMALL, NOW_S)
    storage.subscribe(subscription("s", NOW_S, until_s=NOW_S + 5), [A], NOW_S)
    now_s = NOW_S + 1
    storage.publish(publication("p", NOW_S + 0.5), [A], now_s)
    storage.replace(subscription("s", NOW_S, until_s=now_s + life_s), [A], now_s)
    assert [one.subscription.until_s for one in storage.due(now_s)] == ([now_s + life_s] if life_s else [])
    storage.close()


def test_replacing_that_a_crash_interrupted_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = DualDB(tmp_path, SMALL, NOW_S)
    storage.subscribe(subscription("s", until_s=NOW_S + 3), [A], NOW_S)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(storage, "_write_filed", crash)
    with pytest.raises(KeyboardInterrupt):
        storage.replace(subscription("s"), [list_id("b")], NOW_S)
    monkeypatch.undo()
    storage.close()
    storage = DualDB(tmp_path, SMALL, NOW_S)
    assert [one.lists for one in everything(storage, Kind.SUBSCRIPTION, NOW_S)] == [(list_id("b"),)]
    storage.close()


@pytest.mark.parametrize("layout", ["dual", "two"])
def test_what_ended_somewhere_else_is_remembered_as_long(tmp_path: Path, layout: str) -> None:
    storage = LAYOUTS[layout](tmp_path, SMALL, NOW_S)
    b = list_id("b")
    storage.publish(publication("p", NOW_S - 2), [A], NOW_S)
    for _ in range(2):
        storage.remember([Filed(subscription("s", NOW_S - 5, until_s=NOW_S - 1, distinct=True), (A, b))], NOW_S)
    storage.remember([Filed(subscription("t", NOW_S - 9, until_s=NOW_S - 6, distinct=True), (A,))], NOW_S)
    storage.close()
    storage = LAYOUTS[layout](tmp_path, SMALL, NOW_S)
    assert [one.id for one in storage.ended(NOW_S)] == ["s"]
    assert everything(storage, Kind.SUBSCRIPTION, NOW_S) == []
    assert storage.subscribe(subscription("u", from_s=NOW_S - 9, distinct=True), [A], NOW_S) == []
    assert storage.ended(NOW_S + 4.9) != [] == storage.ended(NOW_S + 5)
    storage.close()


def test_what_filled_a_log_up_is_forced_to_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LevelDB begins another log when its buffer is full; to force that one leaves the first where it is."""
    forced: set[str] = set()

    def note(file: int) -> None:
        forced.add(os.readlink(f"/proc/self/fd/{file}"))

    monkeypatch.setattr(os, "fdatasync", note)
    storage = DualDB(tmp_path, SMALL, NOW_S)
    body = random.Random(1).randbytes(SMALL.write_buffer_bytes // 8)
    for number in range(12):
        storage.subscribe(subscription(f"s{number}", body=body), [A], NOW_S)
        before = {str(path) for path in tmp_path.rglob("*.log")}
        storage.sync()
        # One that LevelDB has made a table of meanwhile need not be forced.
        assert {path for path in before if os.path.exists(path)} <= forced
        forced.clear()
        storage.sync()
        assert forced == set(), "nothing was written since"
    storage.close()
