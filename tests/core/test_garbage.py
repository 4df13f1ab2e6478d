"""Collections of garbage are told as what they are: steps in which nothing else runs."""

import gc

from braid import garbage


def test_each_collection_is_told_with_its_generation_until_nobody_watches() -> None:
    told: list[tuple[str, float]] = []
    unwatch = garbage.watch(lambda step, seconds: told.append((step, seconds)))
    try:
        gc.collect(1)
    finally:
        unwatch()
    gc.collect(1)
    steps = [step for step, _ in told if step == "garbage 1"]
    assert steps == ["garbage 1"]
    assert all(seconds >= 0 for _, seconds in told)
