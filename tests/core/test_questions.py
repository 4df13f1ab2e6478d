"""Questions to the matchers: repeated, and asked another way when the access point that was asked has left."""

import asyncio
from typing import Any

from braid.messages import FindSubscriptions, Send, SubscriptionsFound
from braid.topology import Change, Configuration, Target
from services.connpoint.questions import Questions

BEFORE = Configuration(1, ("accesspoint-1", "accesspoint-2"), ("matcher-1",), ("exitpoint-1",))
AFTER = Configuration(2, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))
TARGET = Target(2, AFTER.accesspoints, AFTER.matchers, AFTER.exitpoints)
DURING = Configuration(
    1, BEFORE.accesspoints, BEFORE.matchers, BEFORE.exitpoints, change=Change("scaling-1", "ending", TARGET, {})
)
THROUGH_THE_SECOND = 1


async def test_a_question_is_asked_again_at_once_when_its_access_point_has_left() -> None:
    sent: list[Send] = []
    questions = Questions(timeout_s=5.0, perform=sent.extend)
    questions.on_configuration(BEFORE)

    def make(epoch: int, ref: int) -> FindSubscriptions:
        return FindSubscriptions(epoch, ref, "connpoint-1")

    asking = asyncio.ensure_future(questions.ask(THROUGH_THE_SECOND, make))
    await asyncio.sleep(0)
    questions.on_configuration(DURING)
    assert [send.to for send in sent] == ["accesspoint-2"], "its link is there until the end"
    questions.on_configuration(AFTER)
    assert [send.to for send in sent] == ["accesspoint-2", "accesspoint-1"]
    (question,) = sent[-1].messages
    assert question.epoch == 2
    found = SubscriptionsFound(2, question.ref, "connpoint-1", "matcher-1", [], "")
    questions.on_answer(question.ref, "matcher-1", found)
    answers: list[Any] = await asking
    assert answers == [found]
    questions.on_configuration(AFTER)
    assert len(sent) == 2, "what is answered is not asked again"
