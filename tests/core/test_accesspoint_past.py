"""Kept publications at the access point: whoever keeps one is asked to match it, and all are asked for the past."""

from msgspec.structs import replace

from braid.keeping import keepers_of
from braid.messages import Anchors, FindPublications, MatchRequest, Publications, PublicationsFound, Send
from braid.selector import selector_of
from braid.topology import Change, Configuration, Target
from services.accesspoint.core import AccessPointCore
from tests.core.kept_cases import ORIGIN, on_topic, question, topics_kept_by
from tests.core.matching_cases import content

FIRST, SECOND, THIRD = MATCHERS = ("matcher-1", "matcher-2", "matcher-3")
ANCHORED = Configuration(
    4, ("accesspoint-1", "accesspoint-2"), MATCHERS, ("exitpoint-1",), routing="anchored", epochs=4
)
NOW = 50.0
SELECTOR = selector_of(ANCHORED)
ON_FIRST, ON_SECOND, ON_THIRD = (on_topic(topics_kept_by(SELECTOR, name, 1)[0], n=1) for name in MATCHERS)
ASKED = question(7, epoch=1, accesspoints=())


def accesspoint(configuration: Configuration = ANCHORED, *, keeps: bool = True) -> AccessPointCore:
    """The second matcher has a subscription to `n = 1`, the others have none."""
    core = AccessPointCore("accesspoint-1", lambda: 999, keeps_publications=keeps)
    core.on_configuration(configuration, NOW)
    for matcher in MATCHERS:
        core.on_anchors(matcher, Anchors(0, 1, True, True, ["filter:n = 1"] if matcher == SECOND else [], []))
    return core


def publish(core: AccessPointCore, *contents: bytes) -> dict[str, MatchRequest]:
    sends = core.on_publications([Publications(4, ORIGIN, 7, 6, 2, 77, 1.5, list(contents))], NOW, 7)
    return {send.to: send.messages[0] for send in sends}


def parts(requests: dict[str, MatchRequest]) -> dict[str, list[int] | None]:
    assert {request.partials for request in requests.values()} == {len(requests)}
    assert {tuple(request.asked or ()) for request in requests.values()} == {tuple(sorted(requests))}
    return {matcher: request.places for matcher, request in requests.items()}


# Who must see a publication


def test_whoever_keeps_it_is_among_those_that_match_it() -> None:
    requests = publish(accesspoint(), ON_FIRST, ON_SECOND)
    assert parts(requests) == {FIRST: [0], SECOND: None}
    assert requests[FIRST].contents == [ON_FIRST]


def test_what_nobody_matches_goes_to_whoever_keeps_it() -> None:
    (one, other, without) = on_topic("ä"), on_topic("sports/soccer"), content()
    expected = keepers_of(SELECTOR, ORIGIN, 7, [one, other, without])
    assert parts(publish(accesspoint(), one, other, without)) == expected
    assert len(expected) == 3


def test_places_of_those_that_match_and_those_that_are_kept_come_together_in_order() -> None:
    assert parts(publish(accesspoint(), on_topic("sports/soccer"), ON_FIRST, ON_THIRD)) == {
        SECOND: None,  # keeps the first, matches the others
        FIRST: [1],
        THIRD: [2],
    }


def test_without_keepers_only_those_that_match_are_asked() -> None:
    assert parts(publish(accesspoint(keeps=False), ON_FIRST, content())) == {SECOND: [0]}


def test_under_broadcast_all_see_it_anyway() -> None:
    requests = publish(accesspoint(replace(ANCHORED, routing="broadcast")), ON_FIRST)
    assert {matcher: request.places for matcher, request in requests.items()} == dict.fromkeys(MATCHERS)


def test_the_number_of_the_attempt_goes_on() -> None:
    core = accesspoint()
    again = Publications(4, ORIGIN, 7, 6, 2, 77, 1.5, [ON_FIRST], None, 3)
    assert {send.messages[0].attempt for send in core.on_publications([again], NOW, 7)} == {3}


# Questions for the past


def test_a_question_goes_to_every_matcher_with_all_who_must_bring_it() -> None:
    expected = replace(ASKED, epoch=4, accesspoints=["accesspoint-1", "accesspoint-2"], asked=[*MATCHERS])
    assert accesspoint().on_find_publications(ASKED) == [Send(matcher, [expected]) for matcher in MATCHERS]


def test_while_a_scaling_runs_old_and_new_matchers_are_asked() -> None:
    target = Target(5, ("accesspoint-2",), (SECOND, "matcher-4"), ("exitpoint-1",), "anchored")
    core = accesspoint(replace(ANCHORED, change=Change("c", "copying", target, {})))
    sends = core.on_find_publications(ASKED)
    assert [send.to for send in sends] == [*MATCHERS, "matcher-4"]
    asked = [*MATCHERS, "matcher-4"]
    expected = replace(ASKED, epoch=4, accesspoints=["accesspoint-1", "accesspoint-2"], asked=asked)
    assert {send.messages[0] == expected for send in sends} == {True}
    core.on_configuration(replace(ANCHORED, epoch=5, epochs=5, matchers=(SECOND, "matcher-4")), NOW)
    assert [send.to for send in core.on_find_publications(ASKED)] == [SECOND, "matcher-4"]


def test_behind_the_cut_those_that_leave_must_bring_it_too() -> None:
    """They send in the new epoch what they held at the cut."""
    target = Target(5, ("accesspoint-1", "accesspoint-3"), MATCHERS, ("exitpoint-1",), "anchored")
    core = accesspoint(replace(ANCHORED, change=Change("c", "changing", target, {})))
    asked = core.on_find_publications(ASKED)[0].messages[0]
    assert (asked.epoch, asked.accesspoints) == (5, ["accesspoint-1", "accesspoint-2", "accesspoint-3"])
    core.on_configuration(replace(ANCHORED, epoch=5, epochs=5, accesspoints=target.accesspoints), NOW)
    asked = core.on_find_publications(ASKED)[0].messages[0]
    assert (asked.epoch, asked.accesspoints) == (5, ["accesspoint-1", "accesspoint-3"])


def test_before_any_configuration_a_question_is_dropped() -> None:
    core = AccessPointCore("accesspoint-1", lambda: 999, keeps_publications=True)
    assert core.on_find_publications(ASKED) == []
    assert core.stale == 1


def test_an_answer_goes_to_whoever_asked() -> None:
    answer = PublicationsFound(4, 7, "connpoint-3", FIRST, [], {}, None, [*MATCHERS])
    assert accesspoint().on_answer(answer) == [Send("connpoint-3", [answer])]


def test_the_question_itself_stays_as_it_was() -> None:
    """It is asked through every access point, and once more when nobody answers."""
    before: FindPublications = replace(ASKED)
    accesspoint().on_find_publications(ASKED)
    assert before == ASKED
