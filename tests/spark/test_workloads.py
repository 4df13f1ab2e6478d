"""Workloads that a plan names: what is wrong with them is said first, and what must arrive is known beforehand."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from spark.errors import ExperimentError
from spark.experiments import stored as storage
from spark.experiments import workloads
from spark.experiments.plan import Plan, Workload
from spark.experiments.stored import StoredSubscriptions, rows_of
from spark.experiments.workloads import check_workload, ready_of
from tests.spark.stored_workloads import OF_FIVE, OF_FOUR, PUBLICATIONS, SUBSCRIPTIONS, stored, write


def plan_of(workload: Workload, *subscriptions: int) -> Plan:
    return Plan(name="p", configurations=["1-1-1"], subscriptions=list(subscriptions), workload=workload)


def of(publications: Path, subscriptions: Path) -> Workload:
    return Workload(publications=str(publications), subscriptions=str(subscriptions))


@pytest.mark.parametrize(("subscriptions", "matches"), [(4, OF_FOUR), (5, OF_FIVE)])
async def test_what_must_arrive_is_what_one_of_the_loaded_subscriptions_matches(
    tmp_path: Path, subscriptions: int, matches: list[int]
) -> None:
    workload = stored(tmp_path)
    check_workload(plan_of(workload, subscriptions))
    ready = await ready_of(workload, subscriptions)
    assert [each.is_wanted for each in ready.publications] == [count > 0 for count in matches]
    assert ready.matches == sum(matches) / len(matches)
    written = [json.loads(f"{each.text}0}}}}") for each in ready.publications]
    assert written == [{**publication, "data": {"value": 0}} for publication in PUBLICATIONS]


def test_rows_come_in_the_order_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_ROWS_AT_ONCE", 1)
    stored(tmp_path, cut=3)
    assert [json.loads(text) for text in rows_of(tmp_path / "readings", "publication")] == PUBLICATIONS


def test_as_many_subscriptions_as_the_cell_wants_belong_to_nobody_else(tmp_path: Path) -> None:
    stored(tmp_path)
    loaded = [json.loads(text) for text in StoredSubscriptions(tmp_path / "alarms", 3)]
    assert loaded == [{name: each[name] for name in each if name != "subscriber"} for each in SUBSCRIPTIONS[:3]]


async def test_as_much_is_held_as_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "PUBLICATIONS_MAX", 3)
    assert len((await ready_of(stored(tmp_path / "few"), 5)).publications) == 3
    one = len(json.dumps(PUBLICATIONS[0], separators=(",", ":")))
    monkeypatch.setattr(workloads, "_BYTES_MAX", one)
    assert len((await ready_of(stored(tmp_path / "small"), 5)).publications) == 1


def test_a_plan_without_a_workload_needs_none() -> None:
    check_workload(Plan(name="p", configurations=["1-1-1"], subscriptions=[10]))


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    workload = of(tmp_path / "readings", tmp_path / "alarms")
    with pytest.raises(ExperimentError, match=r"there is no directory .*readings with publications; 'braid experiment"):
        check_workload(plan_of(workload, 1))
    write(tmp_path / "readings", "publication", PUBLICATIONS)
    with pytest.raises(ExperimentError, match=r"there is no directory .*alarms with subscriptions"):
        check_workload(plan_of(workload, 1))


def test_a_directory_without_parquet(tmp_path: Path) -> None:
    workload = stored(tmp_path)
    for path in (tmp_path / "readings").glob("*.parquet"):
        path.unlink()
    with pytest.raises(ExperimentError, match="readings holds no Parquet files"):
        check_workload(plan_of(workload, 1))


def test_a_file_that_is_damaged(tmp_path: Path) -> None:
    workload = stored(tmp_path)
    (tmp_path / "alarms" / "part-00001-c000.zstd.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ExperimentError, match=r"part-00001\S+ cannot be read, it may be damaged"):
        check_workload(plan_of(workload, 1))


def test_the_two_in_each_others_place(tmp_path: Path) -> None:
    workload = stored(tmp_path)
    with pytest.raises(ExperimentError, match=r"alarms holds no publications: part-0\S+ has number, subscription"):
        check_workload(plan_of(of(tmp_path / "alarms", tmp_path / "readings"), 1))
    with pytest.raises(ExperimentError, match="readings holds no subscriptions"):
        check_workload(plan_of(of(tmp_path / "readings", tmp_path / "readings"), 1))
    check_workload(plan_of(workload, 1))


def test_fewer_subscriptions_than_a_cell_wants(tmp_path: Path) -> None:
    workload = stored(tmp_path)
    check_workload(plan_of(workload, 1, 5))
    with pytest.raises(ExperimentError, match="alarms has 5 subscriptions, but the plan wants 6; make more of them"):
        check_workload(plan_of(workload, 1, 6))


def test_no_rows(tmp_path: Path) -> None:
    stored(tmp_path)
    empty = write(tmp_path / "empty", "publication", [])
    with pytest.raises(ExperimentError, match="empty has no rows"):
        check_workload(plan_of(of(empty, tmp_path / "alarms"), 1))


@pytest.mark.parametrize(
    ("made", "on", "says"),
    [
        ({"made": "posts", "complete": False}, {"on": "posts", "complete": True}, "said is not complete"),
        ({"made": "posts", "complete": True}, {"on": "posts", "complete": False}, "wanted is not complete"),
        (
            {"made": "posts", "complete": True},
            {"on": "fleets", "complete": True},
            r"wanted are subscriptions on fleets, but \S+ holds posts",
        ),
    ],
)
def test_notes_that_say_that_it_will_not_do(tmp_path: Path, made: Any, on: Any, says: str) -> None:
    publications = write(tmp_path / "said", "publication", PUBLICATIONS, made)
    subscriptions = write(tmp_path / "wanted", "subscription", SUBSCRIPTIONS, on)
    with pytest.raises(ExperimentError, match=says):
        check_workload(plan_of(of(publications, subscriptions), 1))


@pytest.mark.parametrize("on", ["posts", "topics"])
def test_notes_that_belong_together(tmp_path: Path, on: str) -> None:
    publications = write(tmp_path / "said", "publication", PUBLICATIONS, {"made": "posts", "complete": True})
    subscriptions = write(tmp_path / "wanted", "subscription", SUBSCRIPTIONS, {"on": on, "complete": True})
    check_workload(plan_of(of(publications, subscriptions), 1))


@pytest.mark.parametrize(
    ("column", "row", "says"),
    [
        ("subscription", {"filter": "value >"}, "subscription 1 cannot be used: "),
        ("subscription", {"colour": "red"}, "subscription 1 cannot be used: .*colour"),
        ("subscription", "{", "subscription 1 cannot be used: the subscription is not valid JSON"),
        ("subscription", None, "subscription 1 cannot be used: it is null"),
        ("subscription", {"distinct": True}, "leave out 'from', 'until', 'distinct' and 'deliver'"),
        ("subscription", {"until": "+1h"}, "leave out 'from', 'until', 'distinct' and 'deliver'"),
        ("subscription", {"filter": "value > prev(value)"}, "leave out filters that say 'prev'"),
        ("publication", {"topic": "a//b"}, "publication 1 cannot be used: "),
        ("publication", {"attributes": {"value": [1]}}, "publication 1 cannot be used: "),
        ("publication", None, "publication 1 cannot be used: it is null"),
        ("publication", {"data": 5}, "leave out 'id', 'expires' and 'data'"),
        ("publication", {"id": "a"}, "leave out 'id', 'expires' and 'data'"),
        ("publication", {"expires": "+1h"}, "leave out 'id', 'expires' and 'data'"),
    ],
)
async def test_a_row_that_cannot_be_used(tmp_path: Path, column: str, row: Any, says: str) -> None:
    publications = [PUBLICATIONS[0], row] if column == "publication" else PUBLICATIONS
    subscriptions = [SUBSCRIPTIONS[0], row] if column == "subscription" else SUBSCRIPTIONS
    workload = of(
        write(tmp_path / "said", "publication", publications), write(tmp_path / "wanted", "subscription", subscriptions)
    )
    with pytest.raises(ExperimentError, match=says):
        await ready_of(workload, 2)


async def test_nothing_would_arrive(tmp_path: Path) -> None:
    stored(tmp_path)
    nobody = write(tmp_path / "nobody", "subscription", [{"filter": "value < 0"}])
    with pytest.raises(ExperimentError, match=r"none of the 5 publications of .* matches one of the first 1 subscr"):
        await ready_of(of(tmp_path / "readings", nobody), 1)


async def test_whoever_counts_can_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "_AT_ONCE", 1)
    workload = stored(tmp_path)
    counting = asyncio.create_task(ready_of(workload, 5))
    await asyncio.sleep(0)
    counting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await counting
    assert len((await ready_of(workload, 5)).publications) == 5


async def test_cells_that_load_as_many_count_once(tmp_path: Path) -> None:
    workload = stored(tmp_path)
    ready = await ready_of(workload, 5)
    assert await ready_of(workload, 5) is ready
    assert (await ready_of(workload, 4)).matches < ready.matches
