"""Populations large enough that the engine splits anchors, grows blocks of ranges and reuses what was freed."""

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from braid.filters import Value
from braid.matching.index import MatchIndex
from braid.subscription import SubscriptionRecord
from tests.core.matching_cases import NOW_S, assert_same, content, index_of, matched, remove_everything


def plain(id: str, filter: str, home: str = "connpoint-1") -> SubscriptionRecord:
    """The filter is canonical already; parsing so many takes most of the time."""
    return SubscriptionRecord(id, "anna", home, filter, 0.0)


def candidates_of(index: MatchIndex, contents: list[bytes]) -> float:
    """How many programs are verified for one publication."""
    before = index.statistics()["candidates"]
    index.match(contents, NOW_S)
    return (index.statistics()["candidates"] - before) / len(contents)


class Range(NamedTuple):
    low: int
    high: int

    @property
    def filter(self) -> str:
        return f"v between {self.low} and {self.high}"


def ranges(seed: int, count: int) -> dict[str, Range]:
    """Distinct ones, some of which no number is in."""
    chance = random.Random(seed)
    lows = chance.sample(range(100_000), count)
    return {f"r-{number}": Range(low, low + chance.randint(-5, 400)) for number, low in enumerate(lows)}


def wanted_of(known: dict[str, Range]) -> Callable[[Value], set[str]]:
    def wanted(value: Value) -> set[str]:
        if isinstance(value, str):
            return set()
        return {id for id, (low, high) in known.items() if low <= value <= high}

    return wanted


