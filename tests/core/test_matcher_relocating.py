"""When a scaling is over, a matcher that stays sees to it that what it keeps comes to its keeper."""

from typing import Any

import pytest
from msgspec.structs import replace

from braid.anchor_map import AnchorMap
from braid.messages import HandOverPublications, PublicationsHandedOver, Send
from braid.topology import Configuration, Target
from services.matcher.core import MatcherCore
from services.matcher.effects import Continue, Effects, ExpectForeign, KeepForeign, ReadKept, RemoveKept
from services.matcher.relocating import REMOVE_AFTER_S
from services.matcher.storage.records import Cursor
from tests.core.kept_cases import batch, on_topic, topics_kept_by
from tests.core.matcher_scaling_cases import settle
from tests.core.scaling_cases import ENDED, NEW, NEW_EPOCH, OLD_EPOCH, SETTLED, TARGET, during

OWN, OTHERS = (on_topic(topics_kept_by(NEW, name, 1)[0]) for name in ("matcher-1", "matcher-2"))
KEPT = [batch(1, OWN), batch(2, OTHERS)]
SOMEWHERE = Cursor("dual/10-5", b"key")


def matcher(*, foreign: bool = True, keeps: bool = True, name: str = "matcher-1", configuration: Any = ENDED) -> Any:
    """One that has started, perhaps in the middle of it."""
    core = MatcherCore(name, lambda: 0, keeps_publications=keeps)
    core.on_recovered([], foreign_expected=foreign)
    return core, settle(core, core.on_configuration(configuration))


def relocated(core: MatcherCore, reader: int = 0, number: int = 1) -> Effects:
    """It reads all, and the other one stores all."""
    assert core.on_tick(1.0) == [ReadKept(None, reader)]
    part = HandOverPublications(NEW_EPOCH, number, KEPT[1:])
    assert core.scaling.on_kept_read(KEPT, None, reader) == [Send("matcher-2", [part])]
    return core.scaling.on_publications_handed_over("matcher-2", PublicationsHandedOver(NEW_EPOCH, number))


def test_a_scaling_that_is_over_begins_it() -> None:
    core, _ = matcher(foreign=False, configuration=SETTLED)
    assert core.on_tick(0.0) == []
    core.on_configuration(during("copying"))
    assert core.on_tick(0.5) == []  # not while the scaling runs
    settle(core, core.on_configuration(ENDED))
    assert relocated(core) == []
    assert core.scaling.kept.handed_over == 1


def test_a_start_in_the_middle_of_it_begins_it_anew() -> None:
    core, effects = matcher()
    assert effects == []  # the mark stays
    assert relocated(core) == []


def test_the_mark_goes_when_all_is_removed() -> None:
    core, _ = matcher()
    relocated(core)
    core.on_tick(2.0)
    assert core.on_tick(2.0 + REMOVE_AFTER_S) == [ReadKept(None, 0)]
    assert core.scaling.kept.is_relocating
    effects = core.scaling.on_kept_read(KEPT, None, 0)
    assert effects == [RemoveKept(KEPT[1:]), Continue()]
    assert settle(core, effects) == [RemoveKept(KEPT[1:]), ExpectForeign(False)]
    assert not core.scaling.kept.is_relocating
    assert core.scaling.kept.removed == 1


def test_the_next_scaling_stops_it_and_its_end_begins_it_anew() -> None:
    core, _ = matcher()
    core.on_tick(1.0)
    core.scaling.on_kept_read(KEPT, SOMEWHERE, 0)
    core.on_configuration(during("copying", settled=ENDED, target=replace(TARGET, epoch=NEW_EPOCH + 1)))
    assert core.on_tick(2.0) == core.scaling.on_kept_read(KEPT, None, 0) == []
    assert core.scaling.on_peer_up("matcher-2") == []
    core.on_configuration(ENDED)
    # What was read or acknowledged before counts for nothing now.
    (reading,) = core.on_tick(3.0)
    assert reading.after is None
    assert reading.reader > 0
    assert core.scaling.on_kept_read([], None, 0) == []
    (sent,) = core.scaling.on_kept_read(KEPT, None, reading.reader)
    assert sent.messages[0].number == 2
    core.scaling.on_publications_handed_over("matcher-2", PublicationsHandedOver(NEW_EPOCH, 1))
    assert core.scaling.kept.left == 1
    core.scaling.on_publications_handed_over("matcher-2", PublicationsHandedOver(OLD_EPOCH, 2))
    assert core.scaling.kept.left == 1
    core.scaling.on_publications_handed_over("matcher-2", PublicationsHandedOver(NEW_EPOCH, 2))
    assert core.scaling.kept.left == 0


