"""Runs what the command line asks for: python -m spark.running '{"type": "workload", …}'."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from spark.errors import ExperimentError, shown_errors
from spark.requests import Follow, Map, Report, Request, Run, Words, Workload, decode_request


def main() -> None:
    with shown_errors():
        run(decode_request(sys.argv[1]))


def run(request: Request) -> None:
    """Shows what was made; a request that cannot be fulfilled is an `ExperimentError`."""
    began = time.monotonic()
    made = _made(request)
    made["seconds"] = round(time.monotonic() - began, 1)
    if request.json:
        sys.stdout.write(msgspec.json.encode(made).decode() + "\n")
    else:
        width = max(14, *map(len, made))
        sys.stdout.write("".join(f"{name:<{width}} {value}\n" for name, value in made.items() if value is not None))


def _made(request: Request) -> dict[str, Any]:
    match request:
        case Workload():
            return make_workload(request)
        case Words():
            return count_words(request)
        case Map():
            return learn_map(request)
        case Run():
            from spark.experiments.running import run_experiment

            return run_experiment(request)
        case Report():
            from spark.report.making import make_report

            return make_report(request)
        case Follow():
            from spark.streaming.following import follow

            return follow(request)


def make_workload(request: Workload) -> dict[str, Any]:
    from spark import outputs
    from spark.progress import shown_progress
    from spark.session import spark_session
    from spark.workloads.making import check, made

    check(request)
    outputs.check(request.out, request.overwrite)
    with spark_session(request.master) as spark, read_errors_explained(request.data):
        with shown_progress(spark, request.kind), made(spark, request) as rows:
            note = _note_of(request)
            outputs.begin(request.out, note)
            outputs.write(rows, request.out)
        note["rows"] = spark.read.parquet(str(request.out)).count()
    outputs.finish(request.out, note)
    return note


def count_words(request: Words) -> dict[str, Any]:
    from spark import outputs
    from spark.inputs import read_parquet
    from spark.progress import shown_progress
    from spark.session import spark_session
    from spark.words import statistics

    if request.vocabulary < 1:
        raise ExperimentError("--vocabulary must be at least 1")
    outputs.check(request.out, request.overwrite)
    if request.posts.resolve().is_relative_to(request.out.resolve()):
        raise ExperimentError("--out would replace the posts that are read; name another directory")
    with spark_session(request.master) as spark, read_errors_explained(request.posts):
        posts = read_parquet(spark, request.posts, "text")
        with shown_progress(spark, "words"), statistics(posts, request.vocabulary) as found:
            note = {"made": "words", "posts": found.posts, "vocabulary": request.vocabulary, "out": str(request.out)}
            if not found.posts:
                raise ExperimentError(f"{request.posts} has no posts")
            outputs.begin(request.out, note)
            outputs.write(found.frequencies, request.out / "frequencies")
            outputs.write(found.cooccurrences, request.out / "cooccurrences")
            outputs.write(found.sample, request.out / "sample")
            note["words"] = spark.read.parquet(str(request.out / "frequencies")).count()
            note["pairs"] = spark.read.parquet(str(request.out / "cooccurrences")).count()
    outputs.finish(request.out, note)
    return note


def learn_map(request: Map) -> dict[str, Any]:
    from spark.inputs import check_words, read_parquet
    from spark.progress import shown_progress
    from spark.session import spark_session
    from spark.words.learning import check, learn
    from spark.words.wanting import wanted_words

    check(request)
    check_words(request.words)
    with spark_session(request.master) as spark, read_errors_explained(request.words), shown_progress(spark, "map"):
        frequencies = read_parquet(spark, request.words / "frequencies", "word", "posts", "rank")
        sample = read_parquet(spark, request.words / "sample", "words")
        wanted = None
        if request.subscriptions is not None:
            wanted = wanted_words(read_parquet(spark, request.subscriptions, "subscription"))
        learned = learn(frequencies, sample, wanted, parts=request.parts, limit=request.limit)
    try:
        request.out.write_bytes(msgspec.json.encode({"parts": request.parts, "words": learned.part_of}))
    except OSError as error:
        raise ExperimentError(f"cannot write to {request.out}: {error.strerror}") from None
    return {
        "made": "map",
        "parts": request.parts,
        "words": len(learned.part_of),
        "posts_learned": learned.posts_learned,
        "posts_judged": learned.posts_judged,
        "visits_hashed": round(learned.hashed.visits, 3),
        "visits_mapped": round(learned.mapped.visits, 3),
        "largest_share_hashed": round(learned.hashed.largest_share, 3),
        "largest_share_mapped": round(learned.mapped.largest_share, 3),
        "out": str(request.out),
    }


@contextmanager
def read_errors_explained(source: Path | None) -> Iterator[None]:
    """Damage of a file shows when its rows are read, deep inside of Spark."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if source is None:
            raise
        why = _root_cause(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
        first = why.strip().splitlines()[0]
        raise ExperimentError(f"a file in {source} cannot be read, it may be damaged: {first}") from None


def _root_cause(exception: Any) -> str:
    while exception.getCause() is not None:
        exception = exception.getCause()
    return str(exception.getMessage() or exception)


def _note_of(request: Workload) -> dict[str, Any]:
    source = "generated" if request.data is None else "recorded"
    note = {"made": request.kind, "source": source, "seed": request.seed, "out": str(request.out)}
    if request.on is not None:
        note |= {"on": request.on, "matches": request.matches}
    return note


if __name__ == "__main__":
    main()
