"""Two matchers in a scaling while subscriptions flow on: what comes, changes and ends is so afterwards."""

from typing import Any

import pytest

from braid.messages import (
    Calls,
    MatcherStateStored,
    Send,
    Subscribe,
)
from braid.scaling import ReportStep
from services.matcher.core import MatcherCore
from services.matcher.effects import Effects
from services.matcher.transfer import Pace
from tests.core.matcher_scaling_cases import (
    COMING,
    COMING_HERE,
    cut,
    end,
    settle,
    start,
    store_all,
    subscribe,
    unsubscribe,
)
from tests.core.scaling_cases import (
    ENDED,
    GIVEN_UP,
    IDS,
    MOVING,
    NEW_EPOCH,
    OLD_EPOCH,
    SETTLED,
    STAYING,
    during,
    record,
)


class Pair:
    """matcher-1 that sends and matcher-2 that receives, in step with each other; the disks are fast."""

    def __init__(self, pace: Pace | None = None) -> None:
        self.old = MatcherCore("matcher-1", lambda: 0, pace)
        self.new = MatcherCore("matcher-2", lambda: 0, pace)
        self.old.on_recovered([record(id) for id in IDS])
        for core in (self.old, self.new):
            core.on_configuration(SETTLED)
        self.under_way: list[Any] = []
        self.reports: list[tuple[str, str]] = []
        self.enter("copying")

    def enter(self, phase: Any) -> None:
        for core in (self.old, self.new):
            self.do(core, core.on_configuration(during(phase)))

    def do(self, core: MatcherCore, effects: Effects) -> None:
        """Keeps what is to be continued, and what is sent to the other one."""
        name = "matcher-1" if core is self.old else "matcher-2"
        for effect in store_all(core, effects):
            if isinstance(effect, ReportStep):
                self.reports.append((name, effect.step))
            elif isinstance(effect, Send) and effect.to in ("matcher-1", "matcher-2"):
                self.under_way += effect.messages

    def step(self) -> bool:
        """One look, and what was sent before it arrives. False when there was nothing to do."""
        messages, self.under_way = self.under_way, []
        for message in messages:
            if isinstance(message, MatcherStateStored):
                self.do(self.old, self.old.scaling.on_matcher_state_stored("matcher-2", message))
            else:
                self.do(self.new, self.new.scaling.on_add_matcher_state("matcher-1", message))
        effects = self.old.on_continue()
        self.do(self.old, effects)
        return bool(messages or effects)

    def copy(self) -> None:
        while self.step():
            pass

    def end(self) -> None:
        """From the copy to the end of the scaling."""
        self.copy()
        self.enter("moving")
        for core in (self.old, self.new):
            self.do(core, start(core))
        self.copy()
        assert self.reports == [(name, step) for step in ("copied", "change-ready") for name in self._order(step)]
        for phase in ("changing", "flushing", "ending"):
            self.enter(phase)
            if phase == "changing":
                cut(self.old)
                cut(self.new, old=False)
        for core in (self.old, self.new):
            settle(core, [*end(core), *core.on_configuration(ENDED)])
        assert self.old.scaling.violations == self.new.scaling.violations == 0

    def _order(self, step: str) -> list[str]:
        return [name for name, reported in self.reports if reported == step]

    def kept(self) -> dict[str, tuple[str, str]]:
        """By id: where it is kept and its filter; each only once."""
        found = [(id, name, core) for name, core in (("old", self.old), ("new", self.new)) for id in core.index.ids()]
        assert len(found) == len({id for id, _, _ in found})
        return {id: (name, known.filter) for id, name, core in found if (known := core.index.get(id)) is not None}


UNTOUCHED = {**dict.fromkeys(STAYING, ("old", "")), **dict.fromkeys(MOVING, ("new", ""))}


# From the call to the end of the scaling


