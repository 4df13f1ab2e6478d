"""Kept publications: all matchers are asked, as often as it takes to have what is wanted of them."""

import asyncio
import math
import time

import msgspec

from braid.config import Settings
from braid.messages import FindPublications, Kept, PublicationsFound
from braid.selector import hash64
from braid.subscription import Subscription, SubscriptionRecord, check_question
from services.connpoint.door import KeptPublication
from services.connpoint.past_order import Key, key_of
from services.connpoint.questions import Questions
from services.connpoint.unconfirmed import Unconfirmed

_LIMIT = 1_000  # of one answer of one matcher
_ORDER_S_MAX = 3.0  # then something before it had to be sent again, and may come late
_ORDER_PAUSE_S = 0.05
_FIND_S_MAX = 20.0  # then what was found so far is all that is given


class Found(msgspec.Struct, frozen=True):
    """The newest that match and have not expired, the newest first."""

    newest: list[Kept]
    reached_s: float  # everything published later than that is among them
    unconfirmed: Unconfirmed  # as it was before anybody looked

    @property
    def is_complete(self) -> bool:
        return self.reached_s == -math.inf


class PastFinder:
    def __init__(self, name: str, settings: Settings, questions: Questions) -> None:
        self._name = name
        self._settings = settings
        self._questions = questions

    async def find_publications(self, wanted: Subscription, limit: int) -> list[KeptPublication]:
        """The newest first."""
        record, from_s, until_s = check_question(wanted, self._settings.limits, time.time())
        found = await self._find(record, from_s, until_s, limit, [])
        return [KeptPublication(kept.published_s, kept.content) for kept in found.newest]

    async def find_past(
        self,
        record: SubscriptionRecord,
        from_s: float,
        limit: int,
        bytes_max: int,
        without: list[SubscriptionRecord],
    ) -> Found:
        """The newest of the past that it matches, and no more than a few answers beyond as many bytes.

        What is kept already may have overtaken what its publisher published before: then that is waited for.
        """
        begun_s = time.monotonic()
        while True:
            found = await self._find(record, from_s, math.inf, limit, without, bytes_max=bytes_max)
            is_in_order = found.unconfirmed.is_in_order(found.newest, time.time())
            if is_in_order or time.monotonic() - begun_s > _ORDER_S_MAX:
                return found
            await asyncio.sleep(_ORDER_PAUSE_S)

    async def _find(
        self,
        record: SubscriptionRecord,
        from_s: float,
        until_s: float,
        limit: int,
        without: list[SubscriptionRecord],
        *,
        bytes_max: float = math.inf,
    ) -> Found:
        """A publication may be kept by two matchers for a while after a scaling; it counts once.

        What was kept behind the first question may be newer than what the next ones ask for, and so be missing in what
        was found: it counts as still to come.
        """
        begun_s = time.monotonic()
        found: dict[Key, Kept] = {}
        unconfirmed: Unconfirmed | None = None
        while True:
            answers = await self._ask(record, from_s, until_s, min(limit, _LIMIT), without)
            if unconfirmed is None:
                unconfirmed = Unconfirmed(answer.under_way for answer in answers)
            # Up to where everybody has looked; what is older is asked for again.
            reached_s = max((a.reached_s for a in answers if a.reached_s is not None), default=-math.inf)
            for answer in answers:
                found |= {key_of(kept): kept for kept in answer.found if kept.published_s > reached_s}
            now_s = time.time()  # something may have expired while it waited here for the others
            found = {key: kept for key, kept in found.items() if kept.expires_s > now_s}
            is_enough = len(found) > limit or sum(len(kept.content) for kept in found.values()) > bytes_max
            if reached_s == -math.inf or is_enough or time.monotonic() - begun_s > _FIND_S_MAX:
                break
            until_s = math.nextafter(reached_s, math.inf)
        newest = sorted(found.values(), key=lambda kept: (kept.published_s, kept.sequence, kept.place), reverse=True)
        if len(newest) > limit:
            return Found(newest[:limit], newest[limit].published_s, unconfirmed)
        return Found(newest, reached_s, unconfirmed)

    async def _ask(
        self,
        record: SubscriptionRecord,
        from_s: float,
        until_s: float,
        limit: int,
        without: list[SubscriptionRecord],
    ) -> list[PublicationsFound]:
        return await self._questions.ask(
            hash64(record.id),
            lambda epoch, ref: FindPublications(epoch, ref, self._name, record, from_s, until_s, limit, without),
            through_all=True,
        )

    def on_publications_found(self, message: PublicationsFound) -> None:
        self._questions.on_answer(message.ref, message.matcher, message, tuple(message.asked))
