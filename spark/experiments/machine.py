"""What was measured on, and which code."""

import hashlib
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import psutil

from braid.version import VERSION

TREE = Path(__file__).parents[2]
RUNS = (
    "benchmarks",
    "braid",
    "coordinator",
    "services",
    "spark",
    "pyproject.toml",
)  # of a tree: what a cell depends on


def machine() -> dict[str, object]:
    return {
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "braid": VERSION,
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def commit_of(tree: Path = TREE) -> str:
    """Of the tree this runs from; code that is not committed gives another name. Without a commit, the version."""
    try:
        commit = _git(tree, "rev-parse", "--short=10", "HEAD").decode().strip()
        changes = _changes(tree)
    except (OSError, subprocess.CalledProcessError):
        return f"version-{VERSION}"
    return f"{commit}-changed-{hashlib.sha256(changes).hexdigest()[:6]}" if changes else commit


def code_of(tree: Path = TREE) -> str:
    """The same as long as a cell would run the same code, whatever else is committed meanwhile."""
    try:
        found = _git(tree, "ls-tree", "HEAD", "--", *RUNS) + _changes(tree)
    except (OSError, subprocess.CalledProcessError):
        return VERSION
    return hashlib.sha256(found).hexdigest()


def _changes(tree: Path) -> bytes:
    """Against the commit: what differs, and what Git does not know of."""
    changes = _git(tree, "diff", "HEAD", "--", *RUNS)
    for name in _git(tree, "ls-files", "-z", "--others", "--exclude-standard", "--", *RUNS).split(b"\0"):
        if name:
            changes += name + b"\0" + hashlib.sha256((tree / os.fsdecode(name)).read_bytes()).digest()
    return changes


def _git(tree: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=tree, capture_output=True, check=True).stdout
