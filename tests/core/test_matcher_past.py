"""Questions for kept publications at the matcher: each is searched for when it has come through every access point."""

import math

import pytest

from braid.messages import FindPublications, PublicationsFound, Send
from services.matcher import core as core_module
from services.matcher import past as past_module
from services.matcher.core import MatcherCore
from services.matcher.effects import Effects, Search
from services.matcher.past import Past
from services.matcher.scaling_states import State
from tests.core.kept_cases import kept, on_topic, question, request, topics_kept_by, under_way
from tests.core.matcher_cases import CONFIGURATION, match
from tests.core.matcher_scaling_cases import cut, matcher, sender
from tests.core.scaling_cases import ENDED, GIVEN_UP, NEW, NEW_EPOCH, OLD_EPOCH, during, to

FIRST, SECOND = "accesspoint-1", "accesspoint-2"
BOTH = (FIRST, SECOND)
OWN = on_topic(topics_kept_by(NEW, "matcher-1", 1)[0])


def keeper() -> MatcherCore:
    core = MatcherCore("matcher-1", lambda: 999, keeps_publications=True)
    core.on_configuration(CONFIGURATION)
    return core


def ask(core: MatcherCore, asked: FindPublications, *accesspoints: str) -> Effects:
    return [effect for name in accesspoints for effect in core.on_find_publications(name, asked)]


def searches(effects: Effects) -> list[Search]:
    return [effect for effect in effects if isinstance(effect, Search)]


# The barrier


def test_a_question_is_searched_for_when_all_access_points_have_brought_it() -> None:
    past, asked = Past(), question(accesspoints=("a", "b", "c"))
    assert [past.on_question(name, asked) for name in ("b", "a", "b", "c")] == [False, False, False, True]


def test_of_one_access_point_it_is_searched_for_at_once() -> None:
    assert Past().on_question("a", question(accesspoints=("a",)))


def test_asked_again_while_it_is_searched_for_it_is_not_searched_for_twice() -> None:
    past, asked = Past(), question(accesspoints=("a", "b"))
    assert [past.on_question(name, asked) for name in ("a", "b", "a", "b")] == [False, True, False, False]
    past.on_over(asked)
    assert [past.on_question(name, asked) for name in ("a", "b")] == [False, True]


def test_asked_again_before_all_have_brought_it_counts_as_the_same() -> None:
    past, asked = Past(), question(accesspoints=("a", "b"))
    assert [past.on_question(name, asked) for name in ("a", "a", "b")] == [False, False, True]


def test_what_two_connection_points_ask_is_apart() -> None:
    past = Past()
    one, other = (question(7, connpoint=name, accesspoints=("a", "b")) for name in ("connpoint-1", "connpoint-2"))
    assert [past.on_question("a", one), past.on_question("b", other)] == [False, False]
    assert [past.on_question("b", one), past.on_question("a", other)] == [True, True]
    past.on_over(one)
    assert past.on_question("a", other) is False  # is still searched for


def test_two_questions_of_one_connection_point_are_apart() -> None:
    past = Past()
    asked = [question(ref, accesspoints=("a", "b")) for ref in (1, 2)]
    assert [past.on_question("a", asked[0]), past.on_question("b", asked[1])] == [False, False]


def test_what_comes_under_two_epochs_never_makes_a_whole() -> None:
    past = Past()
    old, new = (question(epoch=epoch, accesspoints=("a", "b")) for epoch in (1, 2))
    assert [past.on_question("a", old), past.on_question("b", new)] == [False, False]
    assert past.on_question("a", new)


def test_of_too_many_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_module, "QUESTIONS_MAX", 3)
    past = Past()
    asked = [question(ref, accesspoints=("a", "b")) for ref in range(5)]
    assert not any(past.on_question("a", one) for one in asked)
    assert [past.on_question("b", one) for one in asked[2:]] == [True, True, True]
    assert [past.on_question("b", one) for one in asked[:2]] == [False, False]
    assert [past.on_question("a", one) for one in asked[:2]] == [True, True]


# At the matcher


def test_the_answer_goes_through_the_access_point_that_was_last() -> None:
    core, asked = keeper(), question(7, accesspoints=BOTH)
    assert ask(core, asked, FIRST) == []
    (search,) = ask(core, asked, SECOND)
    assert search == Search(SECOND, asked, {})
    answer = PublicationsFound(1, 7, "connpoint-1", "matcher-1", [kept(3), kept(2)], {}, 1.25, 2)
    assert core.on_searched(search, [kept(3), kept(2)], 1.25) == [Send(SECOND, [answer])]


