"""Tables of very many ids, held against plain ones."""

import sys
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from braid.id_tables import IdMap, IdSet

ids = st.text("ab", max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "update"]), st.lists(ids, min_size=1))))
def test_it_is_a_set(changes: list[tuple[str, list[str]]]) -> None:
    made, plain = IdSet(), set[str]()
    for what, some in changes:
        if what == "update":
            made.update(some)
            plain.update(some)
        else:
            getattr(made, what)(some[0])
            getattr(plain, what)(some[0])
        assert len(made) == len(plain)
        assert bool(made) == bool(plain)
        assert sorted(made) == sorted(plain)
        assert all((id in made) == (id in plain) for id in some)


@given(st.lists(st.tuples(st.sampled_from(["put", "pop", "delete", "setdefault"]), ids, st.integers())))
def test_it_is_a_dictionary(changes: list[tuple[str, str, int]]) -> None:
    made, plain = IdMap[int](), dict[str, int]()
    for what, id, value in changes:
        if what == "put":
            made[id] = plain[id] = value
        elif what == "pop":
            assert made.pop(id, None) == plain.pop(id, None)
        elif what == "setdefault":
            assert made.setdefault(id, value) == plain.setdefault(id, value)
        elif id in plain:
            del made[id]
            del plain[id]
        assert len(made) == len(plain)
        assert dict(made) == plain
        assert (id in made, made.get(id), made.get(id, -1)) == (id in plain, plain.get(id), plain.get(id, -1))


def test_an_exchange_says_what_was_there_before() -> None:
    made = IdMap[int]()
    made["a"] = 1
    assert made.exchange_many(["a", "b", "a"], [2, 3, 4], -1) == [1, -1, 2]
    assert (dict(made), len(made)) == ({"a": 4, "b": 3}, 2)


def test_many_that_are_added_change_nothing_that_is_there() -> None:
    made = IdMap[int]()
    made["a"] = 1
    assert made.add_many(["b", "a", "c", "b"], [2, 3, 4, 5]) == [1, 3]
    assert (dict(made), len(made)) == ({"a": 1, "b": 2, "c": 4}, 3)


def test_no_part_is_large() -> None:
    names = [f"subscription-{number:032x}" for number in range(20_000)]
    made = IdSet(names)
    assert len(made) == 20_000
    assert max(map(len, made._parts)) < 200
    numbers = IdMap[int]()
    numbers.update({name: number for number, name in enumerate(names)})
    assert max(map(len, numbers._parts)) < 200


def test_a_set_that_loses_all_it_has_gives_its_room_back() -> None:
    """Who takes the first ones out again and again would go through all that is empty."""
    many = IdSet(f"s-{number}" for number in range(100_000))
    while some := list(islice(many, 1_000)):
        for id in some:
            many.discard(id)
    assert len(many) == 0
    assert sum(map(sys.getsizeof, many._parts)) <= len(many._parts) * sys.getsizeof(set())
