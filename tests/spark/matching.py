"""A publication matches as many subscriptions as was asked for, found by the broker's own index and by brute force."""

from collections import Counter
from pathlib import Path
from statistics import fmean, median, stdev

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from braid.config import Limits
from braid.matching.index import MatchIndex
from braid.matching.meaning import accepts, read_publication
from braid.subscription import SubscriptionRecord, check_subscription, decode_subscription
from spark.errors import ExperimentError
from spark.experiments import stored
from spark.requests import SUBSCRIPTIONS, Workload
from spark.running import make_workload
from spark.words import Statistics
from spark.workloads import topic_subscriptions, word_shares, zone_subscriptions
from spark.workloads.fleets import CITY
from spark.workloads.recorded_words import Class, placed
from spark.workloads.recorded_words import terms as recorded_terms
from spark.workloads.subscriptions import SHARE_MAX, Rung, blended, share_of
from spark.workloads.word_subscriptions import demands_for
from tests.spark.recordings import record_posts
from tests.spark.workload_cases import numbers, published, rows_of, subscriptions

__all__ = [
    "test_a_ladder_gives_the_wanted_share",
    "test_many_words_are_demanded_where_few_posts_shall_match",
    "test_of_a_large_class_some_members_have_places",
    "test_pairs_are_of_the_words_whose_pairs_were_counted",
    "test_publications_match_as_often_as_asked",
    "test_recorded_posts_match_as_often_as_asked",
    "test_the_first_subscriptions_to_topics_are_a_fair_sample",
    "test_too_few_subscriptions",
    "test_zones_reach_beyond_the_area",
]

ABOUT = {"readings": "readings", "posts": "posts", "fleets": "fleets", "topics": "posts"}
TOLERANCE = 0.1


def tolerance(rows: int) -> float:
    """Few subscriptions are a small sample."""
    return TOLERANCE if rows > 150 else 2 * TOLERANCE


@pytest.mark.parametrize(("rows", "matches"), [(150, 15), (1_000, 10), (20_000, 2)])
@pytest.mark.parametrize("on", ABOUT)
def test_publications_match_as_often_as_asked(spark: SparkSession, on: str, rows: int, matches: float) -> None:
    contents = published(spark, ABOUT[on])
    records = records_of(subscriptions(spark, on, rows, matches))
    counts = matched(records, contents)
    assert fmean(counts) == pytest.approx(matches, rel=tolerance(rows))
    if on not in ("posts", "topics"):
        # Each one, wherever it is and whatever its value; how many there are varies as chance does.
        assert stdev(counts) < 2 * matches**0.5
    if rows <= 1_000:
        some = [read_publication(row["publication"]) for row in contents[:5]]
        assert counts[:5] == [sum(accepts(record, content, None, 0) for record in records) for content in some]


def test_the_first_subscriptions_to_topics_are_a_fair_sample(spark: SparkSession) -> None:
    """Of those to one level, however few are taken: most posts lie below few nodes of it."""
    depth, seeds, prefixes = 4, range(40), (50, 300, 2_000)
    posts = [row["topic"].split(".")[:depth] for row in published(spark, "posts")]
    weights = Counter(".".join(levels) for levels in posts)
    nodes = [topic_subscriptions._node(seed, depth).alias(f"seed_{seed}") for seed in seeds]
    rows = numbers(spark, max(prefixes)).orderBy("number").select(*nodes).collect()
    for prefix in prefixes:
        expected = prefix / topic_subscriptions.CHILDREN**depth
        found = [sum(weights[row[seed]] for row in rows[:prefix]) / len(posts) for seed in seeds]
        assert fmean(found) == pytest.approx(expected, rel=0.35), prefix
        assert median(found) > expected / 4, prefix
    for seed in seeds:
        for level in range(depth):
            children = Counter(row[seed].split(".")[level] for row in rows[:300])
            assert len(children) == topic_subscriptions.CHILDREN, (seed, level)
        assert len({row[seed].rpartition(".")[0] for row in rows[:1_000]}) == 1_000  # each node once before any twice


def test_recorded_posts_match_as_often_as_asked(spark: SparkSession, tmp_path: Path) -> None:
    record_posts(tmp_path, [row["text"] for row in published(spark, "posts")[:400]])
    asked = subscriptions(spark, "posts", 500, 5, tmp_path)
    counts = matched(records_of(asked), rows_of(spark, "posts", 400, data=tmp_path))
    assert fmean(counts) == pytest.approx(5, rel=TOLERANCE)
    assert [row["number"] for row in asked] == list(range(500))
    # Those who take the first rows of the files take them in the order of their numbers; there are as many files as
    # were asked for, and the same rows in them.
    out = tmp_path / "written"
    request = Workload(
        kind=SUBSCRIPTIONS, on="posts", rows=500, seed=7, out=out, matches=5, data=tmp_path, partitions=3
    )
    assert make_workload(request)["rows"] == 500
    files = [pq.read_table(file).to_pylist() for file in stored.files_in(out)]
    assert len(files) == 3
    assert [row for file in files for row in file] == [row.asDict() for row in asked]


