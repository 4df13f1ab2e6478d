"""Forcing the logs of databases: which files are meant, and what may happen to them meanwhile."""

import os
from pathlib import Path

import pytest

from braid.forcing import force_logs


def test_all_logs_below_are_forced_but_for_what_is_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "000003.log",
        "dual/10-5/000007.log",
        "dual/10-5/000005.ldb",
        "trash/x/1.log",
        "damaged/1/2.log",
        "LOG",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    forced: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda file: forced.append(os.readlink(f"/proc/self/fd/{file}")))
    assert force_logs(tmp_path) == 2
    assert sorted(forced) == sorted(str(tmp_path / name) for name in ("000003.log", "dual/10-5/000007.log"))


def test_a_log_that_is_gone_meanwhile_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "1.log").write_bytes(b"x")

    def gone(path: str, flags: int) -> int:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "open", gone)
    assert force_logs(tmp_path) == 0
    assert force_logs(tmp_path / "nowhere") == 0
