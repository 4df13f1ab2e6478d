"""The set of very many ids, held against a plain one."""

from hypothesis import given
from hypothesis import strategies as st

from services.matcher.id_set import IdSet

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


def test_no_part_is_large() -> None:
    made = IdSet(f"subscription-{number:032x}" for number in range(20_000))
    assert len(made) == 20_000
    assert max(map(len, made._parts)) < 200
