"""Workloads that a plan names: whether they can be used, and which of their publications must arrive.

A publication arrives once, however many subscriptions of the one subscriber it matches, and not at all if it matches
none. Which it is, the index of the broker says beforehand, of the very subscriptions that the cell loads.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from benchmarks.frames import Prepared, prepared
from braid.config import Limits
from braid.content import DECODE_ERRORS, ContentWriter, decode_content, explain_decode_error
from braid.matching.index import MatchIndex
from braid.problems import Problem
from braid.subscription import SubscriptionRecord, check_subscription, decode_subscription
from spark.errors import ExperimentError
from spark.experiments.plan import Plan, Workload
from spark.experiments.stored import PUBLICATION, SUBSCRIPTION, columns_of, files_in, rows_of

PUBLICATIONS_MAX = 100_000  # held ready; behind the last of them comes the first again
_BYTES_MAX = 64 * 2**20  # of these
_AT_ONCE = 1_000  # rows
_ABOUT = {"topics": "posts"}  # what subscriptions are made for, where it is called otherwise
_ALONE = "what arrives must follow from the publication alone"

Row = TypeVar("Row")


class Ready(NamedTuple):
    publications: list[Prepared]
    matches: float  # subscriptions that one of them matches, on average


def check_workload(plan: Plan) -> None:
    """Everything that can be seen without reading it. Raises `ExperimentError`."""
    if plan.workload is None:
        return
    publications, subscriptions = Path(plan.workload.publications), Path(plan.workload.subscriptions)
    _check_kind(publications, PUBLICATION)
    rows = _check_kind(subscriptions, SUBSCRIPTION)
    if rows < max(plan.subscriptions):
        raise ExperimentError(
            f"{subscriptions} has {rows:,} subscriptions, but the plan wants {max(plan.subscriptions):,}; "
            "make more of them, or ask for fewer"
        )
    _check_same(publications, subscriptions)


def _check_kind(directory: Path, column: str) -> int:
    """How many rows it has."""
    from spark.outputs import read_note  # imports Spark

    how = "'braid experiment workload' makes some"
    if not directory.is_dir():
        raise ExperimentError(f"there is no directory {directory} with {column}s; {how}")
    note = read_note(directory)
    if note is not None and not note.get("complete"):
        raise ExperimentError(f"{directory} is not complete: whoever made it was interrupted; make it anew")
    files = files_in(directory)
    if not files:
        raise ExperimentError(f"{directory} holds no Parquet files; {how}")
    rows = 0
    for file in files:
        columns, more = columns_of(file)
        if column not in columns:
            raise ExperimentError(f"{directory} holds no {column}s: {file.name} has {', '.join(columns) or 'nothing'}")
        rows += more
    if not rows:
        raise ExperimentError(f"{directory} has no rows")
    return rows


def _check_same(publications: Path, subscriptions: Path) -> None:
    """That the notes, where there are some, do not speak of different things."""
    from spark.outputs import read_note

    made = (read_note(publications) or {}).get("made")
    on = (read_note(subscriptions) or {}).get("on")
    if made and on and made != _ABOUT.get(on, on):
        raise ExperimentError(f"{subscriptions} are subscriptions on {on}, but {publications} holds {made}")


_last: dict[tuple[Workload, int], Ready] = {}  # cells of a plan that load as many follow one another


async def ready_of(workload: Workload, subscriptions: int) -> Ready:
    """For so many of its subscriptions. Raises `ExperimentError`.

    It may take a minute, in small steps, so that whoever is interrupted meanwhile ends at once.
    """
    wanted = (workload, subscriptions)
    if wanted not in _last:
        _last.clear()
        _last[wanted] = await _counted(workload, subscriptions)
    return _last[wanted]


async def _counted(workload: Workload, subscriptions: int) -> Ready:
    index = MatchIndex()
    directory = Path(workload.subscriptions)
    async for records in _by_and_by(_records(directory, islice(rows_of(directory, SUBSCRIPTION), subscriptions))):
        index.add_many(records)
    if index.looks_back:
        raise ExperimentError(f"{directory}: {_ALONE}; leave out filters that say 'prev'")
    publications: list[Prepared] = []
    matches = 0
    async for contents in _by_and_by(_contents(Path(workload.publications))):
        found = index.match(contents, time.time(), remember=False)
        matches += len(found)
        publications += [prepared(text, is_wanted=bool(ids)) for text, ids in zip(contents, found.ids(), strict=True)]
    if not matches:
        raise ExperimentError(
            f"none of the {len(publications):,} publications of {workload.publications} matches one of the first "
            f"{subscriptions:,} subscriptions of {workload.subscriptions}: nothing would arrive"
        )
    return Ready(publications, matches / len(publications))


async def _by_and_by(rows: Iterator[Row]) -> AsyncIterator[list[Row]]:
    while some := list(islice(rows, _AT_ONCE)):
        yield some
        await asyncio.sleep(0)


def _records(directory: Path, texts: Iterable[str]) -> Iterator[SubscriptionRecord]:
    limits = Limits()
    for number, text in enumerate(texts):
        try:
            given = decode_subscription(text)
            record = check_subscription(given, limits, 0.0, id=f"{number}", subscriber="", home="", temporary=False)
        except Problem as problem:
            raise _unusable(directory, SUBSCRIPTION, number, problem.detail) from None
        except (*DECODE_ERRORS, TypeError) as error:
            raise _unusable(directory, SUBSCRIPTION, number, _why(error, SUBSCRIPTION)) from None
        if given.from_ is not None or given.until is not None or given.distinct or given.deliver is not None:
            why = f"{_ALONE}; leave out 'from', 'until', 'distinct' and 'deliver'"
            raise _unusable(directory, SUBSCRIPTION, number, why)
        yield record


def _contents(directory: Path) -> Iterator[bytes]:
    """As a connection point writes them, as many as are held."""
    writer, size = ContentWriter(Limits()), 0
    for number, text in enumerate(islice(rows_of(directory, PUBLICATION), PUBLICATIONS_MAX)):
        try:
            content = decode_content(text)
            written = writer.write(content, 0.0)
        except Problem as problem:
            raise _unusable(directory, PUBLICATION, number, problem.detail) from None
        except (*DECODE_ERRORS, TypeError) as error:
            raise _unusable(directory, PUBLICATION, number, _why(error, PUBLICATION)) from None
        if content.id or content.expires is not None or content.data:
            why = "leave out 'id', 'expires' and 'data': it is published many times, and has its mark in 'data'"
            raise _unusable(directory, PUBLICATION, number, why)
        size += len(written)
        if size > _BYTES_MAX:
            return
        yield written


def _why(error: Exception, what: str) -> str:
    return "it is null" if isinstance(error, TypeError) else explain_decode_error(error, f"the {what}").detail


def _unusable(directory: Path, what: str, number: int, why: str) -> ExperimentError:
    return ExperimentError(f"{directory}: {what} {number:,} cannot be used: {why}")
