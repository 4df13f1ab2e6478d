"""Which subscriptions count in which epoch, and what becomes of those that count no more."""

from typing import Any

import pytest

from braid.id_tables import IdSet
from braid.matching.index import IndexFullError, MatchIndex
from braid.messages import FindSubscriptions
from services.matcher.holdings import Holdings
from services.matcher.shares import Shares
from tests.core.scaling_cases import IDS, MOVING, NEW, STAYING, record


def counting(holdings: Holdings, *, new_epoch: bool) -> list[str]:
    """The ids that count, as every question sees them."""
    hidden = holdings.shares.hidden(new_epoch=new_epoch)
    found = sorted(id for id in holdings.index.ids() if holdings.get(id, hidden) is not None)
    records, cursor = holdings.page(FindSubscriptions(1, 1, "connpoint-1"), hidden)
    assert (sorted(known.id for known in records), cursor) == (found, "")
    return found


def holdings(*ids: str) -> Holdings:
    made = Holdings()
    made.recover([record(id) for id in ids])
    return made


def test_without_a_scaling_everything_counts() -> None:
    assert Shares().hidden(new_epoch=False) == Shares().hidden(new_epoch=True) == []
    assert counting(holdings("a", "b"), new_epoch=False) == ["a", "b"]


def test_what_arrived_counts_in_the_new_epoch_what_leaves_in_the_old_one() -> None:
    made = holdings("a", "b")
    made.put_arrived([record("c")])
    made.shares.leaving.add("b")
    assert counting(made, new_epoch=False) == list(made.own_ids()) == ["a", "b"]
    assert counting(made, new_epoch=True) == ["a", "c"]


def test_forward_what_left_is_refuse() -> None:
    made = holdings("a", "b")
    made.put_arrived([record("c")])
    made.shares.leaving.add("b")
    made.shares.go_forward()
    assert counting(made, new_epoch=False) == counting(made, new_epoch=True) == ["a", "c"]
    assert made.shares.has_refuse
    assert made.remove_refuse(10) == ["b"]
    assert sorted(made.index.ids()) == ["a", "c"]
    assert made.remove_refuse(10) == []


def test_back_what_arrived_is_refuse() -> None:
    made = holdings("a", "b")
    made.put_arrived([record("c")])
    made.shares.leaving.add("b")
    made.shares.go_back()
    assert counting(made, new_epoch=False) == counting(made, new_epoch=True) == ["a", "b"]
    assert made.remove_refuse(10) == ["c"]


def test_refuse_is_removed_bit_by_bit() -> None:
    made = holdings(*IDS)
    made.throw_out_foreign("matcher-1", NEW)
    assert counting(made, new_epoch=True) == sorted(STAYING)
    removed = []
    while made.shares.has_refuse:
        part = made.remove_refuse(3)
        assert len(part) <= 12  # four looks for each
        assert counting(made, new_epoch=True) == sorted(STAYING)
        removed += part
    assert sorted(removed) == sorted(MOVING)
    assert sorted(made.index.ids()) == sorted(STAYING)


def test_refuse_of_two_scalings_comes_together() -> None:
    shares = Shares()
    shares.throw_away({"a"})
    shares.leaving = IdSet({"b"})
    shares.go_forward()
    assert sorted(shares.some_refuse(10)) == ["a", "b"]
    assert not shares.leaving


@pytest.mark.parametrize("arrives", [True, False])
def test_one_that_comes_back_before_it_was_removed_is_a_new_one(arrives: bool) -> None:
    made = holdings("a")
    made.shares.throw_away(["a"])
    if arrives:
        made.put_arrived([record("a", "n = 2")])
    else:
        assert made.put(record("a", "n = 2")) is None  # it replaces nothing that counts
    assert not made.shares.has_refuse
    assert made.index.get("a") == record("a", "n = 2")
    assert counting(made, new_epoch=True) == ["a"]
    assert counting(made, new_epoch=False) == ([] if arrives else ["a"])


def test_a_chunk_that_comes_twice_is_there_once() -> None:
    made = holdings("a")
    for _ in range(2):
        made.put_arrived([record("b"), record("c")])
    assert counting(made, new_epoch=True) == ["a", "b", "c"]


def test_what_does_not_count_cannot_be_removed_by_a_call() -> None:
    made = holdings("a")
    made.put_arrived([record("b")])
    assert made.remove("b", made.shares.hidden(new_epoch=False)) is None
    removed = made.remove("b", made.shares.hidden(new_epoch=True))
    assert removed == record("b")


