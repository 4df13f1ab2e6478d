"""Topics, zones and words in numbers that the engine treats in another way than a few."""

import random
from itertools import product
from typing import Any

import pytest

from braid.matching import topic_shapes, vocabulary
from braid.matching.index import MatchIndex
from braid.matching.meaning import accepts, read_publication, topic_accepts, zone_accepts
from braid.topics import SCOPES
from tests.core.matching_cases import NOW_S, assert_same, content, index_of, matched, record, remove_everything

TOPICS = ["/".join(levels) for depth in range(1, 8) for levels in product("ab", repeat=depth) if depth < 3 or depth > 5]


@pytest.mark.parametrize(("usual", "unusual"), [(6, 512), (2, 20), (0, 0)])
def test_topics_of_more_shapes_than_the_engine_keeps(usual: int, unusual: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pattern of wildcards is a shape; what is beyond the limit is found by a shape above it, and evaluated."""
    monkeypatch.setattr(topic_shapes, "_LEVELS_USUAL", usual)
    monkeypatch.setattr(topic_shapes, "UNUSUAL_SHAPES_MAX", unusual)
    chance = random.Random(1)
    patterns = ["/".join(levels) for levels in product(["a", "b", "+"], repeat=6)]
    patterns += ["/".join(levels) + "/#" for levels in product(["a", "+"], repeat=5)]
    chosen = chance.sample(patterns, 250)
    known = {
        f"s-{number}": record(f"s-{number}", topic=pattern, topic_scope=SCOPES[number % 3])
        for number, pattern in enumerate(chosen)
    }
    index = index_of(known.values())
    cases = chance.sample(TOPICS, 60)
    published = [content(topic=topic) for topic in cases]

    def wanted(topic: str) -> set[str]:
        publication = read_publication(content(topic=topic))
        return {id for id, record in known.items() if topic_accepts(record, publication)}

    assert_same(index, wanted, cases, published)
    assert matched(index, content()) == [set()]
    for id in chance.sample(sorted(known), 200):
        index.remove(id)
        del known[id]
    assert_same(index, wanted, cases, published)
    for id, each in list(known.items()):
        index.add(each)
        assert len(index) == len(known), id
    assert_same(index, wanted, cases, published)
    remove_everything(index)


def shapes_of_all_kinds(levels: int) -> list[str]:
    return ["/".join(pattern) for pattern in product(["q", "+"], repeat=levels)]


def test_nobody_takes_the_shapes_that_others_use() -> None:
    """Whatever patterns one client thinks of, topics of others are found by their keys."""
    hoarded = [pattern for levels in (7, 8, 9, 10) for pattern in shapes_of_all_kinds(levels)]
    index = index_of(
        record(f"q-{number}", topic=pattern, topic_scope="below") for number, pattern in enumerate(hoarded)
    )
    topics = ["t/{}", "t/{}/+/x", "+/{}", "t/1/2/3/4/5/6/7/{}", "t/{}/+/1/2/3/+/4/5"]
    index.add_many(
        record(f"{place}-{number}", topic=topic.format(number), topic_scope="self")
        for place, topic in enumerate(topics)
        for number in range(500)
    )
    published = [content(topic=topic.format(7).replace("+", "y")) for topic in topics]
    before = index.statistics()["candidates"]
    assert [f"{place}-7" in found for place, found in enumerate(matched(index, *published))] == [True] * 5
    assert index.statistics()["candidates"] - before < 30


def test_the_deepest_topics() -> None:
    levels = [f"l{number}" for number in range(32)]
    deepest = "/".join(levels)
    index = index_of(
        [
            record("self", topic=deepest, topic_scope="self"),
            record("both", topic=deepest),
            record("above", topic="/".join(levels[:31]) + "/#", topic_scope="self"),
            record("wild", topic="/".join("+" * 32), topic_scope="self"),
            record("every", topic="#", topic_scope="self"),
        ]
    )
    assert matched(index, content(topic=deepest), content(topic="l0"), content(topic="l1"), content()) == [
        {"self", "both", "above", "wild", "every"},
        {"both", "every"},
        {"every"},
        set(),
    ]
    remove_everything(index)


def test_numbers_and_paths_are_the_same_topics() -> None:
    index = index_of(
        [record("number", topic="1.4"), record("path", topic="1/x"), record("wild", topic="+/4", topic_scope="self")]
    )
    assert matched(index, content(topic="1.4.2"), content(topic="1"), content(topic="1/x"), content(topic="x/4")) == [
        {"number"},
        {"number", "path"},
        {"path"},
        {"wild"},
    ]


# Circles all over the earth, the poles and the antimeridian included.
GRID = {
    f"z-{lat}-{lon}": record(f"z-{lat}-{lon}", zone={"type": "circle", "lat": lat, "lon": lon, "radius_m": radius_m})
    for (lat, lon), radius_m in zip(
        product(range(-90, 91, 15), range(-180, 180, 20)), [500.0, 50_000.0, 5_000.0, 2_000_000.0] * 100, strict=False
    )
}
ZONES = [
    {"type": "box", "south": 35.0, "west": -10.0, "north": 60.0, "east": 30.0},  # a continent
    {"type": "box", "south": -80.0, "west": -179.0, "north": 80.0, "east": 179.0},
    {"type": "box", "south": -20.0, "west": 170.0, "north": 20.0, "east": -170.0},
    {"type": "circle", "lat": 90.0, "lon": 0.0, "radius_m": 3_000_000.0},
    {"type": "circle", "lat": -89.99, "lon": 77.0, "radius_m": 5_000.0},
    {"type": "circle", "lat": 45.0, "lon": 180.0, "radius_m": 10_000.0},
    {"type": "Polygon", "coordinates": [[[0.0, 0.0], [40.0, 0.0], [20.0, 40.0], [0.0, 0.0]]]},
    *({"type": "point", "lat": lat, "lon": lon} for lat in (-90, -45, 0, 44.999, 90) for lon in (-180, 0, 20.001, 180)),
]


MIXED_ZONES: list[dict[str, Any]] = [
    {"type": "point", "lat": 40.0, "lon": -3.0},
    {"type": "circle", "lat": 40.0, "lon": -3.0, "radius_m": 800.0},
    {"type": "circle", "lat": 40.02, "lon": -3.0, "radius_m": 800.0},
    {"type": "box", "south": 39.99, "west": -3.01, "north": 40.01, "east": -3.001},
    {"type": "box", "south": 39.99, "west": 170.0, "north": 40.01, "east": -3.0},
    {"type": "Polygon", "coordinates": [[[-3.02, 39.98], [-2.98, 39.98], [-3.0, 40.005], [-3.02, 39.98]]]},
]


def test_publications_from_a_point_to_nearly_everywhere() -> None:
    """A zone over more than 1,024 tiles looks through the tiles in use instead of naming its own."""
    index = index_of(GRID.values())
    published = [content(zone=zone) for zone in ZONES]

    def wanted(body: bytes) -> set[str]:
        publication = read_publication(body)
        return {id for id, record in GRID.items() if zone_accepts(record, publication)}

    assert_same(index, wanted, published, published)
    assert len(wanted(published[0])) > 3
    assert len(wanted(published[1])) > 150
    assert matched(index, content()) == [set()]
    remove_everything(index)


def test_many_zones_in_one_place() -> None:
    chance = random.Random(3)
    known = {
        f"z-{number}": record(
            f"z-{number}",
            "a = 1" if number % 3 == 0 else "",
            zone={"type": "circle", "lat": chance.uniform(40, 41), "lon": chance.uniform(-4, -3), "radius_m": 3_000},
        )
        for number in range(300)
    }
    index = index_of(known.values())
    published = [
        content({"a": number % 2}, zone={"type": "point", "lat": chance.uniform(40, 41), "lon": chance.uniform(-4, -3)})
        for number in range(20)
    ]

    def wanted(body: bytes) -> set[str]:
        publication = read_publication(body)
        return {
            id
            for id, record in known.items()
            if zone_accepts(record, publication) and (not record.filter or publication.attributes["a"] == 1)
        }

    assert_same(index, wanted, published, published)
    remove_everything(index)


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [False, True])
def test_parts_beside_filters_plain_and_not(at_once: bool) -> None:
    """Words, topic and zone stand before the conditions of every alternative, one by one and in batches."""
    chance = random.Random(5)
    filters = ["", "a = 1", "a in (1, 2)", "a = 1 or b = 1", "not (a = 1)", "b > 'x'", "a > 0 and b = 1"]
    known = {}
    for number in range(200):
        parts: dict[str, Any] = {}
        if chance.random() < 0.7:
            parts["words"] = tuple(chance.choices(["white", "Houses", "tax", "white house", "taxes"], k=2))
        if chance.random() < 0.3:
            parts["topic"] = chance.choice(["a", "a/+", "a/b"])
        if chance.random() < 0.7:
            parts["zone"] = chance.choice(MIXED_ZONES)
        known[f"s-{number}"] = record(f"s-{number}", chance.choice(filters), **parts)
    index = MatchIndex()
    if at_once:
        index.add_many(known.values())
    else:
        for each in known.values():
            index.add(each)
    texts, topics = ["a white house", "Tax on the white houses", "taxes"], ["a/b", "a", "x"]
    published = [
        content(
            {"a": chance.randint(0, 2), "b": 1 if chance.random() < 0.5 else "y"}, text=text, topic=topic, zone=zone
        )
        for text, topic, zone in product(texts, topics, MIXED_ZONES)
    ]

    def wanted(body: bytes) -> set[str]:
        publication = read_publication(body)
        return {id for id, record in known.items() if accepts(record, publication, None, NOW_S)}

    assert_same(index, wanted, published, published)
    for id in chance.sample(sorted(known), 150):
        assert index.remove(id) == known.pop(id)
    assert_same(index, wanted, published, published)
    remove_everything(index)


def test_a_publication_over_more_tiles_than_ever() -> None:
    """Some ten thousand subscriptions, each under its own tiles; 65,536 tiles are no limit of what is found."""
    index = index_of(
        record(f"z-{lat}-{lon}", zone={"type": "circle", "lat": lat + 0.003, "lon": lon + 0.003, "radius_m": 900.0})
        for lat in range(-60, 60, 2)
        for lon in range(-170, 170, 3)
    )
    everywhere = content(zone={"type": "box", "south": -80.0, "west": -179.0, "north": 80.0, "east": 179.0})
    assert len(matched(index, everywhere)[0]) == len(index)


WORDS = [
    f"{first}{second}" for first in ("brin", "klom", "spar", "tuf") for second in ("dal", "gor", "mip", "zun", "vek")
]


def test_conjunctions_of_words() -> None:
    chance = random.Random(4)
    known = {f"w-{number}": chance.sample(WORDS, chance.randint(1, 6)) for number in range(1_500)}
    index = index_of(record(id, words=tuple(words)) for id, words in known.items())
    cases = [chance.sample(WORDS, chance.randint(0, 14)) for _ in range(50)]
    assert_same(
        index,
        lambda case: {id for id, words in known.items() if set(words) <= set(case)},
        cases,
        [content(text="The " + ", ".join(case) + "!") for case in cases],
    )
    for id in chance.sample(sorted(known), 1_400):
        index.remove(id)
        del known[id]
    assert matched(index, content(text=" ".join(WORDS))) == [set(known)]
    remove_everything(index)


def test_words_that_are_demanded_later() -> None:
    index = index_of([record("tax", words=("tax",))])
    text = content(text="Taxes on houses")
    assert matched(index, text) == [{"tax"}]
    index.add(record("house", words=("house",)))
    assert matched(index, text) == [{"tax", "house"}]
    index.remove("tax")
    assert matched(index, text) == [{"house"}]
    index.add(record("house", words=("housing", "taxes")))
    assert matched(index, text) == [{"house"}]
    remove_everything(index)


def test_batches_of_many_words() -> None:
    index = index_of([record("tax", words=("tax",))])
    assert matched(index, *[content(text="tax " * 100)] * 1_000) == [{"tax"}] * 1_000


def test_a_text_that_repeats_a_word_without_end() -> None:
    index = index_of([record("tax", words=("tax",))])
    assert matched(index, content(text="tax " * 70_000)) == [{"tax"}]


def test_more_demanded_words_in_a_batch_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "WORDS_CACHED_MAX", 4)
    index = index_of(record(word, words=(word,)) for word in WORDS)
    assert matched(index, content(text=" ".join(WORDS)), content(text=WORDS[7])) == [set(WORDS), {WORDS[7]}]
