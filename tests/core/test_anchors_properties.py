"""Anchors miss nothing: whatever a subscription matches is met by its anchor too."""

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from braid.anchors import ANY, anchored, subscription_of, text_of
from braid.filters import And, Comparison, Filter, In, Prefix, Value, parse
from braid.matching.index import MatchIndex
from braid.matching.meaning import Publication, accepts, read_publication
from braid.subscription import SubscriptionRecord
from braid.topics import canonical_topic, parse_pattern
from braid.zones import bounds, intersects
from tests.core.matching_cases import NOW_S, Model, matched, record
from tests.core.matching_populations import Population, canonically
from tests.core.matching_strategies import attributes, published_zones, subscribed_zones, subscriptions
from tests.core.test_zones_properties import Zone, moved

fixed = settings(derandomize=True, deadline=None, database=None, max_examples=200)


def met_by_anchor(given: SubscriptionRecord, publication: Publication) -> bool:
    return accepts(subscription_of(text_of(given), "a-1", "matcher-1"), publication, None, NOW_S)


def fulfilling(part: Filter, chosen: int) -> dict[str, Value]:
    """Attributes with which a part of a filter holds, where that is easy to say."""
    match part:
        case And(parts):
            return {name: value for each in parts for name, value in fulfilling(each, chosen).items()}
        case Comparison(name, "=", value):
            return {name: value}
        case In(name, several):
            return {name: several[chosen % len(several)]}
        case Prefix(name, text):
            return {name: text + "z" * (chosen % 3)}
    return {}


def place_in(zone: Zone, bearing: float, share: float) -> Zone:
    """A point in a zone or on its edge; of a polygon one of its corners."""
    match zone["type"]:
        case "circle":
            lat, lon = moved((zone["lat"], zone["lon"]), bearing, share * zone["radius_m"])
        case "box":
            width = (zone["east"] - zone["west"]) % 360
            lat = zone["south"] + share * (zone["north"] - zone["south"])
            lon = (zone["west"] + bearing / math.tau * width + 180) % 360 - 180
        case "point":
            lat, lon = zone["lat"], zone["lon"]
        case _:
            corners = zone["coordinates"][0]
            lon, lat = corners[int(bearing * 100) % len(corners)][:2]
    return {"type": "point", "lat": min(max(lat, -90.0), 90.0), "lon": lon}


shares = st.sampled_from([0.0, 0.5, 0.99999, 1.0]) | st.floats(0, 1)
bearings = st.sampled_from([0.0, math.pi / 2, math.pi, math.tau]) | st.floats(0, math.tau)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[SubscriptionRecord, Publication]:
    """A subscription, and a publication that was made to fulfil what it asks for, as far as that is easy."""
    given = replace(draw(subscriptions(st.just("s-1"))), from_s=None, until_s=None)
    if draw(st.integers(0, 3)) == 0:
        given = replace(given, zone=draw(subscribed_zones))
    wanted = fulfilling(parse(given.filter), draw(st.integers(0, 5))) if given.filter else {}
    text = " ".join([*given.words, draw(st.sampled_from(["", "the", "tax reform", "Houses"]))])
    pattern = parse_pattern(given.topic) if given.topic else ()
    levels = [draw(st.sampled_from(["a", "b", "4"])) if level in "+#" else level for level in pattern]
    if draw(st.booleans()) and levels:
        levels.append("c")
    zone = None
    if given.zone is not None:
        zone = draw(st.just(given.zone) | published_zones | st.builds(place_in, st.just(given.zone), bearings, shares))
    return given, Publication({**draw(attributes), **wanted}, canonical_topic(tuple(levels)), text, zone)


def test_whoever_matches_carries_the_anchor() -> None:
    """Publications that are made for the subscription, so that most of them match."""
    met: Counter[str] = Counter()

    @settings(fixed, max_examples=600)  # so many that every kind comes, whatever Hypothesis has seen of our modules
    @given(pairs())
    def check(pair: tuple[SubscriptionRecord, Publication]) -> None:
        given, publication = pair
        if accepts(given, publication, None, NOW_S):
            met[text_of(given).partition(":")[0]] += 1
            assert met_by_anchor(given, publication), (given, publication)

    check()
    assert sum(met.values()) > 80
    assert set(met) == {"words", "box", "topic", "filter", ANY}


@fixed
@given(subscribed_zones, published_zones, bearings, shares)
def test_whatever_meets_a_zone_meets_its_tile(zone: Zone, other: Zone, bearing: float, share: float) -> None:
    """On its very edge too, where zones of different kinds may deviate from one another."""
    text = text_of(record("s-1", zone=zone))
    assume(text != ANY)
    tile = subscription_of(text, "a-1", "matcher-1").zone
    assert tile is not None
    (around,) = bounds(zone)
    assert tile["south"] <= around[0] <= around[2] <= tile["north"]
    assert tile["west"] <= around[1] <= around[3] <= tile["east"]
    assert max(tile["north"] - tile["south"], tile["east"] - tile["west"]) <= 32
    inside = place_in(zone, bearing, share)
    grazing = {"type": "circle", **{name: inside[name] for name in ("lat", "lon")}, "radius_m": 0.5}
    for published in (other, inside, grazing):
        assert intersects(tile, published) or not intersects(zone, published), published


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_whoever_matches_is_found_by_the_anchors_in_an_index(seed: int) -> None:
    """As access points do it: among the anchors of many subscriptions, those of all that match are found."""
    population = Population(seed)
    model, index = Model(), MatchIndex()
    texts: dict[str, str] = {}
    for number in range(250):
        given = anchored(population.record(f"s-{number}"))
        model.add(given)
        texts[given.id] = text_of(given)
        index.add(subscription_of(texts[given.id], texts[given.id], f"matcher-{number % 3}"))
    contents = population.contents(80)
    pairs = 0
    for content, ids, found in zip(contents, model.match(contents, NOW_S), matched(index, *contents), strict=True):
        assert {texts[id] for id in ids} <= found, content
        pairs += sum(texts[id] != ANY for id in ids)
    assert pairs > 40


@settings(fixed, max_examples=60)
@given(st.lists(pairs(), min_size=1, max_size=6))
def test_whoever_matches_is_found_in_an_index_of_drawn_anchors(
    several: list[tuple[SubscriptionRecord, Publication]],
) -> None:
    index = MatchIndex()
    texts = [text_of(subscribed) for subscribed, _ in several]
    for text in texts:
        index.add(subscription_of(text, text, "matcher-1"))
    contents = [written(publication) for _, publication in several]
    for (_, publication), found in zip(several, matched(index, *contents), strict=True):
        for (subscribed, _), text in zip(several, texts, strict=True):
            assert text in found or not accepts(subscribed, publication, None, NOW_S), (subscribed, publication)


def written(publication: Publication) -> bytes:
    parts: dict[str, Any] = {"id": "p", "attributes": publication.attributes, "topic": publication.topic}
    content = canonically({**parts, "text": publication.text, "zone": publication.zone})
    assert read_publication(content) == publication
    return content
