"""The matcher's part when it leaves: neither copied nor drained before others have what it kept."""

import pytest
from msgspec.structs import replace

from braid.messages import HandOverPrevious, HandOverPublications, PublicationsHandedOver, Send
from braid.scaling import ReportStep
from braid.topology import Configuration, Phase
from services.matcher.core import MatcherCore
from services.matcher.departing import AGAIN_S
from services.matcher.effects import Continue, Effects, ExpectForeign, Keep, KeepForeign, ReadKept
from services.matcher.scaling_states import State
from services.matcher.storage.records import Cursor
from tests.core.kept_cases import batch, request
from tests.core.matcher_cases import match
from tests.core.matcher_scaling_cases import (
    NOTHING_REMEMBERED,
    acknowledge,
    cut,
    end,
    matcher,
    settle,
    start,
    take_previous,
    unsubscribe,
)
from tests.core.scaling_cases import CHANGE, ENDED, GIVEN_UP, IDS, NEW_EPOCH, OLD_EPOCH, SETTLED, during, record, to

LEAVING = to(matchers=("matcher-2",))
STORED = [batch(7, b"{}", b"{}"), batch(8, b"{}")]
DONE, DRAINED = ReportStep(CHANGE, "done"), ReportStep(CHANGE, "drained")
SOMEWHERE = Cursor("dual/10-5", b"key")


def part(number: int, *batches: object) -> HandOverPublications:
    return HandOverPublications(NEW_EPOCH, number, list(batches))  # type: ignore[arg-type]  # kept batches


def hand_over(core: MatcherCore, number: int, epoch: int = NEW_EPOCH) -> Effects:
    return core.scaling.on_publications_handed_over("matcher-2", PublicationsHandedOver(epoch, number))


def steps(effects: Effects) -> list[str]:
    return [effect.step for effect in effects if isinstance(effect, ReportStep)]


def leaving(*, keeps: bool = True) -> tuple[MatcherCore, Effects]:
    """matcher-1, whose subscriptions are all stored by matcher-2."""
    core = matcher("matcher-1", IDS, keeps=keeps)
    effects = core.on_configuration(during("copying", LEAVING))
    return core, acknowledge(core, settle(core, effects))


def changed() -> MatcherCore:
    """It has read everything, one part is under way, everybody has passed the cut, and it remembers nothing."""
    core, _ = leaving()
    core.scaling.on_kept_read(STORED, None)
    core.on_configuration(during("moving", LEAVING))
    acknowledge(core, settle(core, start(core)))
    core.on_configuration(during("changing", LEAVING))
    assert steps(cut(core)) == ["done"]
    assert take_previous(core) == []
    return core


def test_it_begins_to_read_with_the_copy() -> None:
    core = matcher("matcher-1", keeps=True)
    assert core.on_configuration(during("copying", LEAVING)) == [ExpectForeign(True), Continue(), ReadKept(None)]


def test_it_is_copied_when_it_has_read_all() -> None:
    core, effects = leaving()
    assert steps(effects) == []
    assert core.scaling.on_kept_read(STORED, SOMEWHERE) == [Send("matcher-2", [part(1, *STORED)]), ReadKept(SOMEWHERE)]
    progress = {"moved": float(len(IDS)), "publications_handed_over": 0.0}
    assert core.scaling.on_kept_read([], None) == [ReportStep(CHANGE, "copied", progress)]
    hand_over(core, 1)
    assert core.scaling.progress() == progress | {"publications_handed_over": 3.0}


def test_what_it_keeps_meanwhile_is_handed_over_behind_it() -> None:
    core, _ = leaving()
    core.scaling.on_kept_read(STORED, None)
    new = batch(9, b"{}")
    effects = match(core, request(9, b"{}", epoch=OLD_EPOCH))
    assert effects == [Keep(1, [new]), Send("matcher-2", [part(2, new)])]


def test_it_keeps_nothing_of_the_new_epoch() -> None:
    core = changed()
    (send,) = match(core, request(9, b"{}", epoch=NEW_EPOCH))
    assert send.to == "exitpoint-1"


def test_it_is_drained_when_all_is_handed_over() -> None:
    core = changed()
    assert steps(end(core)) == []
    assert hand_over(core, 1) == [Continue(), DRAINED]
    assert core.scaling.state is State.ENDED


def test_what_came_last_is_handed_over_too_before_it_is_drained() -> None:
    core = changed()
    hand_over(core, 1)
    match(core, request(9, b"{}", epoch=OLD_EPOCH))
    assert steps(end(core)) == []
    assert steps(hand_over(core, 2)) == ["drained"]


def test_all_handed_over_it_is_drained_when_everybody_says_the_end() -> None:
    core = changed()
    assert hand_over(core, 1) == []
    assert end(core) == [Continue(), DRAINED]


def test_what_another_scaling_handed_over_is_not_what_this_one_waits_for() -> None:
    core = changed()
    end(core)
    assert hand_over(core, 1, NEW_EPOCH - 1) == hand_over(core, 1, OLD_EPOCH) == []
    assert core.scaling.state is State.CHANGED


def test_a_link_that_broke_gets_again_what_is_under_way() -> None:
    core = changed()
    last = HandOverPrevious(NEW_EPOCH, 2, 2, {}, True)  # it may have been started again, and wait for it
    assert core.scaling.on_peer_up("matcher-2") == [Send("matcher-2", [part(1, *STORED)]), Send("matcher-2", [last])]
    hand_over(core, 1)
    assert core.scaling.on_peer_up("matcher-2") == [Send("matcher-2", [replace(last, number=3, first=3)])]


