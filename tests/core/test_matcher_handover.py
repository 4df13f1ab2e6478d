"""Two matchers: however their messages interleave and links break, each subscription ends on exactly its owner."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.matcher import transfer as transfer_module
from tests.core.matcher_handover import NAMES, Handover

ONE, OTHER, BOTH = NAMES[:1], NAMES[1:], NAMES
BREAKS_MAX = 4


@pytest.fixture(autouse=True, scope="module")
def small_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer_module, "CHUNK_RECORDS_MAX", 2)
        patch.setattr(transfer_module, "LOOKS_AT_ONCE", 5)
        yield


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    sides=st.sampled_from([(ONE, BOTH), (BOTH, ONE), (BOTH, OTHER), (ONE, OTHER), (BOTH, BOTH)]),
    choices=st.lists(st.integers(0, 1 << 16), max_size=120),
    gives_up_at=st.one_of(st.none(), st.integers(0, 60)),
)
def test_each_subscription_ends_on_exactly_its_owner(
    sides: tuple[tuple[str, ...], tuple[str, ...]], choices: list[int], gives_up_at: int | None
) -> None:
    handover = Handover(*sides)
    for number, choice in enumerate(choices):
        change = handover.configuration.change
        if number == gives_up_at and change is not None and change.phase == "moving":
            handover.give_up()
        actions = handover.actions()
        if handover.breaks < BREAKS_MAX:
            actions["a link breaks"] = handover.break_link
        names = sorted(actions)
        if not names:
            break
        actions[names[choice % len(names)]]()
        handover.check()
    while actions := handover.actions():
        next(iter(actions.values()))()
        handover.check()
    handover.check_end()
