"""The launcher with real processes and a real ZooKeeper. The slices are stubs that answer /readyz."""

import os
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.launcher_under_test import Up, is_alive, until
from tests.service.zookeeper_fixture import ZooKeeperServer

pytestmark = pytest.mark.slow  # real processes and sessions that expire


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Up]:
    up = Up(tmp_path, None)
    yield up
    up.close()


@pytest.fixture
def up(tmp_path: Path, zookeeper: ZooKeeperServer) -> Iterator[Up]:
    up = Up(tmp_path, zookeeper.hosts)
    yield up
    up.close()


def test_it_starts_everything_says_where_it_is_and_leaves_nothing_behind(embedded: Up) -> None:
    process = embedded.start("--slices", "connpoint=1,accesspoint=1,matcher=2,exitpoint=1")
    pids = embedded.wait_ready(process)
    cluster = embedded.cluster()
    assert cluster["pid"] == process.pid
    assert cluster["api"] == [f"http://127.0.0.1:{embedded.port}"]
    assert cluster["zookeeper"].startswith("127.0.0.1:")
    assert list(cluster["slices"]) == ["exitpoint-1", "matcher-1", "matcher-2", "accesspoint-1", "connpoint-1"]
    assert set(cluster["slices"].values()) < set(pids)
    assert len(pids) == 7  # with the coordinator and ZooKeeper

    refused = embedded.start()
    _, error = refused.communicate(timeout=20)
    assert refused.returncode == 1
    assert f"process {process.pid}" in error
    assert "braid down" in error

    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (0, "")
    assert not any(map(is_alive, pids))
    assert embedded.cluster() == {}


def test_nothing_survives_a_launcher_that_is_killed_and_the_next_one_starts(embedded: Up) -> None:
    first = embedded.start()
    pids = embedded.wait_ready(first)
    first.kill()
    first.wait()
    until(lambda: not any(map(is_alive, pids)))
    second = embedded.start()
    pids = embedded.wait_ready(second)
    assert "connpoint-1 runs" in (embedded.data / "logs" / "connpoint-1.log.1").read_text()
    second.send_signal(signal.SIGINT)
    second.communicate(timeout=30)
    assert second.returncode == 0
    assert not any(map(is_alive, pids))


ANNOUNCED = "compiling the matching engine (once on a machine, about half a minute) …\n"


def test_the_engine_is_compiled_before_any_slice_starts_however_long_it_takes(up: Up) -> None:
    started = str(up.data / "shape.json")
    program = f"import os, time; time.sleep(8); print('compiled', os.path.exists({started!r}))"
    process = up.start(STUB_COMPILER=program, STUB_READY_S="7")
    assert process.stdout is not None
    assert process.stdout.readline() == ANNOUNCED
    assert up.cluster()["slices"] == {}  # 'braid down' would find the launcher
    pids = up.wait_ready(process)
    assert len(pids) == 5  # the compiler is gone
    assert (up.data / "logs" / "compiler.log").read_text() == "compiled False\n"


