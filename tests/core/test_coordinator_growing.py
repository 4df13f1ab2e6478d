"""Which slices a launcher starts and stops, and what it remembers of the shape of its cluster."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from braid.config import Slices
from braid.scaling import Ask, ScalingRecord
from braid.topology import Change, Configuration, Phase, Target
from coordinator import shape
from coordinator.data_directory import DataDirectory, DataDirectoryRefused
from coordinator.growing import IDLE_S, Idling, is_needed, left_out, wanted
from coordinator.shape import Shape, ShapeRefused

CONFIGURED = Configuration(4, ("accesspoint-1",), ("matcher-1", "matcher-3"), ("exitpoint-1",))
SHAPE: Shape = {"accesspoint": ("accesspoint-1",), "matcher": ("matcher-1", "matcher-3"), "exitpoint": ("exitpoint-1",)}
RECORD = ScalingRecord("scaling-1", Ask({"matcher": 3}), 1.0, wants=("matcher-2", "matcher-4"))
RUNNING = ["connpoint-1", "accesspoint-1", "matcher-1", "matcher-2", "matcher-3", "exitpoint-1"]


def changing(phase: Phase) -> Configuration:
    to = Target(5, ("accesspoint-1",), ("matcher-1", "matcher-2"), ("exitpoint-1",))
    return replace(CONFIGURED, change=Change("scaling-1", phase, to, {}))


def test_what_a_scaling_wants_is_started_once() -> None:
    assert wanted(CONFIGURED, RECORD, RUNNING, []) == ["matcher-4"]
    assert wanted(CONFIGURED, None, RUNNING, []) == []


def test_what_was_being_stopped_when_a_scaling_took_it_in_is_started_again() -> None:
    running = [name for name in RUNNING if name != "matcher-2"]
    assert wanted(CONFIGURED, None, running, ["matcher-2"]) == []
    assert wanted(changing("changing"), None, running, ["matcher-2"]) == ["matcher-2"]
    assert wanted(changing("changing"), None, running, []) == []  # it runs elsewhere


@pytest.mark.parametrize(
    "name", ["connpoint-2", "matcher", "matcher-0", "matcher-1/../x", "../matcher-1", "zookeeper-1"]
)
def test_only_names_of_slices_are_started(name: str) -> None:
    assert wanted(CONFIGURED, replace(RECORD, wants=(name,)), [], []) == []


def test_what_nobody_has_a_use_for_is_stopped_when_nothing_changes() -> None:
    assert left_out(CONFIGURED, None, RUNNING) == ["matcher-2"]
    assert left_out(CONFIGURED, RECORD, RUNNING) == []
    assert left_out(changing("ending"), None, RUNNING) == []
    assert left_out(None, None, RUNNING) == []


def test_what_is_in_force_is_needed() -> None:
    assert is_needed(CONFIGURED, "matcher-3")
    assert not is_needed(CONFIGURED, "matcher-2")
    assert is_needed(changing("changing"), "matcher-2")
    assert not is_needed(changing("moving"), "matcher-2")
    assert is_needed(CONFIGURED, "connpoint-7")
    assert is_needed(CONFIGURED, "coordinator")
    assert is_needed(None, "matcher-2")


def test_a_start_in_the_middle_of_a_change_needs_both_sides() -> None:
    assert shape.in_force(changing("moving"))["matcher"] == ("matcher-1", "matcher-3")
    assert shape.in_force(changing("changing"))["matcher"] == ("matcher-1", "matcher-2")
    assert shape.taking_part(changing("ending"))["matcher"] == ("matcher-1", "matcher-3", "matcher-2")


def test_the_shape_is_kept_by_name(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    assert data.read_shape() is None
    data.keep_shape(SHAPE)
    assert json.loads((tmp_path / "shape.json").read_text())["matcher"] == ["matcher-1", "matcher-3"]
    assert DataDirectory(tmp_path).read_shape() == SHAPE
    (tmp_path / "shape.json").unlink()
    data.keep_shape(SHAPE)
    assert data.read_shape() is None, "what did not change is not written again"


def test_the_shape_of_earlier_versions_is_understood(tmp_path: Path) -> None:
    (tmp_path / "shape.json").write_text('{"accesspoint": 1, "matcher": 2, "exitpoint": 1}')
    assert DataDirectory(tmp_path).read_shape() == shape.numbered(Slices(matcher=2))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"matcher": 2}',
        '{"accesspoint": 1, "matcher": 0, "exitpoint": 1}',
        '{"accesspoint": 1, "matcher": ["matcher-1", "../x"], "exitpoint": 1}',
        '{"accesspoint": 1, "matcher": ["exitpoint-1"], "exitpoint": 1}',
        '{"accesspoint": 1, "matcher": "many", "exitpoint": 1}',
    ],
)
def test_a_shape_that_cannot_be_read_is_not_guessed(tmp_path: Path, content: str) -> None:
    (tmp_path / "shape.json").write_text(content)
    with pytest.raises(DataDirectoryRefused, match=r"shape.json cannot be read .*another --data"):
        DataDirectory(tmp_path).read_shape()


def test_other_numbers_than_the_data_was_made_for_are_refused_and_braid_scale_is_named() -> None:
    shape.check_asked(SHAPE, {}, "the data")
    shape.check_asked(SHAPE, {"matcher": 2}, "the data")
    with pytest.raises(ShapeRefused) as refused:
        shape.check_asked(SHAPE, {"accesspoint": 1, "matcher": 3, "exitpoint": 2}, "the data")
    assert str(refused.value) == (
        "the data was made for accesspoint=1,matcher=2,exitpoint=1, and matcher=3,exitpoint=2 is asked. "
        "Start it without --slices, then change it while it runs: braid scale matcher=3 exitpoint=2. "
        "Or choose another --data directory"
    )


def test_data_that_was_scaled_needs_the_zookeeper_that_knows_it() -> None:
    shape.check_first(shape.numbered(Slices(matcher=2)), "the data", "the cluster")
    with pytest.raises(
        ShapeRefused, match="belongs to accesspoint-1, matcher-1, matcher-3, exitpoint-1, but the cluster"
    ):
        shape.check_first(SHAPE, "the data", "the cluster")


def test_who_is_left_out_may_be_wanted_again_at_once_and_is_stopped_later() -> None:
    idling = Idling()
    assert idling.long_enough(["matcher-2"], 10.0) == ([], 10.0 + IDLE_S)
    assert idling.long_enough(["matcher-2", "matcher-4"], 11.0) == ([], 10.0 + IDLE_S)
    assert idling.long_enough(["matcher-2", "matcher-4"], 10.0 + IDLE_S) == (["matcher-2"], 11.0 + IDLE_S)
    assert idling.long_enough(["matcher-2"], 10.0 + IDLE_S) == (["matcher-2"], None)


def test_who_was_wanted_meanwhile_may_rest_anew() -> None:
    idling = Idling()
    idling.long_enough(["matcher-2"], 10.0)
    assert idling.long_enough([], 11.0) == ([], None)
    assert idling.long_enough(["matcher-2"], 12.0) == ([], 12.0 + IDLE_S)
