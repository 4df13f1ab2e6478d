"""A follower that is stopped, killed and started again counts every sample once."""

import logging
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from braid.telemetry.sample import Sample
from spark.errors import ExperimentError
from spark.outputs import NOTE
from spark.requests import Follow
from spark.streaming import following
from spark.streaming.following import Writing, follow, start
from spark.streaming.places import Places
from tests.spark.telemetry_cases import sample, write

__all__ = [
    "test_a_checkpoint_and_its_windows_belong_together",
    "test_a_request_to_follow_that_makes_no_sense",
    "test_nothing_is_counted_twice_or_lost_by_restarts_and_repetitions",
    "test_whoever_is_stopped_has_counted_what_he_read",
]

SLICES = ("connpoint-1", "matcher-1", "matcher-2")


def request(tmp_path: Path, **changes: Any) -> Follow:
    given = Follow(
        checkpoint=tmp_path / "checkpoint", out=tmp_path / "windows", directory=tmp_path / "telemetry", once=True
    )
    return msgspec.structs.replace(given, **changes)


def seconds(begin: int, end: int) -> list[list[Sample]]:
    """Of each slice; what is counted differs from second to second, so that no two can stand for one another."""
    return [
        [sample(name, number, counts={"messages": 1, "publications": 2**number % 1009}) for number in range(begin, end)]
        for name in SLICES
    ]


def publications(files: list[list[Sample]]) -> int:
    return sum(one.counts["publications"] for samples in files for one in samples)


def test_nothing_is_counted_twice_or_lost_by_restarts_and_repetitions(spark: SparkSession, tmp_path: Path) -> None:
    asked = request(tmp_path)
    telemetry = tmp_path / "telemetry"
    telemetry.mkdir()
    for samples in seconds(1, 27):
        write(telemetry, samples)
    write(telemetry, seconds(1, 27)[1], incarnation=1)  # a file of the same samples again
    (telemetry / "connpoint-1" / "broken.ndjson").write_text('{"v":1,"slice":"conn')
    first = follow(asked)
    assert (first["lines"], first["unreadable"], first["repeated"]) == (105, 1, 26)
    assert first["windows"] == 1  # the second window may still get samples: the newest one is 26 s behind the beginning

    # More comes, and some of what was there again; the process dies when the windows are written and not yet noted.
    for samples in seconds(20, 61):
        write(telemetry, samples)
    writing = Writing(Places(asked), lambda _finished: None)

    def write_and_die(windows: DataFrame, batch: int) -> None:
        writing(windows, batch)
        if writing.windows:
            raise RuntimeError("killed")

    with pytest.raises(StreamingQueryException, match="killed"):
        start(spark, asked, write_and_die).awaitTermination()
    assert writing.windows > 0

    for samples in seconds(61, 90):  # closes all windows up to the 70th second
        write(telemetry, samples)
    last = follow(asked)
    assert last["late"] == 0
    layers = spark.read.parquet(str(tmp_path / "windows" / "layers"))
    finished = layers.groupBy("layer", "window_begin").count().collect()
    assert len(finished) == 14  # seven windows of two layers
    assert {row["count"] for row in finished} == {1}
    found = layers.groupBy().sum("publications", "samples", "missing").first()
    assert found is not None
    assert tuple(found) == (publications(seconds(1, 71)), 3 * 70, 0)


def test_whoever_is_stopped_has_counted_what_he_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He looks at the counts from time to time, and the last batch may have come since."""
    monkeypatch.setattr(following, "_LOOK_EVERY_S", 120.0)
    telemetry = tmp_path / "telemetry"
    telemetry.mkdir()
    for samples in seconds(1, 31):
        write(telemetry, samples)

    def stop_when_read() -> None:
        next_batch = tmp_path / "checkpoint" / "offsets" / "1"  # begins when Spark has reported the one before
        for _ in range(600):
            if next_batch.exists():
                break
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    stopping = threading.Thread(target=stop_when_read)
    stopping.start()
    try:
        found = follow(request(tmp_path, once=False))
    finally:
        stopping.join()
        logging.disable(logging.NOTSET)  # for the tests behind this one
    assert (found["lines"], found["unreadable"]) == (90, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": "10"}, "--window is '10'; give whole seconds, minutes or hours, such as 10s, 2m or 1h"),
        ({"late": "0s"}, "--late is '0s'"),
        ({"source": "flume"}, "there is no source 'flume'; one of: files, kafka"),
        ({"source": "kafka"}, "where is Kafka"),
        ({}, "telemetry is no directory; --from names the one in which slices write telemetry"),
    ],
)
def test_a_request_to_follow_that_makes_no_sense(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ExperimentError, match=message):
        follow(request(tmp_path, **changes))
    assert not (tmp_path / "checkpoint").exists()


def test_a_checkpoint_and_its_windows_belong_together(tmp_path: Path) -> None:
    asked = request(tmp_path)
    Places(asked).prepare()
    Places(asked).prepare()  # goes on
    with pytest.raises(ExperimentError, match=r"was begun with window 10s, not 1m. To begin anew"):
        Places(request(tmp_path, window="1m")).prepare()
    with pytest.raises(ExperimentError, match=r"are in .*windows; go on with that --out"):
        Places(request(tmp_path, out=tmp_path / "others")).prepare()
    with pytest.raises(ExperimentError, match=r"holds windows that were followed with --checkpoint .*checkpoint"):
        Places(request(tmp_path, checkpoint=tmp_path / "others")).prepare()
    (asked.out / NOTE).unlink()  # removed, or never noted: whoever made both may have been killed in between
    with pytest.raises(ExperimentError, match=r"windows of --checkpoint .* are gone: .* Remove .*checkpoint or name"):
        Places(asked).prepare()
    Places(request(tmp_path, checkpoint=tmp_path / "others")).prepare()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("three years of work")
    with pytest.raises(ExperimentError, match=r"--out .*mine was not made by this command"):
        Places(request(tmp_path, out=tmp_path / "mine")).prepare()