LEARNED = AnchorMap(2, {7: 1})
ANCHORED = replace(ENDED, routing="anchored")
MAPPED = replace(ANCHORED, epoch=NEW_EPOCH + 1, epochs=NEW_EPOCH + 1, map=LEARNED)
TO_MAPPED = Target(MAPPED.epoch, MAPPED.accesspoints, MAPPED.matchers, MAPPED.exitpoints, MAPPED.routing, MAPPED.map)


@pytest.mark.parametrize("end", [MAPPED, replace(ANCHORED, epochs=MAPPED.epoch)], ids=["ended", "given up"])
def test_another_map_lets_publications_lie_where_they_are(end: Configuration) -> None:
    core, _ = matcher(foreign=False, configuration=ANCHORED)
    assert ExpectForeign(True) in core.on_configuration(during("copying", settled=ANCHORED, target=TO_MAPPED))
    effects = settle(core, core.on_configuration(end))
    assert ExpectForeign(False) in effects
    assert core.on_tick(1.0) == []
    assert not core.scaling.kept.is_relocating


def test_what_had_not_found_its_keeper_before_another_map_came_is_brought_there_behind_it() -> None:
    core, _ = matcher(configuration=ANCHORED)
    core.on_configuration(during("copying", settled=ANCHORED, target=TO_MAPPED))
    settle(core, core.on_configuration(MAPPED))
    (reading,) = core.on_tick(1.0)
    assert reading.after is None
    assert core.scaling.kept.is_relocating


def test_a_start_behind_the_cut_to_another_map_trusts_nothing() -> None:
    core = MatcherCore("matcher-1", lambda: 0, keeps_publications=True)
    core.on_recovered([], foreign_expected=True)
    core.on_configuration(during("changing", settled=ANCHORED, target=TO_MAPPED))
    settle(core, core.on_configuration(MAPPED))
    assert core.on_tick(1.0) == [ReadKept(None, 0)]


def test_what_comes_from_somebody_who_knows_an_older_configuration_is_handed_on() -> None:
    core, _ = matcher(foreign=False)
    message = HandOverPublications(NEW_EPOCH - 1, 4, KEPT)
    effects = core.scaling.on_hand_over_publications("matcher-9", message)
    assert effects == [KeepForeign("matcher-9", NEW_EPOCH - 1, 4, KEPT), ExpectForeign(True)]
    assert relocated(core) == []


def test_what_comes_before_it_is_known_what_this_one_keeps_is_handed_on() -> None:
    """Started in the middle of a scaling, which is given up then. The mark is there before what it stands for."""
    core = MatcherCore("matcher-1", lambda: 0, keeps_publications=True)
    core.on_recovered([])
    came = KeepForeign("matcher-2", NEW_EPOCH, 4, KEPT)
    message = HandOverPublications(NEW_EPOCH, 4, KEPT)
    assert core.scaling.on_hand_over_publications("matcher-2", message) == [ExpectForeign(True), came]
    assert core.scaling.on_hand_over_publications("matcher-2", message) == [came]
    settle(core, core.on_configuration(ENDED))
    assert relocated(core) == []


def test_what_belongs_here_begins_nothing() -> None:
    core, _ = matcher(foreign=False)
    message = HandOverPublications(NEW_EPOCH, 4, KEPT[:1])
    assert len(core.scaling.on_hand_over_publications("matcher-2", message)) == 1
    assert core.on_tick(1.0) == []


@pytest.mark.parametrize(
    "given",
    [{"foreign": False}, {"keeps": False}, {"configuration": SETTLED}, {"name": "matcher-9"}],
    ids=["nothing was moved", "nothing is kept", "one matcher", "no matcher"],
)
def test_who_has_nothing_to_hand_over_reads_nothing(given: dict[str, Any]) -> None:
    core, effects = matcher(**given)
    assert effects in ([], [ExpectForeign(False)])
    assert core.on_tick(1.0) == []
    assert core.scaling.kept.receivers == []
