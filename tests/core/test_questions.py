"""Questions to the matchers: repeated, and asked another way when the access point that was asked has left."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from braid.messages import FindPublications, FindSubscriptions, PublicationsFound, Send, SubscriptionsFound
from braid.topology import Change, Configuration, Phase, Target
from services.connpoint.questions import Answers, Asked, Questions
from tests.core.kept_cases import question

BEFORE = Configuration(1, ("accesspoint-1", "accesspoint-2"), ("matcher-1",), ("exitpoint-1",))
AFTER = Configuration(2, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))
TARGET = Target(2, AFTER.accesspoints, AFTER.matchers, AFTER.exitpoints)
THROUGH_THE_SECOND = 1


def during(phase: Phase) -> Configuration:
    return replace(BEFORE, change=Change("scaling-1", phase, TARGET, {}))


async def test_a_question_is_asked_again_at_once_when_its_access_point_has_left() -> None:
    sent: list[Send] = []
    questions = Questions(timeout_s=5.0, perform=sent.extend)
    questions.on_configuration(BEFORE)

    def make(epoch: int, ref: int) -> FindSubscriptions:
        return FindSubscriptions(epoch, ref, "connpoint-1")

    asking = asyncio.ensure_future(questions.ask(THROUGH_THE_SECOND, make))
    await asyncio.sleep(0)
    questions.on_configuration(during("flushing"))
    assert [send.to for send in sent] == ["accesspoint-2"], "it sends on what it has until its last word"
    questions.on_configuration(during("ending"))
    assert [send.to for send in sent] == ["accesspoint-2", "accesspoint-1"]
    (question,) = sent[-1].messages
    assert question.epoch == 2
    found = SubscriptionsFound(2, question.ref, "connpoint-1", "matcher-1", [], "")
    questions.on_answer(question.ref, "matcher-1", found)
    answers: list[Any] = await asking
    assert answers == [found]
    questions.on_configuration(AFTER)
    assert len(sent) == 2, "what is answered is not asked again"


async def test_while_a_scaling_runs_old_and_new_access_points_bring_a_question_that_all_must_bring() -> None:
    """Those that leave may have sent something in the new epoch before."""
    sent: list[Send] = []
    questions = Questions(timeout_s=5.0, perform=sent.extend)
    questions.on_configuration(during("ending"))

    def make(epoch: int, ref: int) -> FindPublications:
        return question(ref, epoch=epoch)

    asking = asyncio.ensure_future(questions.ask(THROUGH_THE_SECOND, make, through_all=True))
    await asyncio.sleep(0)
    assert [send.to for send in sent] == ["accesspoint-1", "accesspoint-2"]
    asking.cancel()


# When answers are whole


TWO, THREE = ("matcher-1", "matcher-2"), ("matcher-1", "matcher-2", "matcher-3")


def found(matcher: str, epoch: int = 4) -> PublicationsFound:
    return PublicationsFound(epoch, 7, "connpoint-1", matcher, [], {}, None)


@pytest.mark.parametrize("asked", [2, TWO])
def test_answers_are_whole_when_all_have_answered_that_were_asked(asked: Asked) -> None:
    answers = Answers()
    assert answers.take("matcher-1", found("matcher-1"), asked) is None
    assert answers.take("matcher-1", found("matcher-1"), asked) is None
    assert answers.take("matcher-2", found("matcher-2"), asked) == [found("matcher-1"), found("matcher-2")]


@pytest.mark.parametrize("asked", [2, TWO])
def test_answers_of_two_epochs_make_no_whole(asked: Asked) -> None:
    answers = Answers()
    assert answers.take("matcher-1", found("matcher-1", 4), asked) is None
    assert answers.take("matcher-2", found("matcher-2", 5), asked) is None
    assert answers.take("matcher-1", found("matcher-1", 5), asked) == [found("matcher-2", 5), found("matcher-1", 5)]


def test_when_a_scaling_has_begun_an_answer_from_before_it_does_not_make_them_whole() -> None:
    """The new one has answered, and one of the two old ones; the other keeps something that nobody else has."""
    answers = Answers()
    assert answers.take("matcher-3", found("matcher-3"), THREE) is None
    assert answers.take("matcher-2", found("matcher-2"), TWO) is None
    assert answers.take("matcher-1", found("matcher-1"), TWO) == [found("matcher-2"), found("matcher-1")]


def test_when_one_has_left_the_others_answer_once_more() -> None:
    """It may have handed something to one of them that had answered before."""
    answers = Answers()
    assert answers.take("matcher-1", found("matcher-1"), THREE) is None
    assert answers.take("matcher-2", found("matcher-2"), TWO) is None
    assert answers.take("matcher-1", found("matcher-1"), TWO) == [found("matcher-2"), found("matcher-1")]
