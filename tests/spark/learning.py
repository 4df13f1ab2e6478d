"""Maps are learned from the words of posts, from the files to the file."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from services.connpoint.http.maps import MapRequest, map_of
from spark.errors import ExperimentError
from spark.requests import Map, Words
from spark.running import run
from spark.words.counting import sample
from spark.words.stemming import with_stems
from spark.words.wanting import anchor_word, wanted_words
from tests.spark.workload_cases import published

__all__ = [
    "test_a_map_is_learned_and_the_broker_takes_it",
    "test_a_map_request_that_makes_no_sense",
    "test_a_sample_is_the_same_whatever_the_partitions",
    "test_what_subscriptions_are_placed_by",
]


TOPICS, WORDS = 10, 4


def write_topical_posts(spark: SparkSession, directory: Path) -> None:
    """Words of one topic occur together, those of different topics never."""
    chance = random.Random(7)
    texts = []
    for _ in range(600):
        topic = chance.randrange(TOPICS)
        texts.append((" ".join(f"t{topic}w{number}" for number in range(WORDS) if chance.random() < 0.7),))
    spark.createDataFrame(texts, "text string").coalesce(1).write.parquet(str(directory))


def test_a_map_is_learned_and_the_broker_takes_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, out = tmp_path / "words", tmp_path / "map.json"
    write_topical_posts(spark, tmp_path / "posts")
    run(Words(posts=tmp_path / "posts", out=words, vocabulary=5))
    capsys.readouterr()
    run(Map(words=words, parts=2, out=out, json=True))
    said, learned = json.loads(capsys.readouterr().out), json.loads(out.read_text())
    assert set(learned["words"]) == {f"t{topic}w{number}" for topic in range(TOPICS) for number in range(WORDS)}
    for topic in range(TOPICS):
        assert len({learned["words"][f"t{topic}w{number}"] for number in range(WORDS)}) == 1
    assert (said["words"], said["posts_learned"] + said["posts_judged"]) == (40, 600)
    assert 60 < said["posts_judged"] < 180
    assert said["visits_mapped"] <= 1.0
    assert said["visits_hashed"] > 1.3
    assert said["largest_share_mapped"] < 0.65 < said["largest_share_hashed"]
    assert len(map_of(MapRequest(**learned))) == 40

    asked = [{"filter": "a = 1"}, *({"words": [f"t{topic}w0", f"t{topic}w1"]} for topic in range(4))]
    table = spark.createDataFrame([(json.dumps(each),) for each in asked], "subscription string")
    table.write.parquet(str(tmp_path / "asked"))
    with pytest.raises(ExperimentError, match="is there already; --overwrite replaces it"):
        run(Map(words=words, parts=2, out=out))
    run(Map(words=words, parts=2, out=out, subscriptions=tmp_path / "asked", overwrite=True))
    assert "largest_share_mapped" in capsys.readouterr().out
    assert Counter(json.loads(out.read_text())["words"].values()) == {0: 2, 1: 2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts": 1}, "--parts must be from 2 to 256"),
        ({"parts": 257}, "--parts must be from 2 to 256"),
        ({"limit": 0}, "--limit must be from 1 to 100000"),
        ({"limit": 100_001}, "--limit must be from 1 to 100000"),
        ({"out": Path("/")}, "is a directory; --out names a file"),
        ({"words": Path("nowhere")}, "nowhere holds no counted words; 'braid experiment words' makes them"),
    ],
)
def test_a_map_request_that_makes_no_sense(changes: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"words": Path("words"), "parts": 3, "out": Path("map.json"), **changes}
    with pytest.raises(ExperimentError, match=message):
        run(Map(**given))  # type: ignore[arg-type]  # of several types


def test_a_sample_is_the_same_whatever_the_partitions(spark: SparkSession) -> None:
    table = spark.createDataFrame([(row["text"],) for row in published(spark, "posts")], "text string")

    def found(partitions: int, most: int) -> list[list[str]]:
        return sorted(row["words"] for row in sample(with_stems(table.repartition(partitions)), 2_000, most).collect())

    some = found(1, 500)
    assert some == found(3, 500)
    assert 400 < len(some) < 600
    assert len(found(2, 10_000)) == 2_000


def test_what_subscriptions_are_placed_by(spark: SparkSession) -> None:
    asked = {
        '{"words": ["white", "houses"]}': "white",
        '{"words": ["houses"], "filter": "a = 1"}': "hous",
        '{"filter": "a = 1"}': None,
        '{"words": ["the"]}': None,
        "not JSON": None,
    }
    assert {text: anchor_word(text) for text in asked} == asked
    table = spark.createDataFrame([(text,) for text in (*asked, *asked)], "subscription string")
    assert sorted(row["word"] for row in wanted_words(table).collect()) == ["hous", "white"]
