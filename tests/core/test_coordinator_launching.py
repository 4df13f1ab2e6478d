"""What the launcher decides before and around its processes."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from braid.config import Settings, load
from braid.matching.compiled import completing
from braid.topology import Registration
from braid.znodes import in_order_of_arrival, judge_holder
from coordinator.compiling import EngineNotCompiled, compiler_arguments, compiler_command, wait_compiled
from coordinator.data_directory import DataDirectory, DataDirectoryRefused
from coordinator.plan import Plan, PortRefused, connpoint_ports, parse_slices, slice_arguments
from coordinator.processes import DEATHS_MAX, DEATHS_WITHIN_S, Child, RestartPolicy, describe_exit, rotate, tail
from coordinator.shape import numbered


def settings(**sections: dict[str, object]) -> Settings:
    return load(overrides=sections).settings


def test_a_process_that_dies_now_and_then_is_always_started_again() -> None:
    policy = RestartPolicy()
    assert {policy.on_death(now * (DEATHS_WITHIN_S + 1)) for now in range(20)} == {0.1}


def test_a_process_that_dies_often_waits_longer_and_is_given_up() -> None:
    policy = RestartPolicy()
    delays = [policy.on_death(float(now)) for now in range(DEATHS_MAX + 1)]
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, None]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("matcher=2", {"matcher": "2"}), ("connpoint=1, exitpoint=3", {"connpoint": "1", "exitpoint": "3"})],
)
def test_slices_are_parsed(text: str, parsed: dict[str, str]) -> None:
    assert parse_slices(text) == parsed


@pytest.mark.parametrize("text", ["matcher", "matcher=", "matchers=2", "2", ","])
def test_slices_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not of the form"):
        parse_slices(text)


def test_connection_points_have_ports_in_a_row() -> None:
    chosen = settings(api={"port": 9000}, slices={"connpoint": 3})
    assert connpoint_ports(chosen) == {"connpoint-1": 9000, "connpoint-2": 9001, "connpoint-3": 9002}
    free = settings(api={"port": 0}, slices={"connpoint": 2})
    assert connpoint_ports(free) == {"connpoint-1": 0, "connpoint-2": 0}
    with pytest.raises(PortRefused, match="65535"):
        connpoint_ports(settings(api={"port": 65535}, slices={"connpoint": 2}))


def test_every_process_gets_what_the_launcher_was_given(tmp_path: Path) -> None:
    chosen = settings(api={"port": 9000}, slices={"matcher": 2})
    plan = Plan(chosen, "127.0.0.1:2181", DataDirectory(tmp_path), Path("b.toml"), slice_arguments)
    commands = plan.commands({**numbered(chosen.slices), "matcher": ("matcher-1", "matcher-3")})
    by_name = {command.name: command for command in commands}
    assert list(by_name) == [
        "coordinator",
        "exitpoint-1",
        "matcher-1",
        "matcher-3",
        "accesspoint-1",
        "connpoint-1",
    ]
    assert by_name["matcher-3"].argv == [
        *(sys.executable, "-m", "services.matcher", "--name", "matcher-3", "--http-port", "0"),
        *("--config", "b.toml"),
    ]
    assert by_name["connpoint-1"].argv[-3:] == ["9000", "--config", "b.toml"]
    assert by_name["coordinator"].argv == [sys.executable, "-m", "coordinator", "--config", "b.toml"]
    assert plan.slice("matcher", "matcher-3") == by_name["matcher-3"]
    assert by_name["coordinator"].environment["BRAID_SLICES__MATCHER"] == "2"
    for command in commands:
        assert command.environment["BRAID_CLUSTER__ZOOKEEPER"] == "127.0.0.1:2181"
        assert command.environment["BRAID_CLUSTER__DATA"] == str(tmp_path)
        assert command.log == tmp_path / "logs" / f"{command.name}.log"


def test_the_engine_is_compiled_only_when_that_was_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiler_arguments() == [sys.executable, "-m", "braid.matching.warm"]
    with completing():
        pass
    assert compiler_arguments() is None


async def test_compiling_does_not_go_on_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.compiling.COMPILE_S_MAX", 0.05)
    command = compiler_command([sys.executable, "-c", "import time; time.sleep(60)"], DataDirectory(tmp_path))
    rotate(command.log)
    compiler = Child(command)
    await compiler.start()
    try:
        with pytest.raises(
            EngineNotCompiled, match=r"was not compiled within 0.05 s.*braid.matching.warm.*compiler.log"
        ):
            await wait_compiled(compiler)
    finally:
        await compiler.stop(5, asyncio.Event())


def test_a_data_directory_has_one_user_at_a_time(tmp_path: Path) -> None:
    with DataDirectory(tmp_path).locked():
        DataDirectory(tmp_path).write_cluster({"pid": 7, "api": ["http://127.0.0.1:8080"]})
        with pytest.raises(DataDirectoryRefused, match=r"process 7.*http://127.0.0.1:8080.*braid down"):
            DataDirectory(tmp_path).locked().__enter__()
    assert not (tmp_path / "cluster.json").exists()
    with DataDirectory(tmp_path).locked():
        pass


def test_a_data_directory_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(DataDirectoryRefused, match="--data"),
        DataDirectory(tmp_path / "file" / "data").locked(),
    ):
        pass


def test_logs_of_the_run_before_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "a.log"
    rotate(log)
    assert tail(log) == "(there is no log)"
    log.write_text("".join(f"{number}\n" for number in range(20_000)))
    assert tail(log, 3) == "19997\n19998\n19999"
    rotate(log)
    assert not log.exists()
    assert (tmp_path / "logs" / "a.log.1").exists()


def test_exits_are_described() -> None:
    assert describe_exit(3) == "exit code 3"
    assert describe_exit(-9) == "killed by SIGKILL"
    assert describe_exit(-63) == "killed by signal 63"


def test_holders_of_a_name_are_judged() -> None:
    def registration(pid: int, incarnation: int = 1, host: str = "127.0.0.1") -> Registration:
        return Registration("matcher-1", "matcher", f"{host}:7000", f"{host}:8000", pid, incarnation, "0")

    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    ours = registration(os.getpid(), incarnation=2)
    assert judge_holder(ours, ours) == "ourselves"
    assert judge_holder(registration(dead.pid), ours) == "gone"
    assert judge_holder(registration(os.getppid()), ours) == "unknown"  # lives
    assert judge_holder(registration(os.getpid(), incarnation=1), ours) == "unknown"
    assert judge_holder(registration(dead.pid, host="10.0.0.7"), ours) == "unknown"
    assert judge_holder(registration(0), ours) == "unknown"
    elsewhere = registration(os.getpid(), incarnation=5, host="10.0.0.7")
    assert judge_holder(elsewhere, ours, predecessor=5) == "gone"  # its lock is ours
    assert judge_holder(elsewhere, ours, predecessor=4) == "unknown"


def test_candidates_are_ordered_by_their_arrival_not_by_their_name() -> None:
    assert in_order_of_arrival(["a-0000000010", "c-0000000009", "b-0000000002"])[0] == "b-0000000002"
