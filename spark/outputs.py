"""Where results go: a directory of Parquet files, with a note of what they are."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame

from spark.errors import ExperimentError

NOTE = "_braid.json"  # Spark takes files that begin so for notes, not for data


def check(out: Path, overwrite: bool) -> None:
    """What is there is not touched, unless it is a result of ours that shall be made anew."""
    if not out.exists():
        return
    if not out.is_dir():
        raise ExperimentError(f"{out} is a file; --out names a directory")
    if not any(out.iterdir()):
        return
    if not overwrite:
        raise ExperimentError(f"{out} is not empty; --overwrite replaces it, or name another directory")
    if not (out / NOTE).is_file():
        raise ExperimentError(f"{out} was not made by this command, so it is not overwritten; name another directory")


def begin(out: Path, note: dict[str, Any]) -> None:
    """Takes the place of what was there. What an interrupted command leaves is told by its note, and overwritten."""
    try:
        if out.exists():
            shutil.rmtree(out)
        out.mkdir(parents=True)
        (out / NOTE).write_bytes(msgspec.json.encode({**note, "complete": False}))
    except OSError as error:
        raise ExperimentError(f"cannot write to {out}: {error.strerror}") from None


def finish(out: Path, note: dict[str, Any]) -> None:
    (out / NOTE).write_bytes(msgspec.json.format(msgspec.json.encode({**note, "complete": True})))


def write(rows: DataFrame, directory: Path) -> None:
    rows.write.mode("append").parquet(str(directory))


def read_note(directory: Path) -> dict[str, Any] | None:
    try:
        note: dict[str, Any] = msgspec.json.decode((directory / NOTE).read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
    return note
