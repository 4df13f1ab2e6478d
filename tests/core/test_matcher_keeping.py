"""The matcher keeps publications: nothing of a batch leaves it before what is kept of the batch is on disk."""

from typing import Any

from braid.messages import Partial, Send
from services.matcher.core import REQUESTS_KEPT_S_MAX, MatcherCore
from services.matcher.effects import Keep
from services.matcher.scaling_states import State
from tests.core.kept_cases import batch, on_topic, request, topics_kept_by
from tests.core.matcher_cases import CONFIGURATION, NOW, match, record
from tests.core.matcher_scaling_cases import at_cut, cut, sender
from tests.core.scaling_cases import GIVEN_UP, NEW, NEW_EPOCH, OLD_EPOCH

OWN, FOREIGN = (
    on_topic(topics_kept_by(NEW, name, 1)[0]) for name in ("matcher-1", "matcher-2")
)  # two matchers share them the same way here and in the scaling


def matcher() -> MatcherCore:
    core = MatcherCore("matcher-1", lambda: 999, keeps_publications=True)
    core.on_recovered([record("s-1")])
    core.on_configuration(CONFIGURATION)
    return core


def sequences(effects: list[Any]) -> list[tuple[str, int]]:
    """Exit point and sequence of every partial."""
    sends = [effect for effect in effects if isinstance(effect, Send)]
    return [(send.to, m.sequence) for send in sends for m in send.messages if isinstance(m, Partial)]


def test_a_partial_leaves_when_its_batch_is_kept() -> None:
    core = matcher()
    assert match(core, request(7, OWN, FOREIGN, OWN, previous=6)) == [
        Keep(1, [batch(7, OWN, OWN, previous=6, places=[0, 2])])
    ]
    matched = [("connpoint-1", [(place, ["s-1"], content) for place, content in enumerate((OWN, FOREIGN, OWN))])]
    assert core.on_kept(1) == [
        Send("exitpoint-1", [Partial(1, "connpoint-1.a", 7, 6, 0, 0, 2, "matcher-1", matched)]),
    ]
    assert core.on_kept(1) == []


def test_what_others_keep_leaves_at_once() -> None:
    core = matcher()
    assert sequences(match(core, request(7, FOREIGN))) == [("exitpoint-1", 7)]


def test_what_others_keep_does_not_overtake_what_is_to_be_kept() -> None:
    core = matcher()
    first = match(core, request(7, OWN), request(8, FOREIGN), request(9, OWN, publisher=1))
    assert first == [Keep(1, [batch(7, OWN), batch(9, OWN)])]
    assert match(core, request(10, FOREIGN), request(11, FOREIGN, publisher=1)) == []
    (second,) = match(core, request(12, OWN))
    assert sequences(core.on_kept(1)) == [
        *[("exitpoint-1", 7), ("exitpoint-1", 8), ("exitpoint-2", 9)],
        *[("exitpoint-1", 10), ("exitpoint-2", 11)],
    ]
    assert sequences(core.on_kept(second.ticket)) == [("exitpoint-1", 12)]
    assert sequences(match(core, request(13, FOREIGN))) == [("exitpoint-1", 13)]


def test_a_matcher_that_does_not_keep_sends_at_once() -> None:
    core = MatcherCore("matcher-1", lambda: 999)
    core.on_configuration(CONFIGURATION)
    assert sequences(match(core, request(7, OWN))) == [("exitpoint-1", 7)]


def test_what_is_not_answered_is_not_kept() -> None:
    core = matcher()
    assert match(core, request(7, OWN, epoch=2), request(8, OWN, epoch=0)) == []
    assert core.stale == 2
    assert sequences(match(core, request(9, FOREIGN))) == [("exitpoint-1", 9)]


def test_before_any_configuration_nothing_is_kept() -> None:
    core = MatcherCore("matcher-1", lambda: 999, keeps_publications=True)
    assert match(core, request(7, OWN)) == []
    assert core.stale == 1


# Scalings


def test_the_cut_for_exit_points_stays_behind_the_partials_before_it() -> None:
    core = sender(State.READY, keeps=True)
    assert match(core, request(7, OWN, epoch=OLD_EPOCH)) == [Keep(1, [batch(7, OWN)])]
    assert core.on_change_matcher_on_exit_point("accesspoint-1", at_cut("accesspoint-1")) == []
    partial, forwarded = core.on_kept(1)
    assert sequences([partial]) == [("exitpoint-1", 7)]
    assert forwarded == Send("exitpoint-1", [at_cut("accesspoint-1")])


def test_the_cut_goes_on_at_once_where_nothing_waits() -> None:
    core = sender(State.READY, keeps=True)
    forwarded = [Send("exitpoint-1", [at_cut("accesspoint-1")])]
    assert core.on_change_matcher_on_exit_point("accesspoint-1", at_cut("accesspoint-1")) == forwarded


def test_a_request_that_waits_for_the_cut_is_kept_when_it_comes() -> None:
    """A question for the past that comes behind it must find it, whenever the cut is."""
    core = sender(State.READY, keeps=True)
    assert match(core, request(7, OWN, epoch=NEW_EPOCH)) == [Keep(1, [batch(7, OWN)])]
    assert core.on_kept(1) == []
    assert sequences(cut(core)) == [("exitpoint-1", 7)]


def test_a_request_that_waited_for_the_cut_waits_for_the_disk_too() -> None:
    core = sender(State.READY, keeps=True)
    match(core, request(7, OWN, epoch=NEW_EPOCH))
    assert sequences(cut(core)) == []
    assert sequences(core.on_kept(1)) == [("exitpoint-1", 7)]


def test_nobody_waits_for_the_cut_for_ever_but_for_the_disk() -> None:
    core = sender(State.READY, keeps=True)
    assert len(match(core, request(7, OWN, epoch=NEW_EPOCH))) == 1
    assert core.on_tick(NOW + REQUESTS_KEPT_S_MAX + 1) == []
    assert sequences(core.on_kept(1)) == [("exitpoint-1", 7)]


def test_both_epochs_are_kept_each_by_its_own_map() -> None:
    """In the old epoch there is one matcher, which keeps all."""
    core = sender(State.READY, keeps=True)
    effects = match(core, request(7, FOREIGN, epoch=OLD_EPOCH), request(8, FOREIGN, OWN, epoch=NEW_EPOCH))
    assert effects == [Keep(1, [batch(7, FOREIGN)]), Keep(2, [batch(8, OWN, places=[1])])]
    assert sequences(core.on_kept(1)) == [("exitpoint-1", 7)]


def test_a_scaling_that_is_given_up_leaves_what_was_kept_for_it() -> None:
    """The batch comes again, and the same is kept under the old epoch."""
    core = sender(State.READY, keeps=True)
    match(core, request(7, OWN, epoch=NEW_EPOCH))
    assert sequences(core.on_configuration(GIVEN_UP)) == []
    assert core.on_kept(1) == []
    assert match(core, request(7, OWN, epoch=OLD_EPOCH)) == [Keep(2, [batch(7, OWN)])]
    assert sequences(core.on_kept(2)) == [("exitpoint-1", 7)]
