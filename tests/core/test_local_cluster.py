"""The cluster of benchmarks and tests: what is done before it starts, and when it counts as started."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import local_cluster


def test_the_engine_is_compiled_before_the_wait_for_the_cluster_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program = f"open({str(tmp_path / 'compiled')!r}, 'w'); print('matching: 9.1 s')"
    monkeypatch.setattr(local_cluster, "compiler_arguments", lambda: [sys.executable, "-c", program])
    local_cluster._compile()
    assert (tmp_path / "compiled").exists()
    assert capfd.readouterr() == ("", "compiling the matching engine (once on a machine, about half a minute)\n")
    monkeypatch.setattr(local_cluster, "compiler_arguments", lambda: [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(subprocess.CalledProcessError):
        local_cluster._compile()


def test_a_cluster_without_slices_is_not_ready(tmp_path: Path) -> None:
    assert not local_cluster._is_ready(tmp_path)
    (tmp_path / "cluster.json").write_text(json.dumps({"api": [], "slices": {}}))
    assert not local_cluster._is_ready(tmp_path)
    (tmp_path / "cluster.json").write_text(json.dumps({"api": [], "slices": {"connpoint-1": 1}}))
    assert not local_cluster._is_ready(tmp_path)
