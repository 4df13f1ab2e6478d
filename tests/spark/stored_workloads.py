"""Small workloads as Parquet in the format of the generators, made without Spark."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark.experiments.plan import Workload

PUBLICATIONS: list[dict[str, Any]] = [
    {"topic": "air/1/NO2", "attributes": {"station": "1", "value": 10.5}},
    {"topic": "air/2/NO2", "attributes": {"station": "2", "value": 30.0}},
    {"topic": "air/1/NO2", "attributes": {"station": "1", "value": 50}},
    {"topic": "air/3/NO2", "attributes": {"station": "3", "value": 5.0}, "text": "niño — «calm»"},
    {"topic": "air/3/NO2", "attributes": {"station": "3", "value": 6.0}},
]
SUBSCRIPTIONS: list[dict[str, Any]] = [
    {"filter": "value > 20", "subscriber": "subscriber-0"},
    {"filter": "station = '1' and value > 40", "subscriber": "subscriber-1"},
    {"words": ["calm"], "subscriber": "subscriber-2"},
    {"filter": "value < 0", "subscriber": "subscriber-3"},
    {"topic": "air/1/#", "subscriber": "subscriber-4"},
]
# How many of the first four subscriptions each publication matches, and of all five.
OF_FOUR = [0, 1, 2, 1, 0]
OF_FIVE = [1, 1, 3, 1, 0]


def stored(directory: Path, *, cut: int = 2) -> Workload:
    """The two of above. Rows from `cut` on lie in a second file."""
    write(directory / "readings", "publication", PUBLICATIONS, cut=cut)
    write(directory / "alarms", "subscription", SUBSCRIPTIONS, cut=cut)
    return Workload(publications=str(directory / "readings"), subscriptions=str(directory / "alarms"))


def write(
    directory: Path,
    column: str,
    rows: Sequence[Mapping[str, Any] | str | None],
    note: Mapping[str, Any] | None = None,
    *,
    cut: int | None = None,
) -> Path:
    directory.mkdir(parents=True)
    texts = [row if isinstance(row, str) or row is None else json.dumps(row, ensure_ascii=False) for row in rows]
    cut = len(texts) if cut is None else cut
    for part, (first, end) in enumerate(((0, cut), (cut, len(texts)))):
        table = pa.table(
            {"number": pa.array(range(first, end), pa.int64()), column: pa.array(texts[first:end], pa.string())}
        )
        pq.write_table(table, directory / f"part-0000{part}-c000.zstd.parquet", compression="zstd")
    (directory / ".part-00000-c000.zstd.parquet.crc").write_bytes(b"crc")
    (directory / "_SUCCESS").touch()
    if note is not None:
        (directory / "_braid.json").write_text(json.dumps(note))
    return directory
