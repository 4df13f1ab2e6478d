"""`client.scale`, `braid scale` and `braid replace` before a fake door; the tests are the coordinator."""

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

import braid
from braid import problems
from braid.anchor_map import AnchorMap
from braid.anchors import place_of
from braid.cli import scaling_watch
from braid.client import Scaling
from braid.scaling import NO_MAP, Ask, Progress, ScalingRecord
from braid.topology import Change, Target
from tests.service.cli_runner import braid as run_braid
from tests.service.fake_door import FakeDoor, Served, serving
from tests.service.waiting import until

pytestmark = pytest.mark.slow

DONE = {"state": "done", "phase": "done", "epoch": 4, "moved": 12_000, "longest_pause_s": 0.25, "longest_wait_s": 1.5}
HOUSE = AnchorMap(2, {place_of("words:hous"): 1})


def url_of(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}"


async def asked_of(door: FakeDoor) -> ScalingRecord:
    await until(lambda: bool(door.coordination.records))
    return next(iter(door.coordination.records.values()))


@asynccontextmanager
async def coordinated(*endings: dict[str, Any]) -> AsyncIterator[Served]:
    """What is asked goes through these states, each as soon as somebody has looked at the one before."""

    async def coordinate() -> None:
        record = await asked_of(served.door)
        for fields in endings:
            looks = served.door.coordination.reads
            await until(lambda looks=looks: served.door.coordination.reads > looks)  # type: ignore[misc]  # bound now
            details = fields.get("details", {})
            record = msgspec.structs.replace(record, **{k: v for k, v in fields.items() if k != "details"})
            served.door.coordination.put(record, *(Progress(record.id, name, what) for name, what in details.items()))

    async with serving() as served, asyncio.timeout(30):
        coordinating = asyncio.create_task(coordinate())
        yield served
        coordinating.cancel()


async def test_a_program_scales_and_follows() -> None:
    async with serving() as served, braid.Client(url_of(served)) as client:
        id = await client.scale({"matcher": 3}, replace=["exitpoint-1"])
        record = await asked_of(served.door)
        assert (record.id, record.asked) == (id, Ask({"matcher": 3}, ("exitpoint-1",)))
        moving = {"matcher-1": {"moved": 10.0}, "matcher-2": {"moved": 5.0, "kept_back": 1.0}}
        record = msgspec.structs.replace(record, phase="moving", epoch=4)
        served.door.coordination.put(record, *(Progress(id, name, details) for name, details in moving.items()))
        found = await client.scaling(id)
        assert (found.state, found.phase, found.epoch, found.progress) == ("running", "moving", 4, moving)
        assert [found.so_far(what) for what in ("moved", "kept_back", "held")] == [15, 1, 0]
        with pytest.raises(braid.BraidError, match="under way") as caught:
            await client.scale({"matcher": 2})
        assert (caught.value.status, caught.value.problem["scaling"]) == (409, id)
        served.door.coordination.put(msgspec.structs.replace(record, **DONE))
        (listed,) = await client.scalings()
        assert listed == await client.scaling(id)
        assert (listed.state, listed.moved, listed.longest_pause_s, listed.longest_wait_s) == (
            "done",
            12_000,
            0.25,
            1.5,
        )
        with pytest.raises(braid.BraidError, match="nothing is asked"):
            await client.scale()
        with pytest.raises(braid.BraidError, match="there is no scaling 'other'"):
            await client.scaling("other")


