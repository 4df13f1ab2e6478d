"""Whole subscriptions and publications by chance from a seed: many of them, quickly made, that often meet.

What Hypothesis draws takes a hundred times as long, but shrinks; the tests use both.
"""

import json
import random
from collections.abc import Sequence
from typing import Any

import msgspec

from braid.content import Content, encode_content
from braid.filters import FilterError, Value, parse, print_filter
from braid.instants import format_instant
from braid.subscription import SubscriptionRecord
from braid.topics import SCOPES, canonical_topic, parse_pattern, parse_topic
from braid.zones import check_zone
from tests.core.matching_cases import NOW_S
from tests.core.test_zones_properties import wrapped

NAMES = ["a", "b", "c", "d", "x-y", "in", "größe", 'say "no"']
TEXTS = ["", "x", "xy", "yx", "it's", 'say "yes"', "back\\slash", "é", "日本", "new\nline\x07", "z" * 63, "z" * 70]
NUMBERS: list[int | float] = [
    *(0, 1, 1.0, 2, 2.5, 3, 4, -7, -0.0, 0.1, 1e300, 5e-324),
    *(2**53, float(2**53), 2**53 + 1, 2**53 + 2, -(2**53) - 1),
    *(2**63 - 1, float(2**63), -(2**63), -(2**63) + 1),
]
WORDS = ["white", "house", "houses", "running", "tax", "vote", "Voting", "niño", "the"]  # the last one is a stop word
TOPICS = ["a", "a/b", "a/b/c", "a/c", "x/y", "1.4", "1.4.2", "é/b", 'q"t/b']
PATTERNS = [*TOPICS, "a/+", "+/b", "a/#", "#", "+", "a/+/c", "1.+", "+/+/#", "1.#"]
WINDOWS = [(NOW_S, None), (None, NOW_S), (NOW_S - 1, NOW_S + 1), (NOW_S + 0.001, None), (None, NOW_S + 0.001)]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def literal(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else repr(value)


def canonically(parts: dict[str, Any]) -> bytes:
    data = {"data": msgspec.Raw(json.dumps(parts["data"]).encode())} if "data" in parts else {}
    return encode_content(Content(**{**parts, **data}))


class Population:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def record(self, id: str) -> SubscriptionRecord:
        chance, parts = self.chance, dict[str, Any]()
        if chance.random() < 0.15:
            parts["words"] = tuple(chance.sample(WORDS[:-1], chance.randint(1, 3)))
        if chance.random() < 0.15:
            parts["topic"] = canonical_topic(parse_pattern(chance.choice(PATTERNS)))
            parts["topic_scope"] = chance.choice(SCOPES)
        if chance.random() < 0.12:
            parts["zone"] = self.zone(points=False)
        if chance.random() < 0.4:
            parts["from_s"], parts["until_s"] = chance.choice(WINDOWS)
        owner, home = chance.choice(["anna", "bert"]), chance.choice(["connpoint-1", "connpoint-2"])
        return SubscriptionRecord(id, owner, home, self.filter(), 0.0, **parts)

    def content(self) -> bytes:
        chance = self.chance
        names = chance.sample(NAMES, chance.randint(0, 5))
        parts: dict[str, Any] = {"id": "p", "attributes": {name: self.value() for name in names}}
        if chance.random() < 0.5:
            parts["topic"] = canonical_topic(parse_topic(chance.choice(TOPICS)))
        if chance.random() < 0.5:
            parts["text"] = " ".join(chance.sample(WORDS, chance.randint(1, 6)))
        if chance.random() < 0.5:
            parts["zone"] = self.zone(points=True)
        if chance.random() < 0.1:
            parts["expires"] = format_instant(NOW_S + chance.choice([-1, 0, 0.001]))
        return canonically(parts)

    def contents(self, count: int) -> list[bytes]:
        return [self.content() for _ in range(count)]

    def filter(self) -> str:
        if self.chance.random() < 0.15:
            return ""
        while True:
            try:
                return print_filter(parse(self._part(depth=0)))
            except FilterError:
                continue  # too many alternatives

    def value(self) -> Value:
        several: list[Sequence[Value]] = [TEXTS[:4], TEXTS, NUMBERS[:7], NUMBERS, [True, False]]
        return self.chance.choice(self.chance.choice(several))

    def zone(self, *, points: bool) -> dict[str, Any]:
        chance = self.chance
        south, west = chance.choice([(0, 0), (40.4, -3.7), (89.9, 10), (-89.9, -20), (10, 179.999), (-10, -180)])
        lat = south + chance.choice([0, chance.uniform(-0.09, 0.09)])
        lon = wrapped(west + chance.choice([0, 0, chance.uniform(0, 0.1)]))
        if points and chance.random() < 0.6:
            return check_zone({"type": "point", "lat": lat, "lon": lon})
        if chance.random() < 0.6:
            radius_m = chance.choice([100, 5_000, 200_000, 5_000_000])
            return check_zone({"type": "circle", "lat": lat, "lon": lon, "radius_m": radius_m})
        north, east = min(90.0, lat + chance.choice([0.1, 30])), wrapped(lon + chance.choice([0.1, 60]))
        if chance.random() < 0.5:
            return check_zone({"type": "box", "south": lat, "west": lon, "north": north, "east": east})
        ring = [[lon, 0.0], [wrapped(lon + 0.2), 0.0], [wrapped(lon + 0.1), 0.3]]
        return check_zone({"type": "Polygon", "coordinates": [[*ring, ring[0]]]})

    def _part(self, depth: int) -> str:
        chance = self.chance.random()
        if depth == 2 or chance < 0.45:
            return self._predicate()
        if chance < 0.75:
            return " and ".join(f"({self._part(depth + 1)})" for _ in range(self.chance.randint(2, 4)))
        if chance < 0.9:
            return " or ".join(f"({self._part(depth + 1)})" for _ in range(2))
        return f"not ({self._part(depth + 1)})"

    def _predicate(self) -> str:
        chance = self.chance
        name = f"`{chance.choice(NAMES[:4] if chance.random() < 0.9 else NAMES)}`"
        number, other = (literal(chance.choice(NUMBERS)) for _ in range(2))
        few = ", ".join(literal(self.value()) for _ in range(chance.randint(1, 4)))
        return chance.choice(
            [
                f"{name} = {literal(self.value())}",
                f"{name} = {literal(self.value())}",
                f"{name} != {literal(self.value())}",
                f"{name} {chance.choice(['<', '<=', '>', '>='])} {literal(self.value())}",
                f"{name} between {number} and {other}",
                f"{name} between 'a' and 'y'",
                f"{name} in ({few})",
                f"{name} {chance.choice(['prefix', 'suffix', 'contains'])} {literal(chance.choice(TEXTS))}",
                f"exists {name}",
                f"{name} {chance.choice(['<', '=', '!=', '>'])} prev({name}){chance.choice(['', ' * 2', ' + 1'])}",
            ]
        )
