"""What the command line asks for, from the request to the files."""

import json
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from spark import session
from spark.errors import ExperimentError
from spark.outputs import NOTE
from spark.progress import tasks_of
from spark.requests import Words, Workload, decode_request
from spark.running import run
from spark.workloads.making import check
from tests.spark.recordings import record_posts

__all__ = [
    "test_a_request_that_makes_no_sense",
    "test_damaged_files",
    "test_java_is_missing",
    "test_nothing_is_overwritten_by_mistake",
    "test_progress_counts_tasks",
    "test_requests_are_read_from_json",
    "test_words_of_a_workload",
    "test_workload_of_recorded_posts",
]


def workload(out: Path, **changes: object) -> Workload:
    return msgspec.structs.replace(Workload(kind="fleets", rows=50, seed=1, out=out), **changes)


def write_posts(spark: SparkSession, directory: Path) -> None:
    texts = [(f"It rained {number} mm in Madrid.",) for number in range(50)]
    spark.createDataFrame(texts, "text string").coalesce(1).write.parquet(str(directory))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": ""}, "there is no workload ''; one of: readings, posts, fleets, subscriptions"),
        ({"kind": "tweets"}, "there is no workload 'tweets'"),
        ({"rows": 0}, "--rows must be at least 1"),
        ({"on": "posts"}, "--on is for subscriptions; fleets are publications"),
        ({"kind": "subscriptions"}, "--on says what subscriptions are about; one of: readings, posts, fleets, topics"),
        ({"kind": "subscriptions", "on": "posts", "matches": 0.0}, "--matches must be greater than 0"),
        ({"source": "taxis"}, "--source chooses between recorded fleets"),
        ({"kind": "posts", "data": Path("."), "source": "taxis"}, "--source chooses between recorded fleets"),
        ({"data": Path("."), "source": "ships"}, "there is no source 'ships'; one of: taxis"),
        ({"kind": "subscriptions", "on": "topics", "data": Path(".")}, "--on topics is about generated posts"),
        ({"data": Path("nowhere")}, "nowhere is no directory"),
    ],
)
def test_a_request_that_makes_no_sense(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ExperimentError, match=message):
        check(workload(Path("out"), **changes))


def test_requests_are_read_from_json() -> None:
    asked = decode_request('{"type": "words", "posts": "a", "out": "b"}')
    assert asked == Words(posts=Path("a"), out=Path("b"))


def test_words_of_a_workload(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_posts(spark, tmp_path / "posts")
    run(Words(posts=tmp_path / "posts", out=tmp_path / "words", vocabulary=20, json=True))
    said = json.loads(capsys.readouterr().out)
    assert said["posts"] == 50
    note = json.loads((tmp_path / "words" / NOTE).read_text())
    assert note["complete"] is True
    frequencies = spark.read.parquet(str(tmp_path / "words" / "frequencies"))
    assert frequencies.columns == ["word", "posts", "rank"]
    assert said["words"] == frequencies.count()


def test_workload_of_recorded_posts(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_posts(tmp_path, ["Happy New Year!"] * 5)
    run(workload(tmp_path / "out", kind="posts", data=tmp_path, json=True))
    assert json.loads(capsys.readouterr().out)["rows"] == 5  # which is all there is


def test_nothing_is_overwritten_by_mistake(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    run(workload(mine, partitions=2))
    assert "rows           50" in capsys.readouterr().out
    with pytest.raises(ExperimentError, match="mine is not empty; --overwrite replaces it"):
        run(workload(mine))
    run(workload(mine, rows=20, overwrite=True))
    assert spark.read.parquet(str(mine)).count() == 20
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("three years of work")
    with pytest.raises(ExperimentError, match="was not made by this command"):
        run(workload(theirs, overwrite=True))
    with pytest.raises(ExperimentError, match="is a file; --out names a directory"):
        run(workload(theirs / "thesis.txt", overwrite=True))
    with pytest.raises(ExperimentError, match="would replace the posts that are read"):
        run(Words(posts=mine, out=mine, overwrite=True))
    with pytest.raises(ExperimentError, match="cannot write to"):
        run(workload(theirs / "thesis.txt" / "below"))


def test_damaged_files(spark: SparkSession, tmp_path: Path) -> None:
    def words_of(name: str) -> Words:
        return Words(posts=tmp_path / name, out=tmp_path / "words")

    with pytest.raises(ExperimentError, match="none does not exist"):
        run(words_of("none"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ExperimentError, match="empty holds no Parquet files"):
        run(words_of("empty"))
    run(workload(tmp_path / "fleets"))
    with pytest.raises(ExperimentError, match="fleets has no column text; it has number, time, topic, object"):
        run(words_of("fleets"))
    write_posts(spark, tmp_path / "posts")
    (part,) = (tmp_path / "posts").glob("part-*.parquet")
    damaged = part.read_bytes()
    part.write_bytes(damaged[: len(damaged) // 2])
    (part.parent / f".{part.name}.crc").unlink()
    with pytest.raises(ExperimentError, match=r"a file in .*posts cannot be read, it may be damaged"):
        run(words_of("posts"))
    (tmp_path / "posts" / NOTE).write_text('{"complete": false}')
    with pytest.raises(ExperimentError, match="posts is not complete"):
        run(words_of("posts"))
    assert not (tmp_path / "words").exists()


def test_java_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ExperimentError, match=r"there is no bin/java. Spark needs Java 17 or newer"):
        session.check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExperimentError, match="no Java was found"):
        session.check_java()


def test_progress_counts_tasks(spark: SparkSession) -> None:
    assert tasks_of(spark.sparkContext.statusTracker()) == (0, 0)
