"""The launcher while slices come and go. The tests are the coordinator: they write what it would into ZooKeeper."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from msgspec.structs import replace

from braid import kept_configuration, znodes
from braid.scaling import Ask, ScalingRecord
from braid.topology import Change, Configuration, Phase, Target
from tests.cluster.launcher_under_test import Up, is_alive, until
from tests.service.zookeeper_fixture import ZooKeeperServer

pytestmark = pytest.mark.slow  # real processes

OTHERS = {"accesspoint-1", "exitpoint-1", "connpoint-1"}


def configured(epoch: int, *matchers: str) -> Configuration:
    return Configuration(epoch, ("accesspoint-1",), matchers, ("exitpoint-1",), epochs=epoch)


def changing(configuration: Configuration, phase: Phase, *matchers: str) -> Configuration:
    to = Target(configuration.epoch + 1, ("accesspoint-1",), matchers, ("exitpoint-1",))
    return replace(configuration, change=Change("scaling-1", phase, to, {}))


class Scaled(Up):
    """A cluster whose coordinator is the test."""

    def __init__(self, directory: Path, hosts: str) -> None:
        super().__init__(directory, hosts)
        self._zookeeper = KazooClient(hosts)
        self._zookeeper.start()
        self._paths = znodes.Paths(self.cluster_name)
        self.said = ""  # until it was ready

    def bring_up(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        process = self.start(*arguments, STUB_COORDINATOR="1", **environment)
        self.said = self.wait_said(process)
        return process

    def configure(self, configuration: Configuration) -> None:
        self._put(self._paths.configuration, znodes.encode(configuration))

    def configuration(self) -> Configuration:
        return znodes.decode_configuration(self._zookeeper.get(self._paths.configuration)[0])

    def scale(self, *wants: str, id: str = "scaling-1") -> None:
        self._put(self._paths.scaling, znodes.encode(ScalingRecord(id, Ask(), 1.0, phase="gathering", wants=wants)))

    def end(self, configuration: Configuration) -> None:
        """As the coordinator ends a scaling: both at once."""
        transaction = self._zookeeper.transaction()
        transaction.set_data(self._paths.configuration, znodes.encode(configuration))
        transaction.delete(self._paths.scaling)
        transaction.commit()

    def pids(self) -> dict[str, int]:
        pids: dict[str, int] = self.cluster().get("slices", {})
        return pids

    def wait_matchers(self, *names: str) -> None:
        until(lambda: set(self.pids()) - OTHERS == set(names))

    def kept_matchers(self) -> list[str]:
        names: list[str] = json.loads((self.data / "shape.json").read_text())["matcher"]
        return names

    def stop(self, process: subprocess.Popen[str]) -> str:
        """Returns what it said."""
        process.send_signal(signal.SIGTERM)
        output, error = process.communicate(timeout=60)
        assert (process.returncode, error) == (0, "")
        return output

    def close(self) -> None:
        super().close()
        self._zookeeper.stop()
        self._zookeeper.close()

    def _put(self, path: str, payload: bytes) -> None:
        if self._zookeeper.exists(path):
            self._zookeeper.set(path, payload)
        else:
            self._zookeeper.create(path, payload, makepath=True)


@pytest.fixture
def up(tmp_path: Path, zookeeper: ZooKeeperServer) -> Iterator[Scaled]:
    up = Scaled(tmp_path, zookeeper.hosts)
    yield up
    up.close()


def test_slices_come_and_go_with_scalings_and_the_next_start_has_those_that_stayed(up: Scaled) -> None:
    process = up.bring_up("--slices", "matcher=2")
    up.configure(configured(1, "matcher-1", "matcher-2"))
    assert up.kept_matchers() == ["matcher-1", "matcher-2"]

    up.scale("matcher-3", "connpoint-9", "../matcher-4")
    up.wait_matchers("matcher-1", "matcher-2", "matcher-3")
    before = up.pids()["matcher-3"]
    os.kill(before, signal.SIGKILL)
    until(lambda: up.pids()["matcher-3"] != before)
    up.scale()  # it has registered, so it is not wanted any more
    up.configure(changing(configured(1, "matcher-1", "matcher-2"), "flushing", "matcher-1", "matcher-3"))
    until(lambda: up.kept_matchers() == ["matcher-1", "matcher-3"])
    pids = up.pids()
    up.end(configured(2, "matcher-1", "matcher-3"))
    up.wait_matchers("matcher-1", "matcher-3")
    assert not is_alive(pids.pop("matcher-2"))
    assert up.pids() == pids
    said = up.stop(process)
    assert "starting matcher-3 for scaling-1" in said
    assert "matcher-3 died (killed by SIGKILL)" in said
    assert "stopping matcher-2" in said
    assert "matcher-2 died" not in said
    assert "connpoint-9" not in said

    refused = up.start("--slices", "matcher=3")
    _, error = refused.communicate(timeout=20)
    assert refused.returncode == 1
    assert "braid scale matcher=3" in error
    process = up.bring_up()
    assert set(up.pids()) == {*OTHERS, "matcher-1", "matcher-3"}
    up.stop(process)
    process = up.bring_up("--slices", "matcher=2")
    assert set(up.pids()) == {*OTHERS, "matcher-1", "matcher-3"}


def test_what_an_aborted_scaling_wanted_is_stopped_and_can_be_wanted_again(up: Scaled) -> None:
    up.bring_up()
    up.configure(configured(1, "matcher-1"))
    up.scale("matcher-2")
    up.wait_matchers("matcher-1", "matcher-2")
    up.configure(changing(configured(1, "matcher-1"), "moving", "matcher-1", "matcher-2"))
    first = up.pids()["matcher-2"]
    up.end(replace(configured(1, "matcher-1"), epochs=2))
    up.wait_matchers("matcher-1")
    assert not is_alive(first)
    up.scale("matcher-2", id="scaling-2")
    up.wait_matchers("matcher-1", "matcher-2")
    assert up.pids()["matcher-2"] != first


def test_a_slice_that_is_wanted_again_while_it_is_being_stopped_is_started_afterwards(up: Scaled) -> None:
    process = up.bring_up(STUB_STUBBORN="matcher-2", STUB_LEAVE_PATIENCE_S="2")
    up.configure(configured(1, "matcher-1"))
    up.scale("matcher-2")
    up.wait_matchers("matcher-1", "matcher-2")
    first = up.pids()["matcher-2"]
    log = up.data / "logs" / "matcher-2.log"
    until(lambda: "matcher-2 runs" in log.read_text())  # from now on it does not mind being asked to stop
    up.end(configured(1, "matcher-1"))
    until(lambda: "stopping matcher-2" in line_of(process))
    up.scale("matcher-2", id="scaling-2")
    assert is_alive(first)
    until(lambda: up.pids().get("matcher-2", first) != first)
    assert not is_alive(first)
    assert is_alive(up.pids()["matcher-2"])


def line_of(process: subprocess.Popen[str]) -> str:
    """The next one that it says."""
    assert process.stdout is not None
    return process.stdout.readline()


def test_a_wanted_slice_that_cannot_live_does_not_end_the_cluster(up: Scaled) -> None:
    process = up.bring_up(STUB_DIES="matcher-2")
    up.configure(configured(1, "matcher-1"))
    up.scale("matcher-2")
    log = up.data / "logs" / "matcher-2.log"
    until(lambda: log.exists() and log.read_text().count("matcher-2 runs") == 6)
    up.wait_matchers("matcher-1")
    assert process.poll() is None
    up.end(configured(1, "matcher-1"))
    assert "matcher-2 died again and again (last: exit code 1)" in up.stop(process)


def test_a_start_in_the_middle_of_a_change_has_the_slices_of_both_sides(up: Scaled) -> None:
    before = configured(1, "matcher-1", "matcher-2")
    up.scale()
    up.configure(changing(before, "changing", "matcher-1", "matcher-3"))
    up.bring_up()
    assert set(up.pids()) == {*OTHERS, "matcher-1", "matcher-2", "matcher-3"}
    up.end(configured(2, "matcher-1", "matcher-3"))
    up.wait_matchers("matcher-1", "matcher-3")


def test_other_numbers_than_zookeeper_has_are_refused(up: Scaled) -> None:
    up.configure(configured(1, "matcher-1", "matcher-7"))
    process = up.start("--slices", "matcher=3", STUB_COORDINATOR="1")
    _, error = process.communicate(timeout=20)
    assert process.returncode == 1
    assert f"the cluster '{up.cluster_name}' in ZooKeeper" in error
    assert "braid scale matcher=3" in error
    assert not (up.data / "shape.json").exists()


def test_data_that_was_scaled_needs_its_configuration(up: Scaled) -> None:
    up.data.mkdir()
    names = {"accesspoint": ["accesspoint-1"], "matcher": ["matcher-2"], "exitpoint": ["exitpoint-1"]}
    (up.data / "shape.json").write_text(json.dumps(names))
    process = up.start(STUB_COORDINATOR="1")
    _, error = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "belongs to accesspoint-1, matcher-2, exitpoint-1" in error
    assert "has no configuration" in error


def keep(up: Scaled, matcher: str, content: Configuration | bytes) -> None:
    """As that matcher did when it followed it."""
    file = up.data / matcher / kept_configuration.FILE
    file.parent.mkdir(parents=True)
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        kept_configuration.write(file, content)


def test_a_configuration_that_zookeeper_has_lost_is_put_back(up: Scaled) -> None:
    keep(up, "matcher-1", configured(1, "matcher-1"))
    keep(up, "matcher-4", configured(3, "matcher-4", "matcher-2"))
    process = up.bring_up()
    assert set(up.pids()) == {*OTHERS, "matcher-2", "matcher-4"}
    assert up.configuration() == configured(3, "matcher-4", "matcher-2")
    assert "restored epoch 3: matcher-4, matcher-2; routing broadcast" in up.said
    up.stop(process)
    up.stop(up.bring_up())
    assert "restored" not in up.said


def test_one_that_stands_in_a_zookeeper_of_others_is_left_alone_and_not_followed(up: Scaled) -> None:
    """What matcher-2 keeps would not be served, and nobody would know."""
    keep(up, "matcher-2", configured(3, "matcher-2"))
    up.configure(configured(1, "matcher-1"))
    process = up.start(STUB_COORDINATOR="1")
    _, error = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "matcher-2: it has epoch 1, and epoch 3 was in force already" in error
    assert "coordinator.restoring" in error
    assert up.configuration() == configured(1, "matcher-1")


def test_one_that_has_gone_on_since_is_followed(up: Scaled) -> None:
    keep(up, "matcher-2", configured(1, "matcher-2"))
    up.configure(configured(3, "matcher-1"))
    process = up.bring_up()
    assert set(up.pids()) == {*OTHERS, "matcher-1"}
    up.stop(process)


def test_a_copy_in_pieces_is_not_passed_over_when_it_is_needed(up: Scaled) -> None:
    keep(up, "matcher-1", configured(1, "matcher-1"))
    keep(up, "matcher-2", b"")
    process = up.start(STUB_COORDINATOR="1")
    _, error = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "matcher-2/configuration.json" in error.replace("\n", "")
