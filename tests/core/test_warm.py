"""The engine is compiled once, ahead of time, and asking whether it was costs next to nothing."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from braid.matching import compiled
from braid.matching.warm import main

USE_EVERYTHING = """
import sys
from numba.core.dispatcher import Dispatcher
from braid.matching.warm import main

main([])
for name, module in sorted(sys.modules.items()):
    if name.startswith("braid.matching.engine."):
        for function in vars(module).values():
            if isinstance(function, Dispatcher) and function.py_func.__module__ == name and function.stats.cache_path:
                print(f"entry {function.py_func.__name__} {len(function.signatures)}")
"""


def run(program: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=100,
    ).stdout


@pytest.mark.slow
def test_everything_is_compiled_and_once() -> None:
    entries = [line.split() for line in run(USE_EVERYTHING).splitlines() if line.startswith("entry ")]
    assert {"change", "read_batch", "resolve", "search", "keys_of_boxes"} <= {name for _, name, _ in entries}
    assert [(name, count) for _, name, count in entries if count != "1"] == []
    assert compiled.is_complete()


def test_asking_does_not_import_numba(tmp_path: Path) -> None:
    program = """
import sys
from braid.matching.warm import main

print(main(["--check"]), [name for name in ("numba", "numpy", "llvmlite") if name in sys.modules])
"""
    assert run(program, XDG_CACHE_HOME=str(tmp_path)) == "1 []\n"
    complete = "from braid.matching.compiled import completing\nwith completing(): pass"
    run(complete, XDG_CACHE_HOME=str(tmp_path))
    assert run(program, XDG_CACHE_HOME=str(tmp_path)) == "0 []\n"


def test_what_fails_is_not_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(RuntimeError), compiled.completing():
        raise RuntimeError("it does not compile")
    assert main(["--check"]) == 1


def test_one_process_compiles_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with compiled.completing(), open(compiled.cache_directory() / "lock") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_latest_three_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kernels = compiled.cache_directory().parent
    for age in range(5):
        old = kernels / f"{age:016x}"
        (old / "inner").mkdir(parents=True)
        os.utime(old, (1000 - age, 1000 - age))
    (kernels / "something else").mkdir()
    with compiled.completing():
        pass
    assert {path.name for path in kernels.iterdir()} == {
        compiled.cache_directory().name,
        f"{0:016x}",
        f"{1:016x}",
        "something else",
    }


def test_what_was_compiled_for_a_copy_of_the_sources_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code of both would be found in the same directory, but not by the functions of the other."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with compiled.completing():
        pass
    assert compiled.is_complete()
    copy = tmp_path / "engine"
    shutil.copytree(compiled._SOURCES, copy)
    directory = compiled.cache_directory()
    monkeypatch.setattr(compiled, "_SOURCES", copy)
    assert compiled.cache_directory() == directory
    assert not compiled.is_complete()
