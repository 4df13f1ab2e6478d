"""Subscriptions that share no key to be found under: how many are verified for a publication must stay small."""

import random
import string
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import pytest

from braid.filters import parse
from braid.matching import meaning
from braid.matching.checking import CheckedSubscription, Seen
from braid.matching.meaning import accepts, read_publication
from braid.subscription import SubscriptionRecord
from tests.core.matching_cases import NOW_S, assert_same, content, index_of, matched, record, remove_everything
from tests.core.test_matching_structures import candidates_of, plain


def word(chance: random.Random, length: int = 8) -> str:
    return "".join(chance.choices(string.ascii_lowercase, k=length))


def meaning_of(records: Iterable[SubscriptionRecord]) -> Callable[[bytes], set[str]]:
    known = list(records)

    def wanted(body: bytes) -> set[str]:
        publication = read_publication(body)
        return {each.id for each in known if accepts(each, publication, None, NOW_S)}

    return wanted


def ranges_over(
    chance: random.Random, attributes: int, count: int, *, before: str = "", width: float = 0.05
) -> list[SubscriptionRecord]:
    """Ranges over three of so many numbers."""
    made = []
    for number in range(count):
        names = sorted(chance.sample(range(attributes), 3))
        lows = [round(chance.uniform(0, 1 - width), 4) for _ in names]
        conditions = [
            f"a{name} between {low!r} and {round(low + width, 4)!r}" for name, low in zip(names, lows, strict=True)
        ]
        made.append(plain(f"s-{number}", before + " and ".join(conditions)))
    return made


def numbers(chance: random.Random, attributes: int, share: float = 1.0) -> bytes:
    names = [f"a{name}" for name in range(attributes) if chance.random() < share]
    return content({"city": "Madrid", **{name: round(chance.random(), 4) for name in names}})


@pytest.fixture(autouse=True, scope="module")
def filters_are_parsed_once() -> Iterator[None]:
    """Reading the same filter for every publication is nearly all that the meaning does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meaning, "parse", cache(parse))
        yield


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of subscriptions that had to be evaluated in Python."""
    ids: list[str] = []
    accepts_plainly = CheckedSubscription.accepts

    def counted(self: CheckedSubscription, seen: Seen) -> bool:
        ids.append(self.record.id)
        return accepts_plainly(self, seen)

    monkeypatch.setattr(CheckedSubscription, "accepts", counted)
    return ids


# Ranges over attributes of which each subscription has others


@pytest.mark.parametrize(("attributes", "before"), [(20, ""), (40, ""), (20, "city = 'Madrid' and ")])
def test_ranges_over_any_of_many_attributes(attributes: int, before: str) -> None:
    chance = random.Random(attributes)
    index = index_of(ranges_over(chance, attributes, 8_000, before=before))
    published = [numbers(chance, attributes) for _ in range(30)]
    # Some wait at every attribute for the next block.
    assert candidates_of(index, published) < 40 * attributes


