"""Anchors: where subscriptions are kept, and how they move when publications show which keys are frequent."""

import random
from typing import Any

import pytest

from braid.matching.engine.searching import HOT_FROM
from braid.matching.index import MatchIndex
from tests.core.matching_cases import NOW_S, content, index_of, matched, record, remove_everything
from tests.core.matching_populations import Population


def ids_under(index: MatchIndex, anchors: list[int]) -> list[str]:
    return sorted(each.id for each in index.under(anchors))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_subscription_is_under_exactly_its_anchors(seed: int) -> None:
    population = Population(seed)
    index = index_of(population.record(f"s-{number}") for number in range(400))
    anchors = index.anchors()
    assert len(set(anchors)) == len(anchors)
    kept = {anchor: ids_under(index, [anchor]) for anchor in anchors}
    for ids in kept.values():
        assert len(set(ids)) == len(ids)  # each once, although it may have several programs there
        assert ids
    for each in index:
        assert index.anchors_of(each.id) == sorted(anchor for anchor, ids in kept.items() if each.id in ids)
    assert ids_under(index, anchors) == sorted(each.id for each in index)
    some = anchors[: len(anchors) // 2]
    assert ids_under(index, some) == sorted({id for anchor in some for id in kept[anchor]})
    remove_everything(index)


def test_subscriptions_that_demand_the_same_lie_under_the_same_anchor() -> None:
    index = index_of([record("s", "a = 1"), record("t", "a = 1.0"), record("u", "a = 2"), record("v", "a = '1'")])
    assert index.anchors_of("s") == index.anchors_of("t")
    assert len({anchor for id in "suv" for anchor in index.anchors_of(id)}) == 3
    assert ids_under(index, index.anchors_of("s")) == ["s", "t"]
    index.remove("s")
    assert (ids_under(index, index.anchors_of("t")), index.anchors_of("s")) == (["t"], [])
    assert len(index.anchors()) == 3


def test_every_alternative_has_its_anchor() -> None:
    index = index_of([record("or", "a = 1 or b = 1 and c > 2"), record("in", "a in (1, 2, 3)"), record("every")])
    assert [len(index.anchors_of(id)) for id in ("or", "in", "every")] == [2, 3, 1]
    assert len(set(index.anchors_of("or")) & set(index.anchors_of("in"))) == 1
    assert len(index.anchors()) == 5
    assert ids_under(index, index.anchors()) == ["every", "in", "or"]


def test_what_demands_no_key_lies_where_every_publication_comes_by() -> None:
    index = index_of([record("every"), record("not", "not a = 1")])
    assert index.anchors_of("every") == index.anchors_of("not") == index.anchors()


def test_of_two_keys_the_one_that_fewer_subscriptions_name_is_the_anchor() -> None:
    index = index_of(record(f"a-{number}", f"a = 1 and n != {number}") for number in range(30))
    index.add(record("s", "a = 1 and b = 1"))
    index.add(record("b", "b = 1"))
    assert index.anchors_of("s") == index.anchors_of("b") != index.anchors_of("a-1")


def test_what_changes_meanwhile_is_left_out() -> None:
    index = index_of([record("s", "a = 1"), record("t", "a = 1")])
    records = index.under(index.anchors())
    first = next(records)
    (second,) = {"s", "t"} - {first.id}
    index.remove(second)
    assert list(records) == []


def published(count: int, flagged_in: int, seed: int) -> list[bytes]:
    chance = random.Random(seed)
    return [
        content(
            {"kind": "k", "n": chance.randint(0, 1_000), **({"flag": 1} if chance.randrange(flagged_in) == 0 else {})}
        )
        for _ in range(count)
    ]


def candidates(index: MatchIndex, contents: list[bytes]) -> float:
    before = index.statistics()["candidates"]
    index.match(contents, NOW_S, remember=False)
    return (index.statistics()["candidates"] - before) / len(contents)


def test_subscriptions_move_to_the_key_that_publications_show_to_be_rare() -> None:
    """Nobody knows at first that all publications are of one kind and few have a flag."""
    size = 600
    index = index_of(record(f"s-{number}", f"kind = 'k' and exists flag and n != {number}") for number in range(size))
    index.add(record("kind", "kind = 'k'"))
    tried = published(50, flagged_in=10, seed=1)
    assert index.anchors_of("s-1") == index.anchors_of("kind")
    before, found = candidates(index, tried), matched(index, *tried)
    assert before > size / 2
    rounds = 0
    while index.anchors_of("s-1") == index.anchors_of("kind"):
        rounds += 1
        assert rounds * 100 * size < 20 * HOT_FROM, "nothing has moved"
        index.match(published(100, flagged_in=50, seed=rounds), NOW_S)
    assert candidates(index, tried) < before / 4
    assert matched(index, *tried) == found
    assert ids_under(index, index.anchors()) == sorted(each.id for each in index)
    assert "s-1" not in ids_under(index, index.anchors_of("kind"))
    remove_everything(index)


def test_what_is_not_remembered_teaches_nothing() -> None:
    index = index_of(record(f"s-{number}", f"kind = 'k' and exists flag and n != {number}") for number in range(600))
    before = index.anchors_of("s-1")
    for seed in range(6):
        index.match(published(100, flagged_in=50, seed=seed), NOW_S, remember=False)
    assert index.anchors_of("s-1") == before


@pytest.mark.parametrize("seed", [1, 2])
def test_adapting_while_subscriptions_come_and_go(seed: int) -> None:
    """The keys that are frequent change, and nothing is lost on the way from one anchor to the next."""
    chance = random.Random(seed)
    index = MatchIndex()
    known: dict[str, tuple[str, int]] = {}
    for turn in range(8):
        added = {f"s-{turn}-{number}": (chance.choice("abc"), chance.randint(0, 99)) for number in range(300)}
        index.add_many(
            record(id, f"kind = 'k' and exists {name} and n != {other}") for id, (name, other) in added.items()
        )
        known |= added
        for id in chance.sample(sorted(known), 100):
            index.remove(id)
            del known[id]
        rare, frequent = chance.sample("abc", 2)
        cases: list[dict[str, Any]] = [{"kind": "k", frequent: 1, "n": chance.randint(0, 120)} for _ in range(150)]
        for case in chance.sample(cases, 10):
            case[rare] = 1
        for case, found in zip(cases, matched(index, *(content(case) for case in cases)), strict=True):
            assert found == {id for id, (name, other) in known.items() if name in case and case["n"] != other}
    remove_everything(index)
