"""What a matcher keeps of the configuration, what it refuses, and what is put back."""

from pathlib import Path

import msgspec
import pytest

from braid import kept_configuration
from braid.anchor_map import AnchorMap
from braid.kept_configuration import Following, UnreadableConfiguration, contradiction, newest, settled
from braid.topology import Change, Configuration, Phase, Target
from coordinator.restoring import newest_kept, refusals

FIRST = Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))
SECOND = Configuration(2, ("accesspoint-1",), ("matcher-1", "matcher-2"), ("exitpoint-1",), epochs=2)
MAP = AnchorMap(2, {7: 0, 11: 1})


def changing(phase: Phase) -> Configuration:
    to = Target(2, SECOND.accesspoints, SECOND.matchers, SECOND.exitpoints)
    return msgspec.structs.replace(FIRST, change=Change("scaling-1", phase, to, {}))


def test_what_is_kept_is_what_is_in_force() -> None:
    assert settled(FIRST) == msgspec.structs.replace(FIRST, epochs=1)
    assert settled(changing("moving")) == msgspec.structs.replace(FIRST, epochs=2)
    assert settled(changing("changing")) == SECOND


@pytest.mark.parametrize("found", [SECOND, msgspec.structs.replace(SECOND, epoch=3), changing("flushing")])
def test_what_follows_is_no_contradiction(found: Configuration) -> None:
    assert contradiction(SECOND, settled(found)) == ""


@pytest.mark.parametrize(
    "found",
    [
        FIRST,
        changing("copying"),
        msgspec.structs.replace(SECOND, matchers=("matcher-1", "matcher-3")),
        msgspec.structs.replace(SECOND, routing="anchored"),
        msgspec.structs.replace(SECOND, routing="anchored", map=MAP),
    ],
)
def test_what_lies_behind_or_says_something_else_is_one(found: Configuration) -> None:
    assert contradiction(SECOND, settled(found)) != ""


def test_an_abort_goes_back_to_what_was_in_force() -> None:
    assert contradiction(settled(changing("moving")), settled(FIRST)) == ""


def test_the_newest_is_the_one_with_the_highest_epoch() -> None:
    again = msgspec.structs.replace(SECOND, epochs=4)
    assert newest([SECOND, again, FIRST]) == again
    assert newest([]) is None


def test_it_comes_back_with_its_map(tmp_path: Path) -> None:
    mapped = msgspec.structs.replace(SECOND, routing="anchored", map=MAP)
    file = tmp_path / kept_configuration.FILE
    assert kept_configuration.read(file) is None
    kept_configuration.write(file, mapped)
    assert kept_configuration.read(file) == mapped
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("content", [b"", b"{", b'{"configuration": {}, "maps": {}}', b'{"maps": {"aa": "YQ=="}}'])
def test_something_else_in_the_file_is_not_guessed_at(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / kept_configuration.FILE
    file.write_bytes(content)
    with pytest.raises(UnreadableConfiguration, match=kept_configuration.FILE):
        kept_configuration.read(file)


def test_a_configuration_whose_map_is_missing_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / kept_configuration.FILE
    kept_configuration.write(file, msgspec.structs.replace(SECOND, routing="anchored", map=MAP))
    content = msgspec.json.decode(file.read_bytes())
    file.write_bytes(msgspec.json.encode({**content, "maps": {}}))
    with pytest.raises(UnreadableConfiguration, match="missing"):
        kept_configuration.read(file)


def test_one_that_is_started_again_refuses_what_lies_behind(tmp_path: Path) -> None:
    file = tmp_path / kept_configuration.FILE
    following = Following(file)
    following.open()
    assert following.objection(FIRST) == ""
    following.follow(FIRST)
    following.follow(changing("changing"))
    again = Following(file)
    again.open()
    assert "epoch 2 was in force" in again.objection(FIRST)
    assert again.objection(SECOND) == ""


def test_pieces_refuse_nothing_and_a_disk_that_fails_stops_nobody(tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / kept_configuration.FILE
    following = Following(file)
    following.follow(SECOND)
    assert following.objection(FIRST) == ""  # what is not on disk was not kept
    file.parent.mkdir()
    file.write_bytes(b"")
    following.open()
    assert following.objection(FIRST) == ""
    following.follow(SECOND)
    assert kept_configuration.read(file) == SECOND


def test_it_is_written_only_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / kept_configuration.FILE
    following = Following(file)
    following.follow(changing("changing"))
    file.unlink()
    following.follow(changing("flushing"))
    following.follow(SECOND)
    assert not file.exists()


def test_of_all_matchers_the_newest_is_put_back(tmp_path: Path) -> None:
    assert newest_kept(tmp_path) is None
    for name, configuration in (("matcher-1", FIRST), ("matcher-2", SECOND), ("accesspoint-1", FIRST)):
        (tmp_path / name).mkdir()
        kept_configuration.write(tmp_path / name / kept_configuration.FILE, configuration)
    assert newest_kept(tmp_path) == SECOND
    (tmp_path / "matcher-1" / kept_configuration.FILE).write_bytes(b"")
    with pytest.raises(UnreadableConfiguration, match="matcher-1"):
        newest_kept(tmp_path)


def test_those_that_would_refuse_are_named_before_they_are_started(tmp_path: Path) -> None:
    for name, configuration in (("matcher-1", FIRST), ("matcher-2", SECOND), ("matcher-3", SECOND)):
        (tmp_path / name).mkdir()
        kept_configuration.write(tmp_path / name / kept_configuration.FILE, configuration)
    assert refusals(tmp_path, SECOND) == {}
    reason = "it has epoch 1, and epoch 2 was in force already"
    assert refusals(tmp_path, FIRST) == {"matcher-2": reason, "matcher-3": reason}
    (tmp_path / "matcher-3" / kept_configuration.FILE).write_bytes(b"")
    assert refusals(tmp_path, changing("copying")) == {"matcher-2": reason}
