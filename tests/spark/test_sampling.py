"""What is looked at every second, also by somebody who is kept from looking."""

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from benchmarks.local_cluster import LocalCluster
from spark.experiments.sampling import Sampler, Second, Usage, Used, cpu_us_of_layers, delivered_s, stolen_share

RATE = 10_000


class Time:
    """Of a process whose sleep ends late by as much as it is told, each time once."""

    def __init__(self, *late_s: float) -> None:
        self.now_s = 100.0
        self._late_s: Iterator[float] = iter(late_s)

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds + next(self._late_s, 0.0)

    def counted(self) -> int:
        return round(RATE * (self.now_s - 100.0))


async def sampled(seconds: int, *late_s: float) -> Sampler:
    cluster = cast(LocalCluster, SimpleNamespace(slice_pids=lambda: {"matcher-1": os.getpid()}))
    time = Time(*late_s)
    sampler = Sampler(cluster, time.counted, time.counted, clock=lambda: time.now_s, sleep=time.sleep)
    async with sampler.sampling(seconds):
        pass
    return sampler


async def test_seconds_that_were_missed_are_one_long_one() -> None:
    sampler = await sampled(5, 0.0, 2.25)
    assert [second.second for second in sampler.seconds] == [1, 4, 5]
    assert [second.lasted_s for second in sampler.seconds] == [1.0, 3.25, 0.75]
    assert [second.delivered for second in sampler.seconds] == [RATE, 3.25 * RATE, 0.75 * RATE]
    assert delivered_s(sampler.seconds) == RATE
    assert {(used.second, used.lasted_s) for used in sampler.usage} == {(1, 1.0), (4, 3.25), (5, 0.75)}


async def test_whoever_sleeps_over_the_end_has_measured_until_then() -> None:
    sampler = await sampled(2, 0.0, 7.0)
    assert [(second.second, second.lasted_s) for second in sampler.seconds] == [(1, 1.0), (9, 8.0)]
    assert delivered_s(sampler.seconds) == RATE


async def test_what_the_host_gave_to_others_has_a_row_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    times: dict[str, Any] = {"user": 0.0, "system": 0.0, "idle": 0.0, "iowait": 0.0, "steal": 0.0, "guest": 0.0}

    def passes() -> Any:
        times.update({kind: spent_s + 0.25 for kind, spent_s in times.items()})
        return SimpleNamespace(_asdict=lambda: dict(times))

    monkeypatch.setattr(psutil, "cpu_times", passes)
    sampler = await sampled(1)
    used = {used.slice: used.cpu_s for used in sampler.usage}
    assert used["machine"] == 0.5  # user and system
    assert used["stolen"] == 0.25


def test_the_ledger_has_the_share_that_was_stolen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    usage = [Usage(1, "stolen", "stolen", 0.5, 0, 1.0), Usage(4, "stolen", "stolen", 0.5, 0, 4.0)]
    assert stolen_share(usage) == 0.1
    assert stolen_share([]) == 0.0
    usage.append(Usage(1, "matcher-1", "matcher", 0.001, 0, 1.0))
    assert cpu_us_of_layers([Second(1, 100, 100, 1.0)], usage) == {"matcher": 10.0}


def test_what_a_new_process_has_used_it_has_used_since_it_was_looked_for() -> None:
    assert Used(5.0, 0, pid=7).since(Used(4.0, 0, pid=7)) == 1.0
    assert Used(0.5, 0, pid=8).since(Used(4.0, 0, pid=7)) == 0.5  # it was started again
    assert Used(0.5, 0, pid=8).since(None) == 0.5
