"""Builds the drivers of the other matchers outside of the project, or says why that is not possible here."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.match.peers import rules

_HERE = Path(__file__).parent
_BUILD_S_MAX = 600
_REASON_LINES = 3


class MissingError(Exception):
    """A matcher that cannot be built here; the text is what the tool printed."""


class Peer(NamedTuple):
    name: str
    translate: rules.Translator
    build: Callable[[Path], list[str]]  # takes a directory for what comes out, gives the command of the driver


def _event_ruler(out: Path) -> list[str]:
    java, maven = _tool("java"), _tool("mvn")
    _run([maven, "-q", "-B", "-f", str(_HERE / "event_ruler" / "pom.xml"), f"-Dout={out}", "compile"], _HERE)
    classes = os.pathsep.join((str(out / "classes"), str(out / "lib" / "*")))
    return [java, "-XX:+UseSerialGC", "-XX:MaxRAMPercentage=50", "-cp", classes, "Driver"]


def _go(name: str) -> Callable[[Path], list[str]]:
    def build(out: Path) -> list[str]:
        go = _tool("go")
        # A copy, because Go writes the checksums of what it fetched next to the sources.
        out.mkdir(parents=True, exist_ok=True)
        for file in (_HERE / "measure.go", *(_HERE / name).iterdir()):
            shutil.copy(file, out)
        _run([go, "mod", "tidy"], out)
        _run([go, "build", "-o", "driver", "."], out)
        return [str(out / "driver")]

    return build


PEERS = (
    Peer("event-ruler", rules.event_ruler, _event_ruler),
    Peer("hypermatch", rules.hypermatch, _go("hypermatch")),
    Peer("quamina", rules.quamina, _go("quamina")),
)


def build(peer: Peer) -> list[str]:
    """The command that runs the driver, or `MissingError`."""
    return peer.build(_cache() / peer.name)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "braid" / "peers"


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingError(f"'{name}' is not installed")
    return found


def _run(command: list[str], directory: Path) -> None:
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=_BUILD_S_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise MissingError(f"'{Path(command[0]).name}' took longer than {_BUILD_S_MAX} s") from None
    if done.returncode:
        printed = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in printed if line.startswith("[ERROR]")] or printed[-_REASON_LINES:]
        raise MissingError(" / ".join(errors[:_REASON_LINES]) or f"'{command[0]}' ended with {done.returncode}")
