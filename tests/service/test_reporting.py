"""What a slice reports of a scaling reaches ZooKeeper, however long that is away, and only while it matters."""

import asyncio
from typing import cast

import pytest

from braid import reporting as reporting_module
from braid.coordination import Coordination, CoordinationUnavailable
from braid.reporting import Reporting
from braid.scaling import Progress, Report, ReportStep
from tests.service.waiting import until


class FakeCoordination:
    def __init__(self) -> None:
        self.away = False
        self.asked = 0
        self.reports: list[Report] = []
        self.shown: list[Progress] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def report(self, report: Report) -> None:
        await self._answer()
        self.reports.append(report)

    async def show_progress(self, progress: Progress) -> None:
        await self._answer()
        self.shown.append(progress)

    async def _answer(self) -> None:
        self.asked += 1
        await self.gate.wait()
        if self.away:
            raise CoordinationUnavailable("away")


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting_module, "RETRY_S", 0.002)
    monkeypatch.setattr(reporting_module, "PROGRESS_EVERY_S", 0.05)


def reporting(coordination: FakeCoordination) -> Reporting:
    made = Reporting("matcher-1", 17, cast(Coordination, coordination))
    made.on_change("scaling-1")
    return made


STEP = ReportStep("scaling-1", "change-ready", {"moved": 3.0})
REPORT = Report("scaling-1", "change-ready", "matcher-1", 17, {"moved": 3.0})


async def test_a_report_says_who_and_which_incarnation() -> None:
    coordination = FakeCoordination()
    reporting(coordination).report(STEP)
    await until(lambda: coordination.reports)
    assert coordination.reports == [REPORT]
    assert coordination.asked == 1


async def test_it_is_repeated_until_zookeeper_is_back() -> None:
    coordination = FakeCoordination()
    coordination.away = True
    reporting(coordination).report(STEP)
    await until(lambda: coordination.asked >= 4)
    assert coordination.reports == []
    coordination.away = False
    await until(lambda: coordination.reports)
    assert coordination.reports == [REPORT]


@pytest.mark.parametrize("after", [None, "scaling-2"])
async def test_it_is_not_repeated_when_the_change_is_over(after: str | None) -> None:
    coordination = FakeCoordination()
    coordination.away = True
    made = reporting(coordination)
    made.report(STEP)
    await until(lambda: coordination.asked >= 2)
    made.on_change(after)
    await until(lambda: not made._tasks)
    asked = coordination.asked
    coordination.away = False
    await asyncio.sleep(0.02)
    assert (coordination.asked, coordination.reports) == (asked, [])


async def test_several_reports_do_not_wait_for_each_other() -> None:
    coordination = FakeCoordination()
    coordination.gate.clear()
    made = reporting(coordination)
    made.report(STEP)
    made.report(ReportStep("scaling-1", "done"))
    await until(lambda: coordination.asked == 2)
    coordination.gate.set()
    await until(lambda: len(coordination.reports) == 2)


async def test_a_slice_that_stops_reports_no_more() -> None:
    coordination = FakeCoordination()
    coordination.away = True
    made = reporting(coordination)
    made.report(STEP)
    made.show({"moved": 1.0})
    await until(lambda: coordination.asked >= 2)
    made.close()
    await until(lambda: not made._tasks)
    coordination.away = False
    await asyncio.sleep(0.02)
    assert (coordination.reports, coordination.shown) == ([], [])


async def test_progress_is_shown_now_and_then() -> None:
    coordination = FakeCoordination()
    made = reporting(coordination)
    for number in range(5):
        made.show({"moved": float(number)})
        await asyncio.sleep(0)
    await until(lambda: coordination.shown)
    assert coordination.shown == [Progress("scaling-1", "matcher-1", {"moved": 0.0})]
    await asyncio.sleep(0.06)
    made.show({"moved": 9.0})
    await until(lambda: len(coordination.shown) == 2)
    assert coordination.shown[1].details == {"moved": 9.0}


async def test_progress_never_piles_up_behind_a_slow_zookeeper() -> None:
    coordination = FakeCoordination()
    coordination.gate.clear()
    made = reporting(coordination)
    for _ in range(3):
        made.show({"moved": 1.0})
        await asyncio.sleep(0.06)
    assert coordination.asked == 1
    coordination.gate.set()
    await until(lambda: coordination.shown)


async def test_progress_that_cannot_be_shown_is_forgotten() -> None:
    coordination = FakeCoordination()
    coordination.away = True
    made = reporting(coordination)
    made.show({"moved": 1.0})
    await until(lambda: coordination.asked == 1)
    await asyncio.sleep(0.01)
    assert (coordination.asked, coordination.shown) == (1, [])


async def test_without_a_change_or_without_anything_to_say_nothing_is_shown() -> None:
    coordination = FakeCoordination()
    made = reporting(coordination)
    made.show({})
    made.on_change(None)
    made.show({"moved": 1.0})
    await asyncio.sleep(0.01)
    assert coordination.asked == 0