def test_of_a_large_class_some_members_have_places(spark: SparkSession) -> None:
    terms = [(1, 3, [f"word{number}"], 9) for number in range(200)]
    terms += [(2, 0, ["white", f"house{number}"], 1) for number in range(3)]
    terms += [(1, 0, ["rare"], 1)]
    counted = spark.createDataFrame(terms, "size int, power int, words array<string>, posts long")

    def found(partitions: int) -> dict[tuple[int, int], list[Row]]:
        rows = placed(counted.repartition(partitions), [Class(1, 3), Class(2, 0)], most=5).collect()
        rows.sort(key=lambda row: int(row["place"]))
        return {of: [row for row in rows if (row["size"], row["power"]) == of] for of in ((1, 3), (2, 0), (1, 0))}

    places = found(1)
    assert {of: [row["place"] for row in rows] for of, rows in places.items()} == {
        (1, 3): list(range(len(places[1, 3]))),
        (2, 0): [0, 1, 2],  # they are few, so all of them have one
        (1, 0): [],  # nobody asked for these
    }
    assert 2 <= len(places[1, 3]) <= 10
    assert found(3) == places


def test_pairs_are_of_the_words_whose_pairs_were_counted(spark: SparkSession) -> None:
    """All others are left out of what each process has to hold."""
    ranked = [("rain", 9, 1), ("madrid", 8, 2), ("seldom", 1, 3)]
    frequencies = spark.createDataFrame(ranked, "word string, posts long, rank int")
    pairs = spark.createDataFrame(
        [("rain", "madrid", 4), ("rain", "seldom", 1)], "first string, second string, posts long"
    )
    found = recorded_terms(Statistics(10, 2, frequencies, pairs, frequencies)).collect()
    assert sorted(row["words"] for row in found) == [["madrid"], ["rain"], ["rain", "madrid"], ["seldom"]]


def test_many_words_are_demanded_where_few_posts_shall_match() -> None:
    sizes = {demand.topic_words for _, demand in demands_for(10 / 1_000_000)}
    assert sizes >= {1, 2, 3}
    for share in (0.1, 1e-3, 1e-5, 1e-7):
        demands = demands_for(share)
        assert sum(weight for weight, _ in demands) == pytest.approx(1)
        shares = {rung.kind: rung.share for words in range(4) for rung in word_shares.ladder(words)}
        assert sum(weight * shares[demand] for weight, demand in demands) == pytest.approx(share)
    with pytest.raises(ExperimentError, match="more --matches or fewer --rows"):
        demands_for(1e-15)


def test_a_ladder_gives_the_wanted_share() -> None:
    ladder = [Rung("often", 0.5), Rung("seldom", 0.1), Rung("never", 0.0)]
    for share, first, weight in ((0.2, "often", 0.25), (0.05, "seldom", 0.5)):
        (one, kind), (other, _) = blended(ladder, share)
        assert kind == first
        assert one == pytest.approx(weight)
        assert one + other == pytest.approx(1)
    assert blended(ladder, 0.7) == []


def test_zones_reach_beyond_the_area() -> None:
    for share in (SHARE_MAX, 1e-3, 1e-7):
        around, size_m2 = zone_subscriptions.spread_over(CITY, share)
        assert size_m2 == pytest.approx(share * around.size_m2(), rel=1e-6)
        assert around.south < CITY.south < CITY.north < around.north


def test_too_few_subscriptions() -> None:
    assert share_of(50, 10) == SHARE_MAX
    with pytest.raises(ExperimentError, match="at least --rows 50"):
        share_of(49, 10)


def matched(records: list[SubscriptionRecord], publications: list[Row]) -> list[int]:
    """How many subscriptions each publication matches."""
    index = MatchIndex()
    index.add_many(records)
    return [len(ids) for ids in index.match([row["publication"].encode() for row in publications], 0).ids()]


def records_of(subscribed: list[Row]) -> list[SubscriptionRecord]:
    return [
        check_subscription(
            decode_subscription(row["subscription"]),
            Limits(),
            0,
            id=f"s-{row['number']}",
            subscriber=row["subscriber"],
            home="connpoint-1",
            temporary=False,
        )
        for row in subscribed
    ]