@pytest.mark.parametrize("share", [pytest.param(1.0, marks=pytest.mark.slow), 0.45, 0.02])
def test_ranges_over_any_of_many_attributes_find_what_they_mean(share: float) -> None:
    chance = random.Random(3)
    known = ranges_over(chance, 12, 3_000, width=0.4)
    index = index_of(known)
    published = [numbers(chance, 12, share) for _ in range(12)]
    for _ in range(5):
        assert_same(index, meaning_of(known), published, published)
        gone = {each.id for each in chance.sample(known, len(known) // 3)}
        for id in gone:
            index.remove(id)
        known = [each for each in known if each.id not in gone]
        index.match([numbers(chance, 12, share) for _ in range(40)], NOW_S)
        come = [plain(f"again-{len(known)}-{each.id}", each.filter) for each in ranges_over(chance, 12, 300, width=0.4)]
        index.add_many(come)
        known += come
    remove_everything(index)


def test_ranges_over_attributes_that_nobody_named_before() -> None:
    """A block whose axes do not suit what comes is made anew."""
    chance = random.Random(5)
    index = index_of(ranges_over(chance, 10, 600, before="city = 'Madrid' and "))
    index.add_many(
        plain(f"later-{each.id}", each.filter.replace(" and a", " and b").replace(" a0 ", " b0 "))
        for each in ranges_over(chance, 10, 3_000, before="city = 'Madrid' and ")
    )
    others = {f"b{name}": chance.random() for name in range(10)}
    assert candidates_of(index, [content({"city": "Madrid", **others})]) < 250


# Ranges of texts


TIMES = [f"2026-05-{day:02}T{hour:02}:{minute:02}:00Z" for day in (16, 17) for hour in range(24) for minute in (0, 30)]
ORDERED = [
    *TIMES,
    "",
    "a",
    "a\x00",
    "a\x00\x00",
    "ab",
    "abcdefgh",
    "abcdefgh\x00",
    "abcdefghi",
    "é",
    "日本",
    "😀",
    "z" * 300,
]


def text_filters(chance: random.Random, count: int, texts: list[str]) -> list[str]:
    made = []
    for _ in range(count):
        low, high = (f"'{text}'" for text in chance.choices(texts, k=2))
        made.append(
            chance.choice(
                [
                    f"s between {low} and {high}",
                    f"s >= {low} and s < {high}",
                    f"s > {low}",
                    f"s <= {high}",
                    f"not (s < {low})",
                    f"not s between {low} and {high}",
                    f"s >= {low} and n > {chance.randint(0, 9)}",
                    f"s > {low} and s < {high} and s != {low}",
                ]
            )
        )
    return made


@pytest.mark.parametrize("seed", range(3))
def test_ranges_of_texts_mean_what_the_language_says(seed: int, evaluated: list[str]) -> None:
    chance = random.Random(seed)
    known = [record(f"t-{number}", filter) for number, filter in enumerate(text_filters(chance, 600, ORDERED))]
    index = index_of(known)
    published = [content({"s": text, "n": chance.randint(0, 9)}) for text in chance.sample(ORDERED, 20)]
    published += [content({"s": "z" * 300 + "a"}), content({"s": 5}), content(), content({"s": 'quo"ted', "n": 4})]
    assert_same(index, meaning_of(known), published, published)
    too_long = {each.id for each in known if "z" * 300 in each.filter}
    assert set(evaluated) <= too_long
    for each in known[::2]:
        index.remove(each.id)
    assert_same(index, meaning_of(known[1::2]), published, published)
    remove_everything(index)


def test_ranges_of_texts_beside_words() -> None:
    """Words are hashed between the reading and the searching of publications, whose texts must outlast that."""
    index = index_of([record("range", "s between 'm' and 'n'"), record("words", words=("house",))])
    published = [content({"s": "middle"}, text=f"a house of {word(random.Random(number), 60)}") for number in range(50)]
    assert matched(index, *published) == [{"range", "words"}] * 50


@pytest.mark.parametrize("beginning", ["", "2026-05-17T12:", "https://example.org/catalogue/"])
def test_narrow_ranges_of_texts_are_found(beginning: str) -> None:
    chance = random.Random(7)
    texts = [beginning + word(chance) for _ in range(4_000)]
    index = index_of(plain(f"t-{number}", f"s between '{text}' and '{text}z'") for number, text in enumerate(texts))
    published = [content({"s": beginning + word(chance)}) for _ in range(30)]
    assert candidates_of(index, published) < 200


# Long texts


@pytest.mark.parametrize("operator", ["prefix", "suffix", "contains"])
def test_long_texts_that_begin_or_end_alike(operator: str, evaluated: list[str]) -> None:
    chance = random.Random(8)
    shared = "https://example.org/catalogue/articles/by-category/electronics/computers/"
    texts = [shared + word(chance) + shared for _ in range(1_000)]
    texts += [shared + word(chance) for _ in range(500)] if operator != "suffix" else []
    texts += [word(chance) + shared for _ in range(500)] if operator != "prefix" else []
    known = [plain(f"t-{number}", f"s {operator} '{text}'") for number, text in enumerate(texts)]
    index = index_of(known)
    published = [content({"s": text}) for text in chance.sample(texts, 30)]
    published += [content({"s": text + "x" if operator != "suffix" else "x" + text}) for text in texts[:10]]
    assert_same(index, meaning_of(known), published, published)
    assert len(evaluated) < 3 * len(published)
    remove_everything(index)


# Lists of values


@pytest.mark.parametrize("count", [64, 65, 200, pytest.param(1_024, marks=pytest.mark.slow)])
def test_long_lists_of_values_are_found_by_their_values(count: int) -> None:
    chance = random.Random(count)
    lists = [sorted({word(chance, 5) for _ in range(count)}) for _ in range(300)]
    index = index_of(
        plain(f"in-{number}", "city in (" + ", ".join(f"'{value}'" for value in values) + ")")
        for number, values in enumerate(lists)
    )
    assert candidates_of(index, [content({"city": word(chance, 6)}) for _ in range(20)]) < 1
    assert matched(index, content({"city": lists[7][3]}))[0] >= {"in-7"}
    remove_everything(index)


def test_lists_too_long_for_that_are_found_by_their_attribute() -> None:
    listed = ", ".join(map(str, range(1_500)))
    index = index_of(plain(f"in-{number}", f"a{number} in ({listed}, {number + 5_000})") for number in range(200))
    assert candidates_of(index, [content({"a7": 3, "other": 1})]) <= 1
    assert matched(index, content({"a7": 3}), content({"a7": "3"}), content({"a8": 5_008})) == [
        {"in-7"},
        set(),
        {"in-8"},
    ]
    remove_everything(index)


# Filters with more conditions than are kept


@pytest.mark.slow
def test_too_many_conditions_are_found_by_what_they_have_in_common(evaluated: list[str]) -> None:
    either = " and ".join(f"(a{number} = 1 or b{number} = 1)" for number in range(10))
    known = [
        record(f"s-{number}", f"city = 'c{number}' and {either} and " + " and ".join(f"k{j} = 1" for j in range(6)))
        for number in range(5)
    ]
    index = index_of(known)
    attributes = {
        **{f"a{n}": 1 for n in range(5)},
        **{f"b{n}": 1 for n in range(5, 10)},
        **{f"k{n}": 1 for n in range(6)},
    }
    published = [content({"city": f"c{number}", **attributes}) for number in range(7)]
    published.append(content({"city": "c1", **attributes, "b9": 2}))
    assert_same(index, meaning_of(known), published, published)
    assert len(evaluated) <= len(published)
    remove_everything(index)


def test_too_many_conditions_with_nothing_in_common() -> None:
    either = " and ".join(f"(a{number} = 1 or b{number} = 1)" for number in range(9))
    filter = f"({either} and " + " and ".join(f"k{j} = 1" for j in range(26)) + ") or z = 9"
    index = index_of([record("s", filter.replace("b8 = 1)", "b8 > 1)"))])
    kept = {**{f"a{n}": 1 for n in range(9)}, **{f"k{n}": 1 for n in range(26)}}
    published = [content(kept), content({**kept, "k3": 0}), content({"z": 9}), content({"z": 8})]
    assert matched(index, *published) == [{"s"}, set(), {"s"}, set()]
    remove_everything(index)