async def test_scale_shows_the_phases_and_what_it_cost() -> None:
    began_s = time.time()
    times = {"gathering": began_s + 1.0, "moving": began_s + 2.5}
    async with coordinated(
        {"phase": "gathering", "began_s": {"gathering": times["gathering"]}},
        {"phase": "moving", "began_s": times},
        {**DONE, "began_s": {**times, "done": began_s + 100.0}},
    ) as served:
        done = await run_braid(url_of(served), "scale", "matcher", "3")
        record = await asked_of(served.door)
        assert record.asked == Ask({"matcher": 3})
        assert (done.exit_code, done.stderr) == (0, "")
        first, *phases, last = done.stdout.splitlines()
        assert first == f"{record.id}: matcher=3"
        assert [line.split()[0] for line in phases] == ["asked", "gathering", "moving"]
        assert phases[1].split()[1:] == ["1.50", "s"]
        assert phases[2].split()[1:] == ["97.5", "s"]
        assert last.endswith(
            "epoch 4, 12,000 subscriptions moved, longest pause of a publication 250 ms, "
            "longest wait of a subscription 1.50 s"
        )


async def test_asking_for_what_is_there_is_done_at_once() -> None:
    async with coordinated({"state": "done", "phase": "done", "epoch": 3}) as served:
        done = await run_braid(url_of(served), "scale", "matcher=1", "exitpoint=1")
        assert (done.exit_code, (await asked_of(served.door)).asked) == (0, Ask({"matcher": 1, "exitpoint": 1}))
        assert "everything was as asked already" in done.stdout


async def test_another_routing_is_asked_for_alone_or_with_other_slices() -> None:
    async with coordinated(DONE) as served:
        done = await run_braid(url_of(served), "scale", "--routing", "anchored")
        record = await asked_of(served.door)
        assert (done.exit_code, record.asked) == (0, Ask(routing="anchored"))
        assert done.stdout.splitlines()[0] == f"{record.id}: routing anchored"
    async with coordinated(DONE) as served:
        done = await run_braid(url_of(served), "scale", "matcher", "3", "--routing", "broadcast")
        record = await asked_of(served.door)
        assert (done.exit_code, record.asked) == (0, Ask({"matcher": 3}, routing="broadcast"))
        assert done.stdout.splitlines()[0] == f"{record.id}: matcher=3, routing broadcast"


def be_anchored(served: Served) -> None:
    assert served.door.in_force is not None
    served.door.in_force = msgspec.structs.replace(served.door.in_force, routing="anchored")


async def test_a_map_is_asked_for_by_a_program_and_taken_away() -> None:
    async with serving() as served, braid.Client(url_of(served)) as client:
        be_anchored(served)
        id = await client.scale(map={"parts": 2, "words": {"house": 1}})
        record = await asked_of(served.door)
        assert (record.id, record.asked) == (id, Ask(map=HOUSE.version))
        assert served.door.coordination.map == HOUSE
        assert (await client.scaling(id)).asked["map"] == HOUSE.version
        served.door.coordination.put(msgspec.structs.replace(record, **DONE))
        id = await client.scale({"matcher": 2}, map="none")
        assert served.door.coordination.records[id].asked == Ask({"matcher": 2}, map=NO_MAP)


async def test_a_map_is_asked_for_on_the_command_line_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "map.json"
    file.write_text('{"parts": 2, "words": {"house": 1}}')
    async with coordinated(DONE) as served:
        be_anchored(served)
        done = await run_braid(url_of(served), "scale", "matcher", "2", "--map", str(file))
        record = await asked_of(served.door)
        assert (done.exit_code, record.asked) == (0, Ask({"matcher": 2}, map=HOUSE.version))
        assert served.door.coordination.map == HOUSE
        assert done.stdout.splitlines()[0] == f"{record.id}: matcher=2, map {HOUSE.version}"
    async with coordinated(DONE) as served:
        done = await run_braid(url_of(served), "scale", "--map", "none")
        record = await asked_of(served.door)
        assert (done.exit_code, record.asked) == (0, Ask(map=NO_MAP))
        assert done.stdout.splitlines()[0] == f"{record.id}: map none"


