"""What a crash or a bad disk leaves of a matcher's store: what was acknowledged, but for what is said to be lost."""

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.core.kept_cases import batch, question
from tests.core.matching_cases import content, record
from tests.core.storage.test_damage import flip, largest
from tests.service.matcher_stores import Clock, Store, all_kept, found, keep, opened, put, reopened
from tests.service.watched_database import ignore

SUBSCRIPTIONS, BATCHES = 400, 300
NOW_S = 1000.0
ROUNDS = 3


async def fill(path: Path) -> None:
    store = await opened(path)
    for number in range(SUBSCRIPTIONS):
        given = record(f"s-{number:03}", f"n = {number} and text = '{'x' * 200}'", created_s=NOW_S - 1)
        store.put(given, is_new=True, done=ignore)
        if number < BATCHES:
            kept = batch(number, content({"n": number}, text="x" * 200), published_s=NOW_S - number / 100)
            store.keep([kept], ignore)
    await put(store, record("last", created_s=NOW_S - 1))
    await store.close()


async def numbers_kept(store: Store) -> set[int]:
    return {one.sequence for piece in await all_kept(store) for one in piece}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
async def test_a_bit_of_the_subscriptions_costs_a_few_of_them(tmp_path: Path, share: float) -> None:
    await fill(tmp_path)
    log = largest(tmp_path / "dual" / "base-0", ".log")
    flip(log, int(log.stat().st_size * share))
    store = await opened(tmp_path)
    (damage,) = store.damages
    assert damage.database == "dual/base-0"
    lost = SUBSCRIPTIONS + 1 - len(store.recovered)
    assert 0 < lost <= damage.lost_at_most
    assert damage.kept_at
    assert await numbers_kept(store) == set(range(BATCHES))
    await put(store, record("new", created_s=NOW_S - 1))
    known = store.recovered
    store = await reopened(store)
    assert store.damages == []
    assert store.recovered == sorted([*known, record("new", created_s=NOW_S - 1)], key=lambda one: one.id)
    await store.close()


async def test_a_bit_of_the_publications_costs_a_few_of_them(tmp_path: Path) -> None:
    await fill(tmp_path)
    (window,) = (path for path in (tmp_path / "dual").iterdir() if path.name != "base-0")
    log = largest(window, ".log")
    flip(log, log.stat().st_size // 2)
    store = await opened(tmp_path)
    assert len(store.recovered) == SUBSCRIPTIONS + 1
    left = await numbers_kept(store)
    (damage,) = store.damages
    assert damage.database == f"dual/{window.name}"
    assert 0 < BATCHES - len(left) <= damage.lost_at_most
    assert {sequence for sequence, _ in await found(store, question(limit=10 * BATCHES))} == left
    await keep(store, batch(BATCHES, b"{}", published_s=NOW_S))
    store = await reopened(store)
    assert store.damages == []
    assert await numbers_kept(store) == {*left, BATCHES}
    await store.close()


@pytest.mark.slow
def test_whatever_was_acknowledged_is_there_after_kill_9(tmp_path: Path) -> None:
    """Subscriptions, kept publications, and what is remembered for `prev`; what was erased is gone, what was changed is
    as it was changed.
    """
    chance = random.Random(1)
    told: set[str] = set()
    first = 0
    for _ in range(ROUNDS):
        command = [sys.executable, "-m", "tests.service.store_writer", str(tmp_path), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            lines = [child.stdout.readline().strip()]
            time.sleep(chance.uniform(0.1, 0.5))
            child.kill()
            lines += child.stdout.read().split("\n")[:-1]  # the last line may be cut off
        assert not [line for line in lines if line[:1] not in tuple("+-*kp")]
        told.update(lines)
        first = max(int(line[1:]) for line in told) + 1000  # beyond what was under way
    there, kept, remembered = asyncio.run(everything(tmp_path))

    def numbers(sign: str) -> set[int]:
        return {int(line[1:]) for line in told if line[0] == sign}

    assert len(numbers("+")) > 100
    # The next command may have been done although nobody was told.
    erased_perhaps = {number for number in numbers("+") if (number + 2) % 3 == 0 and number not in numbers("-")}
    assert numbers("+") - numbers("-") - erased_perhaps <= set(there)
    assert not numbers("-") & set(there)
    assert all(there[number] == "n = 4" for number in numbers("*") & set(there))
    assert {(number, place) for number in numbers("k") for place in (0, 1)} <= kept
    assert all(int(remembered[f"t{number % 7}"]) >= number for number in numbers("p"))


async def everything(path: Path) -> tuple[dict[int, str], set[tuple[int, int]], dict[str, bytes]]:
    """The filters of all subscriptions by their number, the places of all that is kept, and what is remembered."""
    store = await opened(path, Clock(time.time()))
    remembered = await store.read_previous()
    assert store.damages == []
    kept = {(one.sequence, place) for piece in await all_kept(store) for one in piece for place in one.places}
    there = {int(known.id[2:]): known.filter for known in store.recovered}
    await store.close()
    return there, kept, remembered
