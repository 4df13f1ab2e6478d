"""Workloads as they lie on disk, row by row in the order of their files. Other processes read them so, too."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from spark.errors import ExperimentError

PUBLICATION, SUBSCRIPTION = "publication", "subscription"
_ROWS_AT_ONCE = 10_000


def files_in(directory: Path) -> list[Path]:
    """In the order in which they were numbered."""
    return sorted(path for path in directory.glob("*.parquet") if path.name[0] not in "._")


def columns_of(file: Path) -> tuple[list[str], int]:
    """What they are called, and how many rows there are. Raises `ExperimentError`."""
    try:
        with pq.ParquetFile(file) as opened:
            return opened.schema_arrow.names, opened.metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        raise ExperimentError(f"{file} cannot be read, it may be damaged: {error}") from None


def rows_of(directory: Path, column: str) -> Iterator[str]:
    """One column, a part of it in memory at a time. Raises `ExperimentError`."""
    for file in files_in(directory):
        try:
            with pq.ParquetFile(file) as opened:
                for batch in opened.iter_batches(_ROWS_AT_ONCE, columns=[column]):
                    yield from batch.column(0).to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise ExperimentError(f"{file} cannot be read, it may be damaged: {error}") from None


@dataclass(frozen=True)
class StoredSubscriptions:
    """The first ones of a workload, as JSON. Whose they are is left out: in an experiment one subscriber has all."""

    directory: Path
    count: int

    def __iter__(self) -> Iterator[str]:
        for text in islice(rows_of(self.directory, SUBSCRIPTION), self.count):
            given = msgspec.json.decode(text)
            given.pop("subscriber", None)
            yield msgspec.json.encode(given).decode()