@pytest.mark.parametrize("count", [70, 257, 1_025, 4_097, pytest.param(17_000, marks=pytest.mark.slow)])
def test_blocks_of_ranges_grow_and_shrink(count: int) -> None:
    """Many of a signature go into a block, which grows at 256, 1,024 and 4,096; beyond 16,384 there are several."""
    known = ranges(1, count)
    index = index_of(plain(id, each.filter) for id, each in known.items())
    chance = random.Random(2)
    values: list[Value] = [chance.randint(0, 100_500) for _ in range(40)]
    values += [0, -1, 2**62 + 1, 50_000.5, "50", True]
    values += [known["r-5"].low, known["r-5"].high, known["r-9"].low - 0.001]
    published = [content({"v": value}) for value in values]
    assert_same(index, wanted_of(known), values, published)
    assert candidates_of(index, published) < 150 + count / 20

    removed = chance.sample(sorted(known), count // 2)
    for id in removed:
        assert index.remove(id) is not None
        del known[id]
    assert_same(index, wanted_of(known), values, published)

    again = {f"again-{id}": each for id, each in ranges(3, count // 2).items()}
    index.add_many(plain(id, each.filter) for id, each in again.items())
    known |= again
    assert_same(index, wanted_of(known), values, published)
    remove_everything(index)


def test_ranges_of_many_signatures() -> None:
    """Also more attributes than a block has rows for, open ends, and all bounds the same."""
    chance = random.Random(4)
    known: dict[str, dict[str, tuple[float, float]]] = {}
    for number in range(3_000):
        names = sorted(chance.sample("abcdefgh", chance.choice([1, 1, 2, 2, 8])))
        known[f"s-{number}"] = {name: chance.choice([(0, 50), (40, 60), (chance.random() * 99, 99)]) for name in names}
    open_ended = ["a >= {0}", "a <= {1}", "a > {0}", "a < {1}"]
    filters = {
        id: " and ".join(f"{name} between {low!r} and {high!r}" for name, (low, high) in bounds.items())
        for id, bounds in known.items()
    }
    index = index_of(plain(id, filter) for id, filter in filters.items())
    for number in range(400):
        low = high = float(chance.randint(0, 100))
        kind = number % 4
        index.add(plain(f"open-{number}", open_ended[kind].format(low, high)))
        bounds = [(low, 1e9), (-1e9, high), (low + 0.25, 1e9), (-1e9, high - 0.25)][kind]
        known[f"open-{number}"] = {"a": bounds}
    cases = [{name: chance.randint(0, 200) / 2 for name in chance.sample("abcdefgh", 6)} for _ in range(30)]
    cases += [{name: chance.choice([45, 50, 99, 99.5]) for name in "abcdefgh"} for _ in range(10)]

    def wanted(case: dict[str, float]) -> set[str]:
        return {
            id
            for id, bounds in known.items()
            if all(name in case and low <= case[name] <= high for name, (low, high) in bounds.items())
        }

    assert_same(index, wanted, cases, [content(case) for case in cases])
    for id in chance.sample(sorted(known), 2_000):
        del known[id]
        index.remove(id)
    assert_same(index, wanted, cases, [content(case) for case in cases])
    remove_everything(index)


def test_anchors_split_and_split_again() -> None:
    """Five attributes of four values: hundreds of programs for each value, too many for one list."""
    chance = random.Random(5)
    known: dict[str, dict[str, int]] = {}
    for number in range(6_000):
        names = sorted(chance.sample("abcde", chance.choice([1, 3, 4, 5])))
        known[f"s-{number}"] = {**{name: chance.randint(0, 3) for name in names}, "not": number % 50}
    index = index_of(
        plain(
            id,
            " and ".join(f"{name} = {value}" for name, value in demands.items() if name != "not")
            + f" and n != {demands['not']}",
        )
        for id, demands in known.items()
    )
    cases = [{name: chance.randint(0, 4) for name in "abcde"} | {"n": chance.randint(0, 60)} for _ in range(40)]
    published = [content(case) for case in cases]

    def wanted(case: dict[str, int]) -> set[str]:
        return {
            id
            for id, demands in known.items()
            if case["n"] != demands["not"]
            and all(case[name] == value for name, value in demands.items() if name != "not")
        }

    assert_same(index, wanted, cases, published)
    assert candidates_of(index, published) < 600
    for id in chance.sample(sorted(known), 5_000):
        del known[id]
        index.remove(id)
    assert_same(index, wanted, cases, published)
    remove_everything(index)


@pytest.mark.parametrize("count", [1, 2, 63, 300, 1_024, 1_025])
def test_lists_of_values(count: int) -> None:
    """Up to 1,024 values a program is kept under each of them, above it lies under the type of its attribute."""
    values = [*(f"'{number}'" for number in range(0, count, 2)), *(str(number) for number in range(1, count, 2))]
    listed = ", ".join(values)
    index = index_of([plain("s", f"a in ({listed})"), plain("t", f"a in ({listed}) and b in ('x', true)")])
    index.add(plain("not", f"not (a in ({listed}))"))
    index.add(plain("both", f"a in ({listed}) and a in ('0', 1, 2)"))
    index.add(plain("range", f"a in ({listed}) and b between 1 and 2"))
    assert matched(
        index,
        content({"a": "0"}),
        content({"a": 0}),
        content({"a": count - 1 if count % 2 == 0 else str(count - 1), "b": True}),
        content({"a": str(count)}),
        content({"b": "x"}),
        content({"a": "0", "b": 1.5}),
    ) == [
        {"s", "both"},
        {"not"},
        {"s", "t"} | ({"both"} if count <= 2 else set()),
        {"not"},
        {"not"},
        {"s", "both", "range"},
    ]
    remove_everything(index)


def test_lists_that_share_values() -> None:
    chance = random.Random(6)
    known = {f"s-{number}": chance.sample(range(200), chance.choice([2, 10, 60, 70])) for number in range(500)}
    index = index_of(plain(id, f"a in ({', '.join(map(str, values))})") for id, values in known.items())
    cases = list(range(-1, 201, 4))
    assert_same(
        index,
        lambda case: {id for id, values in known.items() if case in values},
        cases,
        [content({"a": case}) for case in cases],
    )
    remove_everything(index)


def test_a_publication_that_thousands_match() -> None:
    """As one program of many subscriptions, and as many programs."""
    index = index_of(plain(f"same-{number}", "a = 1") for number in range(5_000))
    index.add_many(plain(f"differs-{number}", f"a = 1 and not (b = {number})") for number in range(1_000))
    assert index.statistics()["programs"] == 1_001
    same = {f"same-{number}" for number in range(5_000)}
    differs = {f"differs-{number}" for number in range(1_000)}
    assert matched(index, content({"a": 1, "b": 7}), content({"a": 2})) == [same | differs - {"differs-7"}, set()]
    for number in range(0, 5_000, 2):
        index.remove(f"same-{number}")
    assert matched(index, content({"a": 1})) == [{f"same-{number}" for number in range(1, 5_000, 2)} | differs]
    remove_everything(index)


def test_many_publications_in_one_call() -> None:
    index = index_of(plain(f"s-{number}", f"a = {number % 100} and b > {number}") for number in range(300))
    cases = [{"a": number % 130, "b": number} for number in range(2_500)]
    assert_same(
        index,
        lambda case: {
            f"s-{case['a'] + more}" for more in (0, 100, 200) if case["a"] < 100 and case["b"] > case["a"] + more
        },
        cases,
        [content(case) for case in cases],
    )


@pytest.mark.slow
def test_millions_of_matches_in_one_call() -> None:
    """More than the engine finds at once."""
    index = index_of(plain(f"s-{number}", "a = 1", home=f"connpoint-{number % 2}") for number in range(5_000))
    index.add(plain("odd", "b = 1 or a > 'x'"))
    found = index.match([content({"a": 1, "b": number % 2}) for number in range(1_000)], NOW_S).ids()
    assert [len(ids) for ids in found] == [5_000, 5_001] * 500
    assert all(("odd" in ids) == (place % 2 == 1) for place, ids in enumerate(found))


def test_what_no_key_leads_to() -> None:
    """Subscriptions that demand nothing of a publication but what it lacks."""
    known = {f"s-{number}": number for number in range(300)}
    index = index_of(plain(id, f"not (a = {number})") for id, number in known.items())
    index.add(plain("every", ""))
    assert matched(index, content({"a": 7}), content()) == [{*known, "every"} - {"s-7"}, {*known, "every"}]
    remove_everything(index)
