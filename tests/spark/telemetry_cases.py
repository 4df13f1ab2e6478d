"""Samples as slices write them, and files of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from braid.telemetry.backlog import Line
from braid.telemetry.sample import Bucket, Hit, Latency, Sample, encode_sample
from braid.telemetry.sample_files import SampleFiles

BEGIN_MS = 1_800_000_000_000  # the beginning of a window of any length up to a day, but for those that divide no day


def sample(slice: str, number: int, **changes: Any) -> Sample:
    """Of the second that ends `number` seconds after the beginning."""
    given: dict[str, Any] = {
        "cluster": "braid",
        "layer": slice.rpartition("-")[0],
        "incarnation": 7,
        "epoch": 1,
        "takes_part": True,
        "time_ms": BEGIN_MS + 1000 * number,
        "seconds": 1.0,
        "counts": {"messages": 10, "publications": 100},
        "latencies": [],
        "queues": {},
        "anchors": [],
        "anchors_missed": 0,
        "cpu_s": 0.25,
        "rss_bytes": 1000,
    }
    return Sample(slice=slice, number=number, **(given | changes))


def latency(part: str, **counts: int) -> Latency:
    """`_1000=3`: three that took at most a millisecond."""
    return Latency(part, [Bucket(int(upper[1:]), count) for upper, count in counts.items()])


def hits(**counts: int) -> list[Hit]:
    return [Hit(anchor, count) for anchor, count in counts.items()]


def write(root: Path, samples: Sequence[Sample], incarnation: int | None = None) -> None:
    """One file, as the slice of these samples writes it."""
    first = samples[0]
    incarnation = first.incarnation if incarnation is None else incarnation
    files = SampleFiles(root, first.slice, incarnation, bytes_max=2**30, s_max=1e9)
    files.write([Line(one.number, encode_sample(one)) for one in samples])
