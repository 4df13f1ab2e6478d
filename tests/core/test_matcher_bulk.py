"""What nobody waits for: in its order, a slice at a time, and nothing overtakes it that is about the same ids."""

from services.matcher.bulk import Bulk, Load


def bulk_of(*loads: Load[str]) -> Bulk[str]:
    bulk: Bulk[str] = Bulk(lambda _operation: 1)
    for load in loads:
        load.is_due = True
        bulk.add(load)
    return bulk


def test_loads_come_in_their_order_and_in_slices() -> None:
    first, second = Load("abc", ["s-1"], None), Load("d", ["s-1", "s-2"], None)
    bulk = bulk_of(first, second)
    assert bulk.take(2) == [(first, ["a", "b"])]
    assert not bulk.on_written(first)
    assert bulk.take(2) == [(first, ["c"])]
    assert bulk.on_written(first)
    assert bulk.take(2) == [(second, ["d"])]
    assert (bulk.touches(["s-1"]), len(bulk)) == (True, 2)
    assert bulk.on_written(second)
    assert (bool(bulk), bulk.touches(["s-1", "s-2"]), len(bulk)) == (False, False, 0)


def test_a_load_waits_until_it_is_due_and_so_do_those_behind_it() -> None:
    first, second = Load("a", [], None), Load("b", [], None)
    bulk = bulk_of(first, second)
    first.is_due = False
    assert not bulk
    first.is_due = True
    assert bulk


def test_a_load_without_operations_is_done_when_its_turn_comes() -> None:
    load: Load[str] = Load([], [], None)
    bulk = bulk_of(load)
    assert bulk.take(5) == [(load, [])]
    assert bulk.on_written(load)
    assert not bulk


def test_what_failed_is_tried_again_before_anything_else_or_given_up() -> None:
    first, second = Load("abc", ["s-1"], print), Load("d", [], None)
    bulk = bulk_of(first, second)
    bulk.take(2)
    bulk.on_failed(first, ["b"])
    assert first.done is None
    assert bulk.take(1) == [(first, ["b"])]
    bulk.on_failed(first, [])
    assert not bulk.touches(["s-1"])
    assert bulk.take(5) == [(second, ["d"])]


def test_an_operation_can_be_taken_out() -> None:
    load = Load("aba", [], None)
    bulk = bulk_of(load)
    bulk.take_out("a")
    assert bulk.take(5) == [(load, ["b"])]


def test_as_many_loads_are_taken_as_weigh_enough() -> None:
    first, second, third, fourth = (Load(operations, [], None) for operations in ("ab", "", "cde", "f"))
    bulk = bulk_of(first, second, third, fourth)
    assert bulk.take(6) == [(first, ["a", "b"]), (second, []), (third, ["c", "d"])]
    assert bulk.on_written(first)
    assert bulk.on_written(second)
    assert not bulk.on_written(third)
    fourth.is_due = False
    assert bulk.take(6) == [(third, ["e"])]


def test_what_was_taken_and_not_begun_comes_again_in_its_place() -> None:
    first, second = Load("a", [], None), Load("bcd", ["s-1"], None)
    bulk = bulk_of(first, second)
    assert bulk.take(4) == [(first, ["a"]), (second, ["b", "c"])]
    bulk.on_failed(first, ["a"])
    bulk.put_back(second, ["b", "c"])
    assert bulk.take(9) == [(first, ["a"]), (second, ["b", "c", "d"])]