async def test_a_file_that_holds_no_map_is_refused_with_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "map.json"
    async with serving() as served:
        be_anchored(served)
        for content, complaint in (
            (None, "cannot read"),
            ("not JSON", "is no map, which is JSON such as"),
            ("[]", "is no map, which is JSON such as"),
            ('{"parts": 2, "words": {"house": 2}}', "parts are numbered from 0 to 1"),
        ):
            if content is not None:
                file.write_text(content)
            done = await run_braid(url_of(served), "scale", "--map", str(file))
            assert (done.exit_code, complaint in done.stderr) == (1, True), done.stderr
        assert served.door.coordination.records == {}


async def test_status_shows_the_map() -> None:
    async with serving() as served:
        be_anchored(served)
        assert served.door.in_force is not None
        served.door.in_force = msgspec.structs.replace(served.door.in_force, map=HOUSE)
        done = await run_braid(url_of(served), "status")
        assert f"epoch 3, routing anchored, map {HOUSE.version} of 1 anchors in 2 parts" in done.stdout


async def test_a_routing_that_does_not_exist_is_refused_with_those_that_do() -> None:
    async with serving() as served:
        done = await run_braid(url_of(served), "scale", "--routing", "random")
        assert done.exit_code == 1
        assert "there is no routing 'random'" in done.stderr
        assert served.door.coordination.records == {}


async def test_an_aborted_scaling_is_a_failure_with_its_reason() -> None:
    aborted = {"state": "aborted", "phase": "aborted", "reason": "matcher-2 was not registered within 60 s"}
    async with coordinated(aborted) as served:
        done = await run_braid(url_of(served), "replace", "matcher-1")
        record = await asked_of(served.door)
        assert record.asked == Ask({}, ("matcher-1",))
        assert done.exit_code == 1
        assert done.stderr == f"error: {record.id} was aborted: matcher-2 was not registered within 60 s\n"
        assert "replacing matcher-1" in done.stdout
    async with coordinated(aborted) as served:
        done = await run_braid(url_of(served), "scale", "--replace", "matcher-1", "--json")
        assert (done.exit_code, json.loads(done.stdout)["state"]) == (1, "aborted")
        assert "was aborted" in done.stderr


async def test_scale_as_json_is_one_document_at_the_end() -> None:
    async with coordinated({"phase": "moving", "details": {"matcher-1": {"moved": 1}}}, DONE) as served:
        done = await run_braid(url_of(served), "scale", "matcher", "3", "--json")
        assert (done.exit_code, done.stderr) == (0, "")
        shown = json.loads(done.stdout)
        assert (shown["state"], shown["moved"], shown["progress"]) == ("done", 12_000, {})


async def test_scale_without_waiting_prints_the_id_and_can_be_watched_later() -> None:
    async with serving() as served:
        asked = await run_braid(url_of(served), "scale", "matcher", "3", "--no-wait")
        record = await asked_of(served.door)
        assert (asked.exit_code, asked.stdout) == (0, f"{record.id}\n")
        refused = await run_braid(url_of(served), "replace", "matcher-1", "--no-wait")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert f"{record.id} is under way" in refused.stderr
        assert f"braid scale --watch {record.id}" in refused.stderr
        served.door.coordination.put(msgspec.structs.replace(record, **DONE))
        watched = await run_braid(url_of(served), "scale", "--watch", record.id)
        assert (watched.exit_code, "done in" in watched.stdout) == (0, True)
        unknown = await run_braid(url_of(served), "scale", "--watch", "other")
        assert (unknown.exit_code, "there is no scaling 'other'" in unknown.stderr) == (1, True)
        asked = await run_braid(url_of(served), "replace", "matcher-1", "--no-wait", "--json")
        assert json.loads(asked.stdout)["id"] in served.door.coordination.records


async def test_what_cannot_be_done_is_explained() -> None:
    async with serving() as served:
        done = await run_braid(url_of(served), "scale", "connpoint=2")
        assert done.exit_code == 1
        assert "$.layers.connpoint" in done.stderr
        assert "takes part as soon as it registers" in done.stderr