def test_the_answer_says_what_is_confirmed_and_what_is_under_way() -> None:
    core = keeper()
    match(core, request(5, OWN, previous=4, watermark=3))
    (search,) = ask(core, question(7), FIRST)
    assert search.under_way == {"connpoint-1.a": under_way(3, {5: 4})}
    match(core, request(6, OWN, previous=5, watermark=5))  # while it is searched for
    ((answer,),) = [send.messages for send in core.on_searched(search, [kept(6), kept(5)], None)]
    assert answer.under_way == {"connpoint-1.a": under_way(3, {5: 4})}
    assert answer.found == [kept(6), kept(5, is_confirmed=True)]
    assert answer.reached_s is None


def test_a_question_that_found_no_room_can_be_asked_again() -> None:
    core, asked = keeper(), question()
    (search,) = ask(core, asked, FIRST)
    assert ask(core, asked, FIRST) == []
    core.on_not_searched(search)
    assert ask(core, asked, FIRST) == [search]


def test_a_question_that_was_answered_can_be_asked_again() -> None:
    """Its answer may have been lost with a link."""
    core, asked = keeper(), question()
    (search,) = ask(core, asked, FIRST)
    core.on_searched(search, [], None)
    assert ask(core, asked, FIRST) == [search]


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_question_of_another_epoch_is_not_answered(epoch: int) -> None:
    core = keeper()
    assert ask(core, question(epoch=epoch), FIRST) == []
    assert core.stale == 1


def test_a_matcher_that_keeps_nothing_has_nothing_under_way() -> None:
    core = MatcherCore("matcher-1", lambda: 999)
    core.on_configuration(CONFIGURATION)
    assert ask(core, question(from_s=-math.inf), FIRST) == [Search(FIRST, question(), {})]


# Scalings


def test_a_question_of_the_new_epoch_waits_for_the_cut() -> None:
    core, asked = sender(State.READY, keeps=True), question(epoch=NEW_EPOCH, accesspoints=BOTH)
    assert ask(core, asked, *BOTH) == []
    assert searches(cut(core, FIRST)) == []
    assert searches(cut(core, SECOND)) == [Search(SECOND, asked, {})]


def test_the_question_waits_behind_the_requests_that_came_before_it() -> None:
    core, asked = sender(State.READY, keeps=True), question(epoch=NEW_EPOCH)
    (keep,) = match(core, request(7, OWN, epoch=NEW_EPOCH))
    assert keep.batches[0].sequence == 7
    assert ask(core, asked, FIRST) == []
    (search,) = searches(cut(core))
    assert search.under_way == {"connpoint-1.a": under_way(0, {7: 0})}


def test_a_question_of_the_old_epoch_is_answered_until_the_end() -> None:
    for state in list(State)[:-1]:
        core, asked = sender(state, keeps=True), question(epoch=OLD_EPOCH)
        assert ask(core, asked, FIRST) == [Search(FIRST, asked, {})]
    assert ask(sender(State.ENDED, keeps=True), question(epoch=OLD_EPOCH), FIRST) == []


def test_one_that_comes_or_leaves_is_asked_like_the_others() -> None:
    target, asked = to(matchers=("matcher-2",)), question(epoch=OLD_EPOCH)
    for name in ("matcher-1", "matcher-2"):
        core = matcher(name, keeps=True)
        core.on_configuration(during("copying", target))
        assert ask(core, asked, FIRST) == [Search(FIRST, asked, {})]


def test_too_many_questions_before_the_cut_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "QUESTIONS_MAX", 2)
    core = sender(State.READY, keeps=True)
    for ref in range(4):
        ask(core, question(ref, epoch=NEW_EPOCH), FIRST)
    assert [search.question.ref for search in searches(cut(core))] == [0, 1]
    assert len(ask(core, question(3, epoch=NEW_EPOCH), FIRST)) == 1


def test_questions_that_waited_are_dropped_with_the_scaling() -> None:
    core = sender(State.READY, keeps=True)
    ask(core, question(epoch=NEW_EPOCH), FIRST)
    assert searches(core.on_configuration(GIVEN_UP)) == []
    assert core.stale == 1


def test_questions_that_waited_are_searched_for_when_the_scaling_is_over() -> None:
    core = sender(State.READY, keeps=True)
    ask(core, question(epoch=NEW_EPOCH), FIRST)
    assert len(searches(core.on_configuration(ENDED))) == 1
