"""Gives a new subscription its past: finds it, hands it out a part at a time, and says since when it was given."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable

import msgspec
import structlog

from braid import problems
from braid.config import Settings
from braid.messages import FindSubscriptions, Subscribe, SubscriptionsFound
from braid.selector import hash64
from braid.subscription import SubscriptionRecord
from services.connpoint.catching_up import TooMuchHeldError
from services.connpoint.couriers import Couriers
from services.connpoint.delivery import Addressed, DeliveryCore
from services.connpoint.door import Past
from services.connpoint.earlier import relied_on, waited_for
from services.connpoint.past import Found, PastFinder
from services.connpoint.past_order import key_of
from services.connpoint.questions import Questions
from services.connpoint.streams import Streams

log = structlog.get_logger()

_PAUSE_S = 0.02
_PAUSE_S_MAX = 0.5

FindAll = Callable[[str], AsyncIterator[list[SubscriptionRecord]]]


class PastGiver:
    def __init__(
        self,
        name: str,
        settings: Settings,
        delivery: DeliveryCore,
        streams: Streams,
        couriers: Couriers,
        *,
        questions: Questions,
        past: PastFinder,
        find_all: FindAll,
    ) -> None:
        self._name = name
        self._settings = settings
        self._delivery = delivery
        self._streams = streams
        self._couriers = couriers
        self._questions = questions
        self._past = past
        self._find_all = find_all  # of a subscriber
        self._given: dict[str, SubscriptionRecord] = {}  # until their matchers know since when they were given it

    def begin(self, record: SubscriptionRecord) -> None:
        """Before it is stored: from now on, what comes live for it is held."""
        if not self._settings.storage.keep_publications:
            raise problems.invalid("$.from", "publications are not kept here (storage.keep_publications)")
        self._delivery.catching_up.begin(record.id, record.subscriber, is_distinct=record.distinct)

    async def give(self, record: SubscriptionRecord) -> Past:
        """It is stored, so whatever is not kept yet comes live, behind its past."""
        assert record.from_s is not None
        earlier = await self._find_earlier(record) if record.distinct else []
        limit, bytes_max = self._settings.delivery.past_notifications_max, self._settings.delivery.outbox_bytes_max // 2
        past = await self._past.find_past(record, record.from_s, limit, bytes_max, earlier)
        found = of_whole_moments(fitting(past, bytes_max))
        given_from_s = max(record.from_s, math.nextafter(found.reached_s, math.inf))
        publications = await self._hand_out(record, found, given_from_s)
        if record.id in self._delivery:  # else it was ended, or moved away
            await self._note(record, given_from_s)
        return Past(publications, found.is_complete)

    async def _find_earlier(self, record: SubscriptionRecord) -> list[SubscriptionRecord]:
        """The other subscriptions of the same subscriber: those that are there, and distinct ones that have ended."""
        pause_s = _PAUSE_S
        while True:
            given = dict(self._given)  # what is told to matchers from now on, they say
            others = await self._find_others(record)
            if not waited_for(record, others, time.time()):
                break
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)
        subscriber = record.subscriber
        answers: list[SubscriptionsFound] = await self._questions.ask(
            hash64(subscriber),
            lambda epoch, ref: FindSubscriptions(epoch, ref, self._name, subscriber=subscriber, ended=True),
        )
        return relied_on([other for answer in answers for other in answer.records] + others, given)

    async def _find_others(self, record: SubscriptionRecord) -> list[SubscriptionRecord]:
        """Without those of this connection point that have failed here and are not gone yet."""
        return [
            other
            async for page in self._find_all(record.subscriber)
            for other in page
            if other.id != record.id and (other.home != self._name or other.id in self._delivery)
        ]

    async def _hand_out(self, record: SubscriptionRecord, found: Found, given_from_s: float) -> int:
        """How many of the past it was given."""
        publications = 0
        before = found.unconfirmed.before(found.newest, given_from_s)
        confirmed = {key_of(kept) for kept in found.newest if kept.is_confirmed}
        try:
            for part in self._delivery.give_past(record.id, found.newest, time.time, before):
                publications += part.of_past
                if record.deliver is not None:
                    together = zip(part.keys, part.contents, strict=True)
                    past = [Addressed(record.id, key, content) for key, content in together]
                    await self._couriers.delivered(record, past, {one.key for one in past} - confirmed)
                elif part.contents:
                    self._streams.deliver({record.subscriber: part.contents}, asyncio.get_running_loop().time())
                await asyncio.sleep(0)
        except TooMuchHeldError:
            raise problems.overloaded(
                "too much is published meanwhile to catch up with; ask for less of the past"
            ) from None
        return publications

    async def _note(self, record: SubscriptionRecord, given_from_s: float) -> None:
        self._given[record.id] = msgspec.structs.replace(record, given_from_s=given_from_s)
        try:
            await self._questions.ask(
                hash64(record.id), lambda epoch, ref: Subscribe(epoch, ref, self._name, record, given_from_s)
            )
        except problems.Problem as problem:
            # It has its past. Another distinct one may be given the same again.
            log.warning("what a subscription was given is not noted", subscription=record.id, reason=problem.detail)
        finally:
            del self._given[record.id]


def fitting(found: Found, bytes_max: int) -> Found:
    """As many of the newest as leave room in the outbox to what comes next."""
    left = bytes_max
    for place, kept in enumerate(found.newest):
        left -= len(kept.content)
        if left < 0:
            return msgspec.structs.replace(found, newest=found.newest[:place], reached_s=kept.published_s)
    return found


def of_whole_moments(found: Found) -> Found:
    """Without the rest of a moment in which it was cut: publications of a batch share theirs, and a later distinct
    subscription is told one moment since which everything was given. Unless all that fits is of this moment.
    """
    later = [kept for kept in found.newest if kept.published_s > found.reached_s]
    return msgspec.structs.replace(found, newest=later) if later else found
