"""`braid experiment`: workloads and statistics, made by Spark."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from braid.cli.running import examples

EXAMPLES = examples(
    "braid experiment run quick",
    "braid experiment report experiments/quick",
    "braid experiment workload readings --rows 1000000 --seed 7 --out readings",
    "braid experiment workload subscriptions --on readings --rows 100000 --matches 10 --out alarms",
    "braid experiment words --posts posts --out words",
    "braid experiment map --words words --parts 3 --out map.json",
    "braid experiment follow --checkpoint follow/checkpoint --out follow/windows",
)
WORKLOAD_EXAMPLES = examples(
    "braid experiment workload posts --rows 1000000 --seed 7 --out posts",
    "braid experiment workload subscriptions --on posts --rows 100000 --matches 10 --out words-wanted",
    "braid experiment workload fleets --rows 900000 --data recordings --source taxis --out taxis",
    "braid experiment workload readings --rows 200000000 --master spark://host:7077 --out /srv/readings",
)
WORDS_EXAMPLES = examples(
    "braid experiment words --posts posts --out words",
    "braid experiment words --posts posts --out words --vocabulary 20000 --overwrite --json",
)
MAP_EXAMPLES = examples(
    "braid experiment map --words words --parts 3 --out map.json",
    "braid experiment map --words words --subscriptions words-wanted --parts 8 --out map.json --json",
    "braid scale --map map.json",
)

RUN_EXAMPLES = examples(
    "braid experiment run quick",
    "braid experiment run quick --again",
    "braid experiment run my-plan.toml --out /srv/experiments --json",
)
REPORT_EXAMPLES = examples(
    "braid experiment report experiments/quick",
    "braid experiment report experiments/quick --against 1f0c6a --out difference.html",
)

FOLLOW_EXAMPLES = examples(
    "braid up --telemetry",
    "braid experiment follow --checkpoint follow/checkpoint --out follow/windows",
    "braid experiment follow --from /var/lib/braid/telemetry --window 1m --checkpoint c --out w",
    "braid experiment follow --once --json --checkpoint c --out w",
    "braid experiment follow --source kafka --bootstrap 127.0.0.1:9092 --checkpoint c --out w",
)

Out = Annotated[Path, typer.Option(help="Directory for the Parquet files.")]
Master = Annotated[str, typer.Option(help="Where Spark runs: local[N] or the address of a cluster.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run left there.")]
Json = Annotated[bool, typer.Option("--json", help="Say what was made as one JSON document.")]

experiment = typer.Typer(
    no_args_is_help=True, help="Measure clusters by a plan, report it, and make workloads for it.", epilog=EXAMPLES
)


@experiment.command("run", epilog=RUN_EXAMPLES)
def run(
    plan: Annotated[str, typer.Argument(help="quick, paper, or the path of a plan.")],
    *,
    out: Annotated[Path, typer.Option(help="Directory for what is measured.")] = Path("experiments"),
    again: Annotated[bool, typer.Option("--again", help="Measure all of it once more, beside what there is.")] = False,
    json: Json = False,
) -> None:
    """Measure what a plan says, in clusters of its own on this machine; goes on where it was interrupted."""
    _hand_over(type="run", plan=plan, out=out, again=again, json=json)


@experiment.command("report", epilog=REPORT_EXAMPLES)
def report(
    results: Annotated[Path, typer.Argument(help="Directory of one plan, e.g. experiments/quick.")],
    *,
    out: Annotated[Path | None, typer.Option(help="The page; by default report.html beside what was measured.")] = None,
    against: Annotated[str, typer.Option(help="The run to compare with; without it, the one before.")] = "",
    master: Master = "local[*]",
    json: Json = False,
) -> None:
    """Write one HTML page with pictures, tables and words about the newest measurements of a plan."""
    _hand_over(type="report", results=results, out=out, against=against, master=master, json=json)


@experiment.command("workload", epilog=WORKLOAD_EXAMPLES)
def workload(
    kind: Annotated[str, typer.Argument(help="readings, posts, fleets or subscriptions.")],
    *,
    rows: Annotated[int, typer.Option(help="How many; of recorded data, at most so many.")],
    out: Out,
    seed: Annotated[int, typer.Option(help="The same seed makes the same rows.")] = 1,
    on: Annotated[
        str | None, typer.Option(help="What subscriptions are about: readings, posts, fleets or topics (of posts).")
    ] = None,
    matches: Annotated[float, typer.Option(help="How many of the subscriptions match a publication, on average.")] = 10,
    data: Annotated[Path | None, typer.Option(help="Directory with recorded data, which is then taken.")] = None,
    source: Annotated[str | None, typer.Option(help="Of recorded fleets: taxis or flights.")] = None,
    master: Master = "local[*]",
    partitions: Annotated[int | None, typer.Option(min=1, help="Files to write; changes no row.")] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Write publications or subscriptions as Parquet, generated from a seed or read from recorded data."""
    _hand_over(
        type="workload",
        kind=kind,
        rows=rows,
        seed=seed,
        on=on,
        matches=matches,
        data=data,
        source=source,
        partitions=partitions,
        out=out,
        master=master,
        overwrite=overwrite,
        json=json,
    )


