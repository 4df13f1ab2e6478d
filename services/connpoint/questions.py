"""Questions to the matchers: each is repeated until it is answered or its time is up.

Matchers answer the same question the same way, so repeating one does no harm.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from braid import problems
from braid.messages import Send
from braid.selector import Selector, selector_of
from braid.topology import Configuration

_ASK_AGAIN_S = 1.0
_QUESTIONS_MAX = 50_000

Asked = int | tuple[str, ...]  # how many matchers, or which


class Answers:
    """What matchers say to one question.

    Those of two epochs never make a whole together, nor those of before and after a scaling began or ended: then others
    are asked, and what one of them has may move to another one in between.
    """

    def __init__(self) -> None:
        # By epoch and who was asked; by matcher, so that a repeated one counts once.
        self._heard: dict[tuple[int, Asked], dict[str, Any]] = {}

    def take(self, matcher: str, answer: Any, asked: Asked) -> list[Any] | None:
        """All of them, when they are whole."""
        heard = self._heard.setdefault((answer.epoch, asked), {})
        heard[matcher] = answer
        return list(heard.values()) if len(heard) >= (asked if isinstance(asked, int) else len(asked)) else None


class _Question(msgspec.Struct, eq=False):
    key: int
    make: Callable[[int], Any]  # of the epoch
    answered: asyncio.Future[list[Any]]
    answers: Answers
    through: str = ""  # the access point that was asked last
    through_all: bool = False


class Questions:
    def __init__(self, timeout_s: float, perform: Callable[[list[Send]], None]) -> None:
        self._timeout_s = timeout_s
        self._perform = perform
        self._selector: Selector | None = None
        self._accesspoints: list[str] = []  # while a scaling runs, old and new ones
        self._open: dict[int, _Question] = {}
        # An answer to a question of the process before this one must not be taken for one of ours.
        self._last_ref = time.time_ns() // 1000

    def on_configuration(self, configuration: Configuration) -> None:
        self._selector = selector_of(configuration.in_force())
        self._accesspoints = configuration.union("accesspoint")
        # Who has left does not take calls any more; waiting for the next repetition would be felt.
        taking = configuration.taking()
        self._send([question for question in self._open.values() if question.through not in taking])

    async def ask(self, key: int, make: Callable[[int, int], Any], *, through_all: bool = False) -> list[Any]:
        """Sends what `make` makes of epoch and ref until all matchers have answered that the access point asked.

        `key` chooses the access point: questions about one subscription keep their order. Some go through all of them.
        """
        if len(self._open) >= _QUESTIONS_MAX:
            raise problems.overloaded("too many calls to the matchers are under way")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        self._last_ref += 1
        ref = self._last_ref
        question = self._open[ref] = _Question(
            key, lambda epoch: make(epoch, ref), loop.create_future(), Answers(), through_all=through_all
        )
        try:
            while True:
                self._send([question])
                left_s = deadline - loop.time()
                if left_s <= 0:
                    raise problems.unavailable("the matchers did not answer in time (api.request_timeout_s)")
                done, _ = await asyncio.wait([question.answered], timeout=min(_ASK_AGAIN_S, left_s))
                if done:
                    return question.answered.result()
        finally:
            del self._open[ref]

    def on_answer(self, ref: int, matcher: str, answer: Any, asked: Asked = 1) -> None:
        """`matcher` may be empty where only one is asked."""
        question = self._open.get(ref)
        if question is None:
            return
        answers = question.answers.take(matcher, answer, asked)
        if answers is not None and not question.answered.done():
            question.answered.set_result(answers)

    def _send(self, questions: list[_Question]) -> None:
        selector = self._selector
        if selector is None:
            return
        for question in questions:
            message = question.make(selector.epoch)
            if question.through_all:
                self._perform([Send(accesspoint, [message]) for accesspoint in self._accesspoints])
            else:
                question.through = selector.accesspoint_of(question.key)
                self._perform([Send(question.through, [message])])

    def close(self) -> None:
        for question in self._open.values():
            if not question.answered.done():
                question.answered.set_exception(problems.unavailable("the connection point is stopping"))
