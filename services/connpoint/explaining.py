"""Explaining matches: all matchers are asked what a publication would match; nothing is published."""

import time

from braid import problems
from braid.config import Settings
from braid.content import Content, ContentWriter
from braid.messages import Explain, Explained
from braid.selector import hash64
from services.connpoint.door import EXPLAINED_IDS_MAX, MatchesExplained
from services.connpoint.questions import Questions


class Explaining:
    def __init__(self, name: str, settings: Settings, questions: Questions) -> None:
        self._name = name
        self._questions = questions
        self._writer = ContentWriter(settings.limits)

    async def explain(self, content: Content, subscription: str) -> MatchesExplained:
        """The content is checked as if it were published."""
        encoded = self._writer.write(content, time.time())
        answers: list[Explained] = await self._questions.ask(
            hash64(subscription),
            lambda epoch, ref: Explain(epoch, ref, self._name, encoded, subscription, EXPLAINED_IDS_MAX),
        )
        explanation = next((answer.explanation for answer in answers if answer.explanation), b"")
        if subscription and not explanation:
            raise problems.not_found("subscription", subscription)
        # Each matcher sends its smallest ids, so the smallest of all are among them.
        ids = sorted(id for answer in answers for id in answer.ids)
        return MatchesExplained(ids[:EXPLAINED_IDS_MAX], sum(answer.count for answer in answers), explanation)

    def on_explained(self, message: Explained) -> None:
        self._questions.on_answer(message.ref, message.matcher, message, message.asked)