@experiment.command("words", epilog=WORDS_EXAMPLES)
def words(
    *,
    posts: Annotated[Path, typer.Option(help="Directory with posts as Parquet: a column 'text'.")],
    out: Out,
    vocabulary: Annotated[
        int, typer.Option(help="How many of the most frequent words are counted in pairs, too.")
    ] = 10_000,
    master: Master = "local[*]",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Count in how many posts each word occurs, and each two of the most frequent words together."""
    _hand_over(type="words", posts=posts, vocabulary=vocabulary, out=out, master=master, overwrite=overwrite, json=json)


@experiment.command("map", epilog=MAP_EXAMPLES)
def map(
    *,
    words: Annotated[Path, typer.Option(help="Directory that 'braid experiment words' has made.")],
    parts: Annotated[int, typer.Option(help="How many parts; mostly as many as there are matchers.")],
    out: Annotated[Path, typer.Option(help="The JSON file for 'braid scale --map'.")],
    subscriptions: Annotated[
        Path | None,
        typer.Option(help="Directory with subscriptions as Parquet: only words that some of them are placed by count."),
    ] = None,
    limit: Annotated[int, typer.Option(help="How many words the map names at most, the most frequent ones.")] = 50_000,
    master: Master = "local[*]",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Learn which words should lie together, so that a post visits few matchers and all are visited alike."""
    _hand_over(
        type="map",
        words=words,
        parts=parts,
        out=out,
        subscriptions=subscriptions,
        limit=limit,
        master=master,
        overwrite=overwrite,
        json=json,
    )


@experiment.command("follow", epilog=FOLLOW_EXAMPLES)
def follow(
    *,
    checkpoint: Annotated[Path, typer.Option(help="Directory in which Spark notes how far it is.")],
    out: Annotated[Path, typer.Option(help="Directory for the windows, as Parquet.")],
    source: Annotated[str, typer.Option(help="files or kafka.")] = "files",
    directory: Annotated[
        Path, typer.Option("--from", help="Of files: the directory in which slices write them.")
    ] = Path("data/telemetry"),
    bootstrap: Annotated[str, typer.Option(help="Of Kafka: host:port,… of its brokers.")] = "",
    topic: Annotated[str, typer.Option(help="Of Kafka.")] = "braid-telemetry",
    window: Annotated[str, typer.Option(help="How long a window is: 10s, 2m, 1h.")] = "10s",
    late: Annotated[str, typer.Option(help="How far a sample may be behind the newest one.")] = "15s",
    once: Annotated[bool, typer.Option("--once", help="End when all that is there has been read.")] = False,
    master: Master = "local[*]",
    json: Json = False,
) -> None:
    """Follow a live cluster: throughput, latency, imbalance and the hottest anchors of each window of time.

    Slices take samples of themselves with 'braid up --telemetry' (or the setting telemetry.sink). Ctrl-C ends it;
    the same command goes on where it was, and counts nothing twice.
    """
    _hand_over(
        type="follow",
        checkpoint=checkpoint,
        out=out,
        source=source,
        directory=directory,
        bootstrap=bootstrap,
        topic=topic,
        window=window,
        late=late,
        once=once,
        master=master,
        json=json,
    )


def _hand_over(**given: Any) -> None:
    """Spark's part takes the place of this process, so that signals from the terminal reach it directly."""
    import msgspec

    request = msgspec.json.encode(given, enc_hook=str).decode()
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "spark.running", request])