def test_an_engine_that_cannot_be_compiled_is_shown_with_its_log(up: Up) -> None:
    process = up.start("--quiet", STUB_COMPILER="import sys; print('half'); sys.exit('no room on the disk')")
    output, error = process.communicate(timeout=20)
    assert (process.returncode, output) == (1, "")
    assert "the matching engine could not be compiled (exit code 1)" in error
    assert str(up.data / "logs" / "compiler.log") in error
    assert "half" in error
    assert "no room on the disk" in error
    assert not (up.data / "shape.json").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_compiling_can_be_interrupted(up: Up, number: signal.Signals) -> None:
    process = up.start(STUB_COMPILER="import time; print('here', flush=True); time.sleep(60)")
    log = up.data / "logs" / "compiler.log"
    until(lambda: log.exists() and log.read_text() == "here\n")
    (pid,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    process.send_signal(number)
    output, error = process.communicate(timeout=5)
    assert (process.returncode, error) == (0, "")
    assert output == f"{ANNOUNCED}stopping compiler …\nstopped\n"
    assert not is_alive(pid)
    assert up.cluster() == {}


def test_a_slice_that_died_is_started_again(up: Up) -> None:
    process = up.start()
    up.wait_ready(process)
    before = up.cluster()["slices"]
    os.kill(before["matcher-1"], signal.SIGKILL)
    until(lambda: up.cluster()["slices"]["matcher-1"] != before["matcher-1"])
    after = up.cluster()["slices"]
    assert is_alive(after["matcher-1"])
    assert {**after, "matcher-1": 0} == {**before, "matcher-1": 0}
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert "matcher-1 died (killed by SIGKILL)" in output
    assert process.returncode == 0


def test_a_slice_that_dies_again_and_again_ends_the_cluster(up: Up) -> None:
    process = up.start("--quiet", STUB_MODE="dies")
    output, error = process.communicate(timeout=40)
    assert process.returncode == 1
    assert "matcher-1 died again and again (last: exit code 1)" in error
    assert str(up.data / "logs" / "matcher-1.log") in error
    assert "something is wrong with this matcher" in error
    assert output == ""


def test_a_slice_that_refuses_the_configuration_ends_the_cluster_at_once(up: Up) -> None:
    process = up.start(STUB_MODE="refuses")
    output, error = process.communicate(timeout=40)
    assert process.returncode == 1
    assert "error: matcher-1 refuses the configuration in ZooKeeper." in error
    assert f"python -m coordinator.restoring --data {up.data} --zookeeper" in error
    assert f"Its log is {up.data / 'logs' / 'matcher-1.log'}:\nmatcher-1 runs as refuses\n" in error
    assert "starting it again" not in output


def test_a_connection_point_that_does_not_get_ready_is_shown_with_its_log(up: Up) -> None:
    process = up.start(STUB_MODE="unready", STUB_READY_S="8")  # an interpreter may take seconds to start
    _, error = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "connpoint-1 was not ready within 8 s" in error
    assert "503: no link to accesspoint-1" in error
    assert "connpoint-1 runs as unready" in error


def test_a_second_signal_does_not_wait_for_the_stubborn(up: Up) -> None:
    process = up.start(STUB_MODE="stubborn")
    pids = up.wait_ready(process)
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert "stopping connpoint" in process.stdout.readline()
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert time.monotonic() - began < 6  # four groups would have been waited for
    assert not any(map(is_alive, pids))


def test_ports_that_the_system_chose_are_found_through_the_registrations(up: Up) -> None:
    up.port = 0
    process = up.start("--slices", "connpoint=2")
    up.wait_ready(process)
    before = up.cluster()
    os.kill(before["slices"]["connpoint-2"], signal.SIGKILL)
    until(lambda: len(set(up.cluster()["api"]) - set(before["api"])) == 1)
    for address in {*before["api"][:1], *up.cluster()["api"]}:
        with urllib.request.urlopen(f"{address}/readyz", timeout=5) as answer:
            assert answer.status == 200


def test_a_port_in_use_is_refused_before_anything_starts(up: Up) -> None:
    with socket.create_server(("127.0.0.1", up.port)):
        process = up.start()
        _, error = process.communicate(timeout=20)
    assert process.returncode == 1
    assert f"connpoint-1 cannot listen on 127.0.0.1:{up.port}" in error
    assert "--port" in error
    assert not (up.data / "logs").exists()


def test_data_of_another_shape_is_refused(up: Up) -> None:
    up.data.mkdir()
    (up.data / "shape.json").write_text('{"accesspoint": 1, "matcher": 2, "exitpoint": 1}')
    process = up.start("--slices", "matcher=3")
    _, error = process.communicate(timeout=20)
    assert process.returncode == 1
    assert f"the data in {up.data} was made for accesspoint=1,matcher=2,exitpoint=1, and matcher=3 is asked" in error
    assert "braid scale matcher=3" in error


def test_slices_that_cannot_be_understood_are_refused(up: Up) -> None:
    process = up.start("--slices", "matchers=3")
    _, error = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "'matchers=3' is not of the form connpoint=1" in error
