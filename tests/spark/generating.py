"""Generated rows: they follow from the seed alone, the API accepts them, and they look like what they stand for."""

import math
from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from braid.config import Limits
from braid.content import check_content, decode_content, encode_content
from braid.words import STOP_WORDS, stem_of
from spark.requests import SUBSCRIPTIONS
from spark.workloads import fleets, madrid, posts, readings, vocabulary
from spark.workloads.areas import EARTH_RADIUS_M
from tests.spark.workload_cases import PUBLISHED, SUBSCRIBED, numbers, published, rows_of

__all__ = [
    "test_a_topic_takes_over_in_a_burst",
    "test_each_word_is_its_own_stem",
    "test_publications_are_canonical",
    "test_readings_have_the_daily_course_and_the_values_of_madrid",
    "test_readings_of_a_sensor_go_on_smoothly",
    "test_the_first_words_are_the_most_frequent_ones",
    "test_the_same_seed_gives_the_same_rows",
    "test_vehicles_drive_as_they_say",
]

KINDS = [*((kind, None) for kind in PUBLISHED), *((SUBSCRIPTIONS, on) for on in SUBSCRIBED)]


@pytest.mark.parametrize(("kind", "on"), KINDS)
def test_the_same_seed_gives_the_same_rows(spark: SparkSession, kind: str, on: str | None) -> None:
    once = rows_of(spark, kind, 300, on=on, partitions=1)
    assert [row["number"] for row in once] == list(range(300))
    assert once == rows_of(spark, kind, 300, on=on, partitions=7)
    if on is None:
        assert once == published(spark, kind)[:300]  # more rows go on where these end
    else:
        other = rows_of(spark, kind, 300, on=on, seed=8)
        assert sum(ours[-1] == theirs[-1] for ours, theirs in zip(once, other, strict=True)) < 30


@pytest.mark.parametrize("kind", PUBLISHED)
def test_publications_are_canonical(spark: SparkSession, kind: str) -> None:
    for row in published(spark, kind):
        content = decode_content(row["publication"])
        check_content(content, Limits(), 0)
        assert encode_content(content).decode() == row["publication"]
        assert content.topic == row["topic"]


def test_readings_have_the_daily_course_and_the_values_of_madrid(spark: SparkSession) -> None:
    # Every eleventh day, so that the weather is another one each time.
    table = readings.generate(numbers(spark, 40_000, step=9_973), 7)
    found = table.groupBy("pollutant").agg(
        F.percentile("value", F.lit([0.5, 0.9])).alias("quantiles"),
        F.avg("value").alias("mean"),
        F.avg(F.when(F.col("hour").between(21, 23), F.col("value"))).alias("evening"),
    )
    for row in found.collect():
        kind = madrid.POLLUTANTS.index(row["pollutant"])
        course = madrid.DAILY_COURSE[kind]
        # The course of the day makes the distribution a little wider than the table.
        middle = madrid.QUANTILES[kind][round(40 * (1 - math.cbrt(0.5)))]
        assert row["quantiles"][0] == pytest.approx(middle, rel=0.2), row["pollutant"]
        high = madrid.QUANTILES[kind][round(40 * (1 - math.cbrt(0.1)))]
        assert row["quantiles"][1] == pytest.approx(high, rel=0.25), row["pollutant"]
        assert row["evening"] / row["mean"] == pytest.approx(sum(course[21:24]) / 3, rel=0.2), row["pollutant"]


def test_readings_of_a_sensor_go_on_smoothly(spark: SparkSession) -> None:
    sensor = readings.SENSORS.index((madrid.POLLUTANTS.index("O3"), madrid.STATIONS_OF_POLLUTANT[6][0]))
    rows = readings.generate(numbers(spark, 59, step=len(readings.SENSORS), first=sensor), 7)
    values = [row["value"] for row in rows.orderBy("number").collect()]
    assert len(set(values)) > 30
    assert max(abs(after - before) for before, after in pairwise(values)) < 0.1 * max(values)


def test_each_word_is_its_own_stem(spark: SparkSession) -> None:
    count = posts.GENERAL_WORDS + posts.TOPICS * posts.WORDS_OF_TOPIC
    assert count <= vocabulary.WORDS_MAX
    words = [row[0] for row in numbers(spark, count).select(vocabulary.word(F.col("number"))).collect()]
    assert len(set(words)) == count
    assert all(stem_of(word) == word for word in words)
    assert all(stem_of(lead) == "" for lead in "".join(vocabulary.LEADS).split())
    assert STOP_WORDS.isdisjoint(words)


def test_the_first_words_are_the_most_frequent_ones(spark: SparkSession) -> None:
    rows = published(spark, "posts")
    texts = Counter(word for row in rows for word in set(row["text"].strip(".").split()))
    ranks = [0, 9, 99]
    wanted = numbers(spark, 100).where(F.col("number").isin(*ranks)).orderBy("number")
    first, tenth, hundredth = [texts[row[0]] for row in wanted.select(vocabulary.word(F.col("number"))).collect()]
    assert 5 < first / tenth < 15
    assert 5 < tenth / max(1, hundredth) < 20


def test_a_topic_takes_over_in_a_burst(spark: SparkSession) -> None:
    rows = posts.generate(numbers(spark, 6_000, step=20), 7).select("number", "topic").collect()
    windows: dict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        windows[row["number"] // posts.BURST_POSTS][row["topic"][:3]] += 1
    assert len(windows) == 20
    shares = [counter.most_common(1)[0][1] / counter.total() for counter in windows.values()]
    assert max(shares) > 0.3
    assert min(shares) < 0.25


def test_vehicles_drive_as_they_say(spark: SparkSession) -> None:
    table = fleets.generate(numbers(spark, 3_000, step=fleets.OBJECTS, first=3), 7)
    way = table.orderBy("number").collect()
    assert {row["object"] for row in way} == {"vehicle-3"}
    speeds = []
    for before, after in pairwise(way):
        assert (after["time"] - before["time"]).total_seconds() == fleets.INTERVAL_S
        speed_kmh = _distance_m(before, after) / fleets.INTERVAL_S * 3.6
        speeds.append(speed_kmh)
        assert speed_kmh == pytest.approx((before["speed_kmh"] + after["speed_kmh"]) / 2, abs=5)
    assert 5 < sum(speeds) / len(speeds) < 60
    assert max(speeds) < 130
    south, west, north, east = fleets.CITY
    assert all(south <= row["lat"] <= north and west <= row["lon"] <= east for row in way)
    assert {row["occupied"] for row in way} == {True, False}


def _distance_m(before: Row, after: Row) -> float:
    north = math.radians(after["lat"] - before["lat"])
    east = math.radians(after["lon"] - before["lon"]) * math.cos(math.radians(before["lat"]))
    return EARTH_RADIUS_M * math.hypot(north, east)
