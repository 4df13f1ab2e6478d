"""The index against the model: any subscriptions, any publications, any order of changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from braid.filters import parse
from braid.matching import meaning
from braid.matching.index import MatchIndex
from braid.subscription import SubscriptionRecord
from tests.core.matching_cases import NOW_S, Model, matched, remove_everything
from tests.core.matching_populations import Population
from tests.core.matching_strategies import contents, subscribed_zones, subscriptions

# The same examples in every run, so that a failure in one place is a failure everywhere.
fixed = settings(derandomize=True, deadline=None, database=None, max_examples=25)

# Few ids, so that subscriptions are often replaced and removed.
ids = st.sampled_from([f"s-{number}" for number in range(12)])
PUBLISHED = Population(seed=1).contents(100)


class Step(NamedTuple):
    added: list[SubscriptionRecord]
    at_once: bool
    removed: list[str]
    published: list[bytes]
    moved: dict[str, dict[str, Any] | None]  # zones by id


@dataclass
class Cases:
    """How much was compared."""

    operations: int = 0  # subscriptions that came, went or moved
    decisions: int = 0  # pairs of a subscription and a publication


def steps_of(least: int, most: int) -> st.SearchStrategy[list[Step]]:
    one_step = st.builds(
        Step,
        st.lists(subscriptions(ids), min_size=2, max_size=5),
        st.booleans(),
        st.lists(ids, max_size=5),
        st.lists(contents(), min_size=1, max_size=4),
        st.dictionaries(ids, st.none() | subscribed_zones, max_size=2),
    )
    return st.lists(one_step, min_size=least, max_size=most)


steps = steps_of(1, 3)


@pytest.fixture(autouse=True, scope="module")
def filters_are_parsed_once() -> Iterator[None]:
    """Reading the same filter for every publication is nearly all that the model does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meaning, "parse", cache(parse))
        yield


def check(steps: Sequence[Step]) -> Cases:
    index, model, cases = MatchIndex(), Model(), Cases()
    for step in steps:
        cases.operations += len(step.added) + len(model.records.keys() & (step.removed + list(step.moved)))
        if step.at_once:
            index.add_many(step.added)
        for record in step.added:
            if not step.at_once:
                index.add(record)
            model.add(record)
        for id in step.removed:
            assert index.remove(id) == model.remove(id)
        for id, zone in step.moved.items():
            if id in model.records:
                record = replace(model.records[id], zone=zone)
                index.add(record)
                model.add(record)
        check_equal(index, model, step.published)
        cases.decisions += len(step.published) * len(model.records)
    remove_everything(index)
    return cases


def check_equal(index: MatchIndex, model: Model, published: list[bytes]) -> None:
    assert len(index) == len(model.records)
    assert {record.id: record for record in index} == model.records
    for subscriber in ("anna", "bert"):
        assert set(index.ids_of(subscriber)) == model.ids_of(subscriber)
    wanted_ids = model.match(published, NOW_S)
    for content, found, wanted in zip(published, matched(index, *published), wanted_ids, strict=True):
        assert found == wanted, (content, [model.records[id] for id in found ^ wanted])
    by_anchor = {anchor: {record.id for record in index.under([anchor])} for anchor in index.anchors()}
    for id in model.records:
        assert {anchor for anchor, kept in by_anchor.items() if id in kept} == set(index.anchors_of(id))


def by_chance(seed: int) -> list[Step]:
    """Many more subscriptions than can be drawn one by one."""
    population = Population(seed)
    chance = population.chance
    known, size = chance.choice([(30, 8), (300, 100)])
    return [
        Step(
            [population.record(f"s-{chance.randrange(known)}") for _ in range(chance.randint(1, size))],
            chance.random() < 0.5,
            [f"s-{chance.randrange(known)}" for _ in range(chance.choice([0, 5, known]))],
            population.contents(chance.randint(1, 12)),
            {f"s-{chance.randrange(known)}": population.zone(points=False) for _ in range(chance.choice([0, 3]))},
        )
        for _ in range(chance.randint(3, 12))
    ]


@fixed
@given(steps)
def test_finds_what_a_look_at_every_subscription_finds(steps: list[Step]) -> None:
    check([step._replace(published=step.published + PUBLISHED) for step in steps])


@pytest.mark.parametrize("seed", range(10))
def test_finds_what_a_look_at_every_subscription_finds_among_many(seed: int) -> None:
    check(by_chance(seed))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_finds_it_in_tens_of_thousands_of_cases() -> None:
    """Drawn by Hypothesis: whatever fails is shrunk to the few operations that it takes."""
    compared = Cases()

    @settings(fixed, max_examples=210)
    @given(steps_of(4, 6))
    def examples(steps: list[Step]) -> None:
        cases = check([step._replace(published=step.published + PUBLISHED[:20]) for step in steps])
        compared.operations += cases.operations
        compared.decisions += cases.decisions

    examples()
    print(f"{compared.decisions:,} decisions after {compared.operations:,} operations")
    assert compared.decisions >= 50_000
    assert compared.operations >= 3_000


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1000, 1040, 10))
def test_finds_it_among_many_with_many_more_seeds(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 10):
        check(by_chance(seed))


def test_an_index_built_aside_answers_alike() -> None:
    """While the old one goes on; so a matcher can build a new one and swap."""
    population = Population(seed=3)
    old, new, model, fresh = MatchIndex(), MatchIndex(), Model(), Model()
    for number in range(200):
        record = population.record(f"s-{number}")
        for each in (old, model, fresh):
            each.add(record)
    for place, record in enumerate(old):
        new.add(record)
        if place % 50 == 0:
            assert matched(old, *PUBLISHED) == model.match(PUBLISHED, NOW_S)
    assert {record.id: record for record in new} == model.records
    assert matched(new, *PUBLISHED) == fresh.match(PUBLISHED, NOW_S)
