"""The files of one slice: whole, named by what they hold, and bounded."""

import os
from pathlib import Path

import pytest

from braid import metrics
from braid.telemetry.backlog import Line
from braid.telemetry.sample_files import SampleFiles
from braid.telemetry.totals import total_of


def files(root: Path, slice: str = "matcher-1", incarnation: int = 7, **bounds: float) -> SampleFiles:
    given = {"bytes_max": 10_000, "s_max": 100.0, **bounds}
    made = SampleFiles(root, slice, incarnation, bytes_max=int(given["bytes_max"]), s_max=given["s_max"])
    made.open()
    return made


def lines(first: int, count: int, size: int = 3) -> list[Line]:
    return [Line(first + n, b"x" * size) for n in range(count)]


def names(root: Path, slice: str = "matcher-1") -> list[str]:
    return sorted(path.name for path in (root / slice).iterdir())


def dropped(reason: str) -> int:
    return total_of(metrics.TELEMETRY_DROPPED, reason=reason)


def test_a_file_is_named_by_its_samples_and_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = files(tmp_path)
    written.write(lines(1, 2))
    (path,) = (tmp_path / "matcher-1").iterdir()
    assert (path.name, path.read_bytes()) == ("7-0000000001-2.ndjson", b"xxx\nxxx\n")

    def fail(*_: object) -> None:
        raise OSError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="killed here"):
            written.write(lines(3, 2))
    assert names(tmp_path) == [".7-0000000003-2.ndjson", "7-0000000001-2.ndjson"]  # readers pass by the first
    files(tmp_path, incarnation=8)
    assert names(tmp_path) == ["7-0000000001-2.ndjson"]


def test_the_oldest_go_when_there_are_too_many_bytes(tmp_path: Path) -> None:
    before = dropped("no room")
    written = files(tmp_path, bytes_max=100)
    for first in (1, 4, 7):
        written.write(lines(first, 3, size=12))  # 39 bytes
    assert names(tmp_path) == ["7-0000000004-3.ndjson", "7-0000000007-3.ndjson"]
    assert dropped("no room") - before == 3
    assert metrics.TELEMETRY_FILE_BYTES._value.get() == 78
    again = files(tmp_path, incarnation=8, bytes_max=100)  # those of the process before count, too
    again.write(lines(1, 2, size=12))
    assert names(tmp_path) == ["7-0000000007-3.ndjson", "8-0000000001-2.ndjson"]
    again.write(lines(3, 1, size=1000))  # one that is too large itself stays nowhere
    assert names(tmp_path) == []


def test_what_is_too_old_goes_also_of_slices_that_have_left(tmp_path: Path) -> None:
    files(tmp_path, "matcher-9").write(lines(1, 4))
    files(tmp_path).write(lines(1, 2))
    for path in tmp_path.glob("*/*"):
        os.utime(path, (1000, 1000))
    before = dropped("old")
    now = files(tmp_path, incarnation=8)
    assert (names(tmp_path), names(tmp_path, "matcher-9")) == ([], [])
    assert dropped("old") - before == 6
    now.write(lines(1, 1))
    assert names(tmp_path) == ["8-0000000001-1.ndjson"]


def test_a_directory_that_was_removed_is_made_again(tmp_path: Path) -> None:
    written = files(tmp_path)
    written.write(lines(1, 1))
    (tmp_path / "matcher-1" / "7-0000000001-1.ndjson").unlink()
    (tmp_path / "matcher-1").rmdir()
    written.write(lines(2, 1))
    assert names(tmp_path) == ["7-0000000002-1.ndjson"]
