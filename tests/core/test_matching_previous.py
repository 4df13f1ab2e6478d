"""What `prev` looks back to, also when publications come again or late; against a list of everything that came."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.matching import origins
from braid.matching import previous as module
from braid.matching.chains import Attributes, Position
from braid.matching.index import MatchIndex
from braid.matching.previous import PreviousPublications, Published
from tests.core.matching_cases import content, record

LOOKED_AT = {"n"}


def take(memory: PreviousPublications, topic: str, number: int, position: Position | None) -> Attributes | None:
    published = [Published(topic, {"n": number, "other": 1})]
    positions = None if position is None else [position]
    (before,) = memory.before_each(published, positions)
    memory.remember(published, LOOKED_AT, positions)
    return before


def test_what_comes_again_is_judged_as_the_first_time() -> None:
    memory = PreviousPublications()
    for _ in range(3):
        assert [take(memory, "t", n, Position("a", n, 0)) for n in (1, 2, 3)] == [None, {"n": 1}, {"n": 2}]
    assert memory.attributes_of("t") == {"n": 3}
    assert take(memory, "t", 9, Position("b", 1, 0)) == {"n": 3}
    assert take(memory, "t", 2, Position("a", 2, 0)) == {"n": 1}


def test_one_that_was_overtaken_takes_its_place() -> None:
    memory = PreviousPublications()
    take(memory, "t", 1, Position("a", 1, 0))
    take(memory, "t", 7, Position("b", 1, 0))
    assert take(memory, "t", 3, Position("a", 3, 0)) == {"n": 7}
    assert take(memory, "t", 2, Position("a", 2, 0)) == {"n": 7}  # on its way it was overtaken by the third
    assert take(memory, "t", 3, Position("a", 3, 0)) == {"n": 2}
    assert memory.attributes_of("t") == {"n": 3}


def test_a_batch_that_comes_again_is_judged_as_the_first_time() -> None:
    memory = PreviousPublications()
    several = [Published("t", {"n": n}) for n in range(4)]
    positions = [Position("a", 5, place) for place in (0, 2, 3, 7)]
    expected = [None, {"n": 0}, {"n": 1}, {"n": 2}]
    for _ in range(2):
        assert memory.before_each(several, positions) == expected
        memory.remember(several, LOOKED_AT, positions)


def test_what_is_confirmed_is_kept_only_as_the_one_before() -> None:
    memory = PreviousPublications()
    empty = memory.bytes
    take(memory, "t", 0, Position("a", 1, 0))
    one = memory.bytes
    for n in range(2, 500):
        take(memory, "t", n, Position("a", n, 0))
    memory.on_confirmed("a", 400)
    assert take(memory, "t", 401, Position("a", 401, 0)) == {"n": 400}
    memory.on_confirmed("a", 499)
    assert memory.bytes - one < 10
    assert memory.attributes_of("t") == {"n": 499}
    memory.clear()
    assert (memory.bytes, len(memory)) == (empty, 0)


def test_topics_origins_and_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "ORIGINS_MAX", 3)
    monkeypatch.setattr(module, "BYTES_MAX", 5_000)
    memory = PreviousPublications()
    for n in range(1, 100):
        take(memory, f"t{n}", n, Position(f"origin-{n}", 1, 0))
        assert memory.bytes <= 5_000
        assert len(memory._origins) <= 3
    assert memory.forgotten == 99 - len(memory)
    assert take(memory, "t1", 5, Position("origin-1", 2, 0)) is None


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("tu"), st.booleans()), max_size=40), st.data())
def test_any_repetitions_in_any_order_give_what_the_first_gave(
    published: list[tuple[str, str, bool]], data: st.DataObject
) -> None:
    """Each origin publishes in its order; now and then it is told what is confirmed, and sends something else again."""
    memory = PreviousPublications()
    first: dict[Position, tuple[str, int, Attributes | None]] = {}
    latest: dict[str, int] = {}
    sequences = {"a": 0, "b": 0}
    confirmed = {"a": 0, "b": 0}
    for number, (origin, topic, confirms) in enumerate(published):
        sequences[origin] += 1
        position = Position(origin, sequences[origin], 0)
        expected = {"n": latest[topic]} if topic in latest else None
        assert take(memory, topic, number, position) == expected
        first[position] = topic, number, expected
        latest[topic] = number
        if confirms:
            confirmed[origin] = data.draw(st.integers(confirmed[origin], sequences[origin]))
            memory.on_confirmed(origin, confirmed[origin])
        unconfirmed = [position for position in first if position.sequence > confirmed[position.origin]]
        for again in data.draw(st.lists(st.sampled_from(unconfirmed), max_size=3)) if unconfirmed else []:
            earlier_topic, earlier, before = first[again]
            assert take(memory, earlier_topic, earlier, again) == before
    assert {topic: memory.attributes_of(topic) for topic in latest} == {t: {"n": n} for t, n in latest.items()}


@pytest.mark.parametrize("filter", ["n < prev(n)", "n < prev(n) or m = 1", "not (n >= prev(n))"])
def test_the_index_judges_a_repetition_as_the_first_time(filter: str) -> None:
    index = MatchIndex()
    index.add(record("s", filter))
    assert index.looks_back
    several = [content({"n": n}, topic="t") for n in (100, 80, 90)]
    positions = [Position("a", 1, place) for place in range(3)]
    expected = [[], ["s"], []] if "not" not in filter else [["s"], ["s"], []]
    for _ in range(3):
        assert index.match(several, 0.0, positions=positions).ids() == expected
    index.on_confirmed("a", 1)
    assert index.match([content({"n": 85}, topic="t")], 0.0, positions=[Position("a", 2, 0)]).ids() == [["s"]]