def test_what_is_removed_is_in_no_share_any_more() -> None:
    shares = Shares()
    shares.arrived, shares.leaving = IdSet({"a"}), IdSet({"b"})
    shares.throw_away(["c"])
    for id in ("a", "b", "c"):
        shares.discard(id)
    assert not shares.arrived
    assert not shares.leaving
    assert not shares.has_refuse


def test_a_chunk_that_does_not_fit_never_counts_in_the_old_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of it may be in the index: in the old epoch another matcher reports it."""

    def add_some(self: MatchIndex, records: list[Any]) -> None:
        self.add(records[0])
        raise IndexFullError("full")

    made = holdings("a")
    monkeypatch.setattr(MatchIndex, "add_many", add_some)
    with pytest.raises(IndexFullError):
        made.put_arrived([record("b"), record("c")])
    assert counting(made, new_epoch=False) == ["a"]
    made.shares.go_back()
    assert sorted(made.remove_refuse(10)) == ["b", "c"]
    assert list(made.index.ids()) == ["a"]


# While others copy


def test_what_ended_where_it_still_counts_is_gone_here_too() -> None:
    made = holdings("a")
    made.put_arrived([record("b"), record("c"), record("d")])
    made.remove_arrived(["b", "d", "never-there"])
    assert counting(made, new_epoch=True) == ["a", "c"]
    assert sorted(made.index.ids()) == ["a", "c"]
    assert set(made.shares.arrived) == {"c"}
    made.put_arrived([record("b", "n = 2")])
    assert made.index.get("b") == record("b", "n = 2")
    assert counting(made, new_epoch=True) == ["a", "b", "c"]
    assert counting(made, new_epoch=False) == ["a"]


def test_only_what_arrived_can_be_ended_by_others() -> None:
    made = holdings("a", "b")
    made.shares.throw_away(["b"])
    made.remove_arrived(["a", "b"])
    assert counting(made, new_epoch=False) == counting(made, new_epoch=True) == ["a"]
    assert made.remove_refuse(10) == ["b"]


def test_what_was_ended_by_others_does_not_end_again_by_its_time() -> None:
    made = holdings()
    made.put_arrived([record("a", until_s=7.0), record("b", until_s=7.0)])
    made.remove_arrived(["a"])
    assert made.passed(8.0, 10, []) == [(record("b", until_s=7.0), True)]


def test_a_later_record_of_what_arrived_takes_its_place() -> None:
    made = holdings("a")
    for filter in ("n = 1", "n = 2"):
        made.put_arrived([record("b", filter, until_s=7.0 if filter == "n = 1" else None)])
    assert made.index.get("b") == record("b", "n = 2", until_s=None)
    assert made.passed(8.0, 10, []) == []
    assert counting(made, new_epoch=True) == ["a", "b"]


def test_its_own_is_what_counts_in_the_old_epoch() -> None:
    made = holdings("a", "b", "c")
    made.put_arrived([record("d")])
    made.shares.leaving.add("b")
    made.shares.throw_away(["c"])
    assert {id: made.get_own(id) for id in "abcde"} == {
        "a": record("a"),
        "b": record("b"),
        "c": None,
        "d": None,
        "e": None,
    }
    assert sorted(made.own_ids()) == ["a", "b"]


def test_its_own_ids_are_looked_at_when_they_are_taken() -> None:
    made = holdings("a", "b", "c")
    ids = made.own_ids()
    first = next(ids)
    gone = next(id for id in "abc" if id != first)
    made.remove(gone, [])
    made.put_arrived([record("d")])
    assert {first, *ids} - {gone} == {"a", "b", "c"} - {gone}


def test_everything_is_thrown_out_bit_by_bit_but_not_what_arrives_meanwhile() -> None:
    made = holdings(*"abcdefgh")
    made.throw_out_all()
    removed = made.remove_refuse(1)
    assert removed == ["a", "b", "c", "d"]
    made.put_arrived([record("h"), record("i")])
    while made.shares.has_refuse:
        removed += made.remove_refuse(1)
    assert sorted(made.index.ids()) == ["h", "i"]
    assert sorted(removed) == list("abcdefg")


def test_nothing_is_thrown_out_where_nothing_is() -> None:
    made = holdings()
    made.throw_out_all()
    assert not made.shares.has_refuse
