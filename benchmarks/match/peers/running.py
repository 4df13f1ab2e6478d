"""Runs the driver of another matcher over files with the subscriptions and publications of a workload."""

import subprocess
import tempfile
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.match.peers.building import Peer
from benchmarks.match.peers.rules import UntranslatableError
from benchmarks.match.source import Source

CHECKED_EVENTS = 100  # whose matches are compared with those of Braid's index
_PATIENCE_S = 180  # beyond the time that building and measuring may take


class PeerResult(msgspec.Struct, kw_only=True):
    peer: str
    workload: str
    size: int
    missing: str = ""  # why there are no numbers
    build_s: float = 0
    events_per_s: float = 0
    matches_per_event: float = 0
    processor_share: float = 0  # 1.0 is one core
    checked_matches: int = 0
    bytes_per_subscription: int = 0


class _Printed(msgspec.Struct):
    added: int
    built: bool
    build_s: float = 0
    events_per_s: float = 0
    matches_per_event: float = 0
    processor_share: float = 0
    checked_matches: int = 0
    bytes_per_subscription: int = 0


class Task(NamedTuple):
    workload: str
    size: int
    events: int
    seconds: float
    build_s_max: float


def run(peer: Peer, command: list[str], source: Source, task: Task) -> PeerResult:
    result = PeerResult(peer=peer.name, workload=task.workload, size=task.size)
    with tempfile.TemporaryDirectory(prefix="braid-") as directory:
        rules_file, events_file = Path(directory) / "rules", Path(directory) / "events"
        try:
            with rules_file.open("wb") as rules:
                for record in islice(source.subscriptions(), task.size):
                    rules.write(peer.translate(record.filter) + b"\n")
        except UntranslatableError as error:
            result.missing = str(error)
            return result
        events_file.write_bytes(b"".join(content + b"\n" for content in source.contents(task.events)))
        arguments = [rules_file, events_file, task.seconds, task.build_s_max, CHECKED_EVENTS]
        limit_s = task.build_s_max + 2 * task.seconds + _PATIENCE_S
        try:
            done = subprocess.run(
                [*command, *map(str, arguments)], capture_output=True, text=True, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            result.missing = f"neither built nor measured within {limit_s:g} s"
            return result
    return _read(done, result, task)


def _read(done: subprocess.CompletedProcess[str], result: PeerResult, task: Task) -> PeerResult:
    if done.returncode:
        errors = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
        result.missing = f"failed: {errors[0]}"
        return result
    printed = msgspec.json.decode(done.stdout, type=_Printed)
    if not printed.built:
        result.missing = f"not built within {task.build_s_max:g} s: {printed.added:,} of {task.size:,} rules"
        return result
    for field in _Printed.__struct_fields__[2:]:
        setattr(result, field, getattr(printed, field))
    return result
