"""Two matchers: however their messages interleave and links break, each subscription ends on exactly its owner."""

import random
from functools import partial

import pytest

from braid.topology import REVERSIBLE
from tests.core.matcher_handover import NAMES, Handover

ONE, OTHER, BOTH = NAMES[:1], NAMES[1:], NAMES
SIDES = [(ONE, BOTH), (BOTH, ONE), (BOTH, OTHER), (ONE, OTHER), (BOTH, BOTH)]
BREAKS_MAX = 40
BREAKS = (0.0, 0.02, 0.2, 0.2)  # at each step
REPEATED_STEPS = 400  # whole handovers have about 160 steps


def hand_over(seed: int) -> None:
    chosen = random.Random(seed)
    handover = Handover(*chosen.choice(SIDES))
    gives_up_at = chosen.choice([None, None, chosen.randint(0, 150)])
    breaks = chosen.choice(BREAKS)
    steps = 0
    while actions := handover.actions():
        change = handover.configuration.change
        if steps == gives_up_at and change is not None and change.phase in REVERSIBLE:
            handover.give_up()
            actions = handover.actions()
        if handover.breaks < BREAKS_MAX and chosen.random() < breaks:
            actions["a link breaks"] = handover.break_link
        choice = chosen.randrange(1 << 16)
        if handover.may_call():
            actions["somebody calls"] = partial(handover.call_any, choice)
        if handover.may_repeat() and steps < REPEATED_STEPS:
            actions["somebody calls again"] = partial(handover.repeat, choice)
        actions[chosen.choice(sorted(actions))]()
        steps += 1
        handover.check()
    handover.check_end()


@pytest.mark.parametrize("seed", range(60))
def test_each_subscription_ends_on_exactly_its_owner(seed: int) -> None:
    hand_over(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", [*range(60, 200, 20), *range(50_000, 50_400, 20)])
def test_each_subscription_ends_on_exactly_its_owner_many_times(first: int) -> None:
    for seed in range(first, first + 20):
        hand_over(seed)