@pytest.mark.parametrize("configuration", [GIVEN_UP, ENDED], ids=["given up", "ended"])
def test_when_the_scaling_is_over_nothing_more_is_handed_over(configuration: Configuration) -> None:
    core, _ = leaving()
    core.on_configuration(configuration)
    assert core.scaling.on_kept_read(STORED, None) == []
    assert core.scaling.progress() == {}
    assert hand_over(core, 1) == core.scaling.on_peer_up("matcher-2") == []


# Who does not depart


@pytest.mark.parametrize(
    ("name", "matchers"),
    [("matcher-1", ("matcher-1", "matcher-2")), ("matcher-2", ("matcher-2",)), ("matcher-9", ("matcher-2",))],
    ids=["stays", "comes", "is no matcher"],
)
def test_one_that_does_not_leave_reads_nothing(name: str, matchers: tuple[str, ...]) -> None:
    core = matcher(name, keeps=True)
    effects = settle(core, core.on_configuration(during("copying", to(matchers=matchers))))
    assert not any(isinstance(effect, ReadKept) for effect in effects)
    assert core.scaling.on_kept_read(STORED, None) == []


def test_one_that_keeps_no_publications_has_none_to_hand_over() -> None:
    _, effects = leaving(keeps=False)
    assert steps(effects) == ["copied"]
    assert not any(isinstance(effect, ReadKept) for effect in effects)


# Started again


def restarted(phase: Phase, name: str = "matcher-1") -> tuple[MatcherCore, Effects]:
    core = MatcherCore(name, lambda: 0, keeps_publications=True)
    core.on_recovered([record(id) for id in IDS], foreign_expected=True)
    return core, core.on_configuration(during(phase, LEAVING))


def test_started_again_in_changing_it_departs_from_its_disk() -> None:
    core, effects = restarted("changing")
    assert effects == [NOTHING_REMEMBERED, Continue(), ReadKept(None)]
    settle(core, effects)
    assert cut(core)[-1] == DONE
    take_previous(core)
    assert steps(end(core)) == []
    assert core.scaling.on_kept_read(STORED, None) == [Send("matcher-2", [part(1, *STORED)])]
    assert hand_over(core, 1) == [Continue(), DRAINED]


@pytest.mark.parametrize("phase", ["flushing", "ending"])
def test_started_again_later_it_departs_from_its_disk_too(phase: Phase) -> None:
    core, effects = restarted(phase)
    assert effects == [NOTHING_REMEMBERED, Continue(), ReadKept(None), DONE]
    take_previous(core)
    assert steps(end(core)) == []
    assert core.scaling.on_kept_read([], None) == [Continue(), DRAINED]


def test_one_that_stays_departs_not_when_it_is_started_again() -> None:
    _, effects = restarted("changing", "matcher-2")
    assert effects == [Continue()]


# Who receives


def test_subscriptions_that_are_remembered_are_remembered_by_whoever_gets_them() -> None:
    ended = [record("s-1", distinct=True, until_s=50.0)]
    core = matcher("matcher-2", keeps=True)
    effects = core.scaling.on_hand_over_publications("matcher-1", HandOverPublications(NEW_EPOCH, 1, [], ended))
    assert effects == [KeepForeign("matcher-1", NEW_EPOCH, 1, [], ended)]  # a start must find them again
    assert core.ended.all() == ended


def test_one_that_leaves_hands_over_the_subscriptions_it_remembers() -> None:
    core = matcher("matcher-1", keeps=True)
    ended = [record("s-1", distinct=True, until_s=50.0)]
    core.ended.add(ended)
    effects = core.on_configuration(during("copying", LEAVING))
    assert effects[-2:] == [Send("matcher-2", [HandOverPublications(NEW_EPOCH, 1, [], ended)]), ReadKept(None)]


def test_one_that_leaves_hands_over_subscriptions_that_end_meanwhile() -> None:
    ids = ("s-1", "s-2", "s-3")
    core = MatcherCore("matcher-1", lambda: 50 * 10**9, keeps_publications=True)
    core.on_recovered([record("s-1", distinct=True), record("s-2"), record("s-3", distinct=True, until_s=60.0)])
    core.on_configuration(SETTLED)
    core.on_configuration(during("copying", LEAVING))
    effects = [effect for id in ids[:2] for effect in unsubscribe(core, id)] + core.on_second(60.0)
    sent = [m for e in effects if isinstance(e, Send) for m in e.messages if isinstance(m, HandOverPublications)]
    assert sent == [
        HandOverPublications(NEW_EPOCH, 1, [], [record("s-1", distinct=True, until_s=50.0)]),
        HandOverPublications(NEW_EPOCH, 2, [], [record("s-3", distinct=True, until_s=60.0)]),
    ]


def test_one_that_leaves_sends_again_what_is_not_acknowledged() -> None:
    core = changed()
    sent = [effect for second in range(2 * AGAIN_S) for effect in core.on_second(float(second))]
    assert sent == [Send("matcher-2", [part(1, *STORED)])]


@pytest.mark.parametrize("configuration", [SETTLED, during("copying", LEAVING), during("ending", LEAVING), ENDED])
@pytest.mark.parametrize("epoch", [OLD_EPOCH, NEW_EPOCH])
def test_what_is_handed_over_is_kept_and_then_acknowledged_whenever_it_comes(
    configuration: Configuration, epoch: int
) -> None:
    core = matcher("matcher-2", configuration=configuration, keeps=True)
    for _ in range(2):
        keep, *_ = core.scaling.on_hand_over_publications("matcher-1", HandOverPublications(epoch, 3, STORED))
        assert keep == KeepForeign("matcher-1", epoch, 3, STORED)
        assert core.scaling.on_foreign_kept(keep) == [Send("matcher-1", [PublicationsHandedOver(epoch, 3)])]
