"""`kill -9` in a loop: what was acknowledged is there afterwards."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from services.matcher.storage.records import Kind
from tests.core.storage.cases import LAYOUTS, NOW_S, everything
from tests.core.storage.writer import SETTINGS

ROUNDS = 5


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_whatever_was_acknowledged_is_there_after_kill_9(tmp_path: Path, layout: str) -> None:
    chance = random.Random(layout)
    root = tmp_path / "storage"
    there: set[int] = set()
    gone: set[int] = set()
    perhaps: set[int] = set()  # was to be removed when the process was killed
    first = 0
    for _ in range(ROUNDS):
        command = [sys.executable, "-m", "tests.core.storage.writer", layout, str(root), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline()
            time.sleep(chance.uniform(0.1, 0.7))
            child.kill()
            lines = child.stdout.read().split("\n")
        # The last line may be cut off.
        there |= {first + 1} | {int(line[1:]) for line in lines[:-1] if line.startswith("+")}
        gone |= {int(line[1:]) for line in lines[:-1] if line.startswith("-")}
        perhaps |= {int(line[1:]) for line in lines[:-1] if line.startswith("?")}
        first = max(there) + 10
    now_s = NOW_S + first / 1000 + 60
    storage = LAYOUTS[layout](root, SETTINGS, now_s)
    assert storage.damages == []
    subscriptions = {int(one.record.id[1:]) for one in everything(storage, Kind.SUBSCRIPTION, now_s, 1000)}
    publications = {int(one.record.id[1:]) for one in everything(storage, Kind.PUBLICATION, now_s, 1000)}
    storage.close()
    assert len(there) > 100
    assert len(perhaps - gone) <= ROUNDS
    assert there - perhaps <= subscriptions
    assert not gone & subscriptions
    assert there <= publications