@pytest.mark.parametrize("steps", range(8))
def test_what_comes_changes_and_ends_while_it_copies_is_so_afterwards(steps: int) -> None:
    pair = Pair(Pace(looks=12, chunk_records_max=3, changes_left_max=1))
    for _ in range(steps):
        pair.step()
    for ref, id in enumerate([COMING, COMING_HERE, MOVING[0], MOVING[-1], STAYING[0]], 1):
        pair.do(pair.old, subscribe(pair.old, id, f"n = {ref}", ref=ref))
    for ref, id in enumerate([MOVING[1], MOVING[-2], STAYING[1]], 11):
        pair.do(pair.old, unsubscribe(pair.old, id, ref=ref))
    pair.do(pair.old, unsubscribe(pair.old, MOVING[2], ref=21))
    pair.do(pair.old, subscribe(pair.old, MOVING[2], "n = 22", ref=22))
    pair.do(pair.old, subscribe(pair.old, MOVING[3], "n = 23", ref=23))
    pair.do(pair.old, unsubscribe(pair.old, MOVING[3], ref=24))
    pair.end()
    expected = UNTOUCHED | {
        COMING: ("new", "n = 1"),
        COMING_HERE: ("old", "n = 2"),
        MOVING[0]: ("new", "n = 3"),
        MOVING[-1]: ("new", "n = 4"),
        STAYING[0]: ("old", "n = 5"),
        MOVING[2]: ("new", "n = 22"),
    }
    for id in (MOVING[1], MOVING[-2], STAYING[1], MOVING[3]):
        del expected[id]
    assert pair.kept() == expected


@pytest.mark.parametrize("before_phase", [True, False])
def test_what_changes_behind_the_copy_until_start_scale_is_so_afterwards(before_phase: bool) -> None:
    pair = Pair()
    pair.copy()
    if not before_phase:
        pair.enter("moving")  # access points send on what they had before they heard of it
        pair.old.scaling.on_start_scale("accesspoint-2", NEW_EPOCH)
    pair.do(pair.old, subscribe(pair.old, COMING, ref=1))
    pair.do(pair.old, subscribe(pair.old, MOVING[0], "n = 2", ref=2))
    pair.do(pair.old, unsubscribe(pair.old, MOVING[1], ref=3))
    pair.end()
    expected = UNTOUCHED | {COMING: ("new", "n = 1"), MOVING[0]: ("new", "n = 2")}
    del expected[MOVING[1]]
    assert pair.kept() == expected


def test_what_ends_by_its_time_while_it_is_copied_is_gone_on_both_sides() -> None:
    pair = Pair()
    ending = record(MOVING[0], until_s=7.0)
    pair.do(pair.old, pair.old.on_subscribe("accesspoint-1", Subscribe(OLD_EPOCH, 1, "connpoint-1", ending)))
    pair.copy()
    for core in (pair.old, pair.new):
        pair.do(core, core.on_second(8.0))
    pair.end()
    pair.new.on_second(9.0)  # what was looked at before it ended may have come behind
    expected = dict(UNTOUCHED)
    del expected[MOVING[0]]
    assert pair.kept() == expected


def test_given_up_changes_that_came_meanwhile_stay_where_they_were_made() -> None:
    pair = Pair()
    pair.copy()
    pair.do(pair.old, subscribe(pair.old, COMING, ref=1))
    pair.do(pair.old, subscribe(pair.old, MOVING[0], "n = 2", ref=2))
    pair.do(pair.old, unsubscribe(pair.old, MOVING[1], ref=3))
    for core in (pair.old, pair.new):
        settle(core, core.on_configuration(GIVEN_UP))
    expected = dict.fromkeys(IDS, ("old", "")) | {COMING: ("old", "n = 1"), MOVING[0]: ("old", "n = 2")}
    del expected[MOVING[1]]
    assert pair.kept() == expected


@pytest.mark.parametrize("copied_before", [True, False])
def test_calls_go_the_whole_way(copied_before: bool) -> None:
    pair = Pair()
    if copied_before:
        pair.copy()
    pair.do(pair.old, subscribe(pair.old, COMING, ref=5))
    pair.do(pair.old, unsubscribe(pair.old, COMING, ref=6))
    pair.do(pair.old, subscribe(pair.old, STAYING[0], ref=7))
    pair.end()
    assert pair.new.calls.of(COMING) == Calls("connpoint-1", {"connpoint-1": 6})
    assert pair.new.calls.of(STAYING[0]) is None
    subscribe(pair.new, COMING, ref=5, epoch=NEW_EPOCH)
    assert COMING not in pair.new.index
