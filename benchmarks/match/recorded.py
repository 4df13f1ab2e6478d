"""Workloads over recorded data, read from the directory that `--data` names: air readings, posts, taxis."""

import csv
import gzip
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

from benchmarks.match.source import content, record, seeded
from braid.subscription import SubscriptionRecord
from braid.words import stems_of
from braid.zones import check_zone

AIR = "air_madrid/madrid_air_2023H1_long.csv.gz"
POSTS = "tweets/congress_tweets_2020_150k.csv.gz"
TAXIS = "taxis/cabspotting_2008-06-02_to_03.csv.gz"


class Air:
    """B: hourly readings of stations; alarms on a pollutant, most of them at one station, above or within bounds."""

    with_station = 0.9  # of the subscriptions

    def __init__(self, data: Path) -> None:
        self._readings = [row for row in _rows(data / AIR) if row["flag"] == "V"]
        self._values: dict[tuple[str, str], list[float]] = {}
        for row in self._readings:
            value = float(row["value"])
            self._values.setdefault((row["pollutant"], row["station"]), []).append(value)
            self._values.setdefault((row["pollutant"], ""), []).append(value)
        for values in self._values.values():
            values.sort()
        self._anywhere = sorted(place for place in self._values if not place[1])
        self._somewhere = sorted(place for place in self._values if place[1])

    def subscriptions(self) -> Iterator[SubscriptionRecord]:
        choose = seeded("air", "subscriptions")
        for number in count():
            places = self._somewhere if choose.random() < self.with_station else self._anywhere
            pollutant, station = place = choose.choice(places)
            conditions = [f"pollutant = '{pollutant}'"]
            if station:
                conditions.append(f"station = '{station}'")
            values = self._values[place]
            kind = choose.random()
            if kind < 0.7:
                conditions.append(f"value > {_quantile(values, 1 - 0.1 * choose.random())!r}")
            elif kind < 0.8:
                conditions.append(f"value < {_quantile(values, 0.1 * choose.random())!r}")
            else:
                low = choose.uniform(0, 0.98)
                conditions.append(f"value between {_quantile(values, low)!r} and {_quantile(values, low + 0.02)!r}")
            yield record(number, " and ".join(conditions))

    def contents(self, count: int) -> list[bytes]:
        rows = seeded("air", "contents").sample(self._readings, count)
        made = []
        for number, row in enumerate(rows):
            attributes = {
                "station": row["station"],
                "pollutant": row["pollutant"],
                "value": float(row["value"]),
                "hour": int(row["local_hour_end"][11:13]),
                "day": row["local_hour_end"][:10],
            }
            made.append(content(number, attributes=attributes))
        return made


def _quantile(values: list[float], share: float) -> float:
    return values[min(int(share * len(values)), len(values) - 1)]


class Posts:
    """E: short texts; each subscription asks for one to four words of a text. Events are other texts."""

    frequent = 0.03  # of the words; nobody asks for nothing but the most frequent ones

    def __init__(self, data: Path) -> None:
        texts = [row["text"] for row in _rows(data / POSTS)]
        self._subscribed, self._published = texts[::2], texts[1::2]
        uses = Counter(word for text in self._subscribed for word in set(_words_of(text)))
        # The word itself decides between equals, because the order of a set is another one in every process.
        ranked = sorted(uses, key=lambda word: (-uses[word], word))
        self._frequent = set(ranked[: int(self.frequent * len(ranked))])

    def subscriptions(self) -> Iterator[SubscriptionRecord]:
        choose = seeded("posts", "subscriptions")
        number = 0
        while True:
            words = sorted({word for word in _words_of(choose.choice(self._subscribed)) if _counts(word)})
            wanted = choose.sample(words, min(choose.randint(1, 4), len(words)))
            if not self._frequent.issuperset(wanted):
                yield record(number, words=tuple(wanted))
                number += 1

    def contents(self, count: int) -> list[bytes]:
        texts = seeded("posts", "contents").sample(self._published, count)
        return [content(number, text=text) for number, text in enumerate(texts)]


def _words_of(text: str) -> list[str]:
    """Neither addresses nor names of accounts."""
    plain = re.sub(r"(https?:|[@#])\S*", " ", text)
    return re.findall(r"\b[a-z]{3,}\b", plain.lower())


@cache
def _counts(word: str) -> bool:
    """Whether it is more than a stop word."""
    return bool(stems_of(word))


class Taxis:
    """F: positions of taxis; circles of 100 m to 1 km around places where taxis have been."""

    def __init__(self, data: Path) -> None:
        self._places = [(float(row["lat"]), float(row["lon"])) for row in _rows(data / TAXIS)]

    def subscriptions(self) -> Iterator[SubscriptionRecord]:
        choose = seeded("taxis", "subscriptions")
        for number in count():
            lat, lon = choose.choice(self._places)
            radius_m = round(10 ** choose.uniform(2, 3), 1)
            yield record(number, zone=check_zone({"type": "circle", "lat": lat, "lon": lon, "radius_m": radius_m}))

    def contents(self, count: int) -> list[bytes]:
        places = seeded("taxis", "contents").sample(self._places, count)
        return [
            content(number, zone=check_zone({"type": "point", "lat": lat, "lon": lon}))
            for number, (lat, lon) in enumerate(places)
        ]


def _rows(file: Path) -> Iterator[dict[str, str]]:
    with gzip.open(file, "rt", encoding="utf-8", newline="") as text:
        yield from csv.DictReader(text)