async def test_ctrl_c_leaves_the_scaling_running() -> None:
    async with serving() as served, asyncio.timeout(30):
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-m", "braid.cli", "--url", url_of(served), "scale", "matcher", "3"]
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        record = await asked_of(served.door)
        await until(lambda: served.door.coordination.reads > 0, 20)
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
        assert process.returncode == 130
        assert errors.decode() == f"the scaling goes on. Watch it with: braid scale --watch {record.id}\n"
        assert served.door.coordination.records[record.id].state == "running"


async def test_watching_goes_on_while_zookeeper_is_away_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as served:
        record = ScalingRecord("scaling-1", Ask({"matcher": 2}), time.time())
        served.door.coordination.put(record)
        watching = asyncio.create_task(run_braid(url_of(served), "scale", "--watch", record.id))
        await until(lambda: served.door.coordination.reads > 1)
        served.door.coordination.error = problems.unavailable("ZooKeeper is away")
        looks = served.door.coordination.reads
        await until(lambda: served.door.coordination.reads > looks)
        served.door.coordination.error = None
        served.door.coordination.put(msgspec.structs.replace(record, **DONE))
        assert (await watching).exit_code == 0

        served.door.coordination.put(record)
        monkeypatch.setattr(scaling_watch, "SILENCE_S_MAX", 0.1)
        watching = asyncio.create_task(run_braid(url_of(served), "scale", "--watch", record.id))
        looks = served.door.coordination.reads
        await until(lambda: served.door.coordination.reads > looks + 1)
        served.door.coordination.error = problems.unavailable("ZooKeeper is away")
        done = await watching
        assert done.exit_code == 1
        assert "ZooKeeper is away" in done.stderr
        assert "It goes on. Watch it with: braid scale --watch scaling-1" in done.stderr


def drawn(scaling: Scaling) -> list[str]:
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(scaling_watch.picture_of(scaling))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_picture_on_a_terminal() -> None:
    scaling = Scaling(
        id="scaling-1",
        state="running",
        phase="moving",
        asked={"layers": {"matcher": 3}, "replace": ["matcher-2"]},
        phase_s={"asked": 0.012, "gathering": 1.2, "copying": 2.5, "moving": 0.73},
        progress={"matcher-1": {"moved": 12_000}, "accesspoint-1": {"kept_back": 4, "held": 17}},
    )
    assert drawn(scaling) == [
        "scaling-1: matcher=3, replacing matcher-2",
        "✓  asked       12 ms",
        "✓  gathering  1.20 s",
        "✓  copying    2.50 s",
        "▸  moving     730 ms  12,000 subscriptions moved, 4 subscriptions kept back, 17 publications held",
        "   changing",
        "   flushing",
        "   ending",
    ]
    aborted = msgspec.structs.replace(scaling, state="aborted", phase="aborted", progress={})
    assert drawn(aborted)[-2:] == ["✓  moving     730 ms", "✗  aborted"]


async def test_status_shows_a_change_under_way() -> None:
    async with serving() as served:
        assert served.door.in_force is not None
        to = Target(4, ("accesspoint-1",), ("matcher-1", "matcher-2"), ("exitpoint-1",))
        change = Change("scaling-1", "moving", to, {})
        served.door.in_force = msgspec.structs.replace(served.door.in_force, change=change)
        done = await run_braid(url_of(served), "status")
        lines = done.stdout.splitlines()
        assert lines[0] == "ready  epoch 3, routing broadcast"
        assert lines[1] == "  scaling-1 is moving: epoch 4 has 1 accesspoint, 2 matcher, 1 exitpoint"


def test_a_matcher_that_leaves_shows_what_it_hands_over() -> None:
    progress = {"matcher-1": {"moved": 10.0, "publications_handed_over": 2_500.0}, "matcher-2": {"moved": 5.0}}
    scaling = Scaling(id="scaling-1", state="running", phase="copying", progress=progress)
    assert scaling_watch.progress_line(scaling) == "15 subscriptions moved, 2,500 publications handed over"
