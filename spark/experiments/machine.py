"""What was measured on, and which code."""

import hashlib
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import psutil

from braid.version import VERSION


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


def commit_of(tree: Path = Path(__file__).parents[2]) -> str:
    """Of the tree this runs from; what is not committed in it gives another name. Without a commit, the version."""
    try:
        commit = _git(tree, "rev-parse", "--short=10", "HEAD").decode().strip()
        changes = _git(tree, "diff", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return f"version-{VERSION}"
    return f"{commit}-changed-{hashlib.sha256(changes).hexdigest()[:6]}" if changes else commit


def _git(tree: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=tree, capture_output=True, check=True).stdout
