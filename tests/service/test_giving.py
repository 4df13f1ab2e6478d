"""Giving a past: on whom a distinct subscription relies, where what was given begins, and what a failure leaves."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from braid import problems
from braid.config import Delivery, Settings, Storage
from braid.matching.checking import Seen
from braid.matching.meaning import read_publication
from braid.messages import FindSubscriptions, Kept, Subscribe, SubscriptionsFound, Unsubscribe
from braid.subscription import Subscription, SubscriptionPatch, SubscriptionRecord
from services.connpoint.couriers import Couriers
from services.connpoint.delivery import DeliveryCore
from services.connpoint.past import Found, PastFinder
from services.connpoint.questions import Questions
from services.connpoint.sinks.courier import TopicCourier
from services.connpoint.sinks.outbox import SinkOutbox
from services.connpoint.streams import Streams
from services.connpoint.subscribing import Subscribing
from services.connpoint.unconfirmed import Unconfirmed
from services.connpoint.webhooks.courier import Courier
from services.connpoint.webhooks.outbox import WebhookOutbox
from services.connpoint.webhooks.posting import Poster
from services.matcher.beginnings import dated, noted
from services.matcher.searching import Judge
from tests.core.kept_cases import kept
from tests.service.waiting import until


class Matchers(Questions):
    """One that answers after a moment, and judges what was given as matchers do."""

    def __init__(self) -> None:
        super().__init__(1.0, lambda _sends: None)
        self.stored: dict[str, SubscriptionRecord] = {}
        self.ended: list[SubscriptionRecord] = []
        self.fails: Callable[[Any], bool] = lambda _message: False
        self.loses: Callable[[Any], bool] = lambda _message: False  # the answer
        self.finds = 0
        self.hears_notes = asyncio.Event()  # of what was given
        self.hears_notes.set()

    async def ask(self, key: int, make: Callable[[int, int], Any], *, through_all: bool = False) -> list[Any]:
        message = make(1, 1)
        await asyncio.sleep(0.002)
        if self.fails(message):
            raise problems.unavailable("nobody answers")
        match message:
            case Subscribe():
                if message.given_from_s is not None:
                    await self.hears_notes.wait()
                self._store(message)
            case Unsubscribe():
                self.ended += [self.stored.pop(message.id)] if message.id in self.stored else []
            case FindSubscriptions():
                self.finds += not message.ended
                found = self.ended if message.ended else [r for r in self.stored.values() if message.id in ("", r.id)]
                return [SubscriptionsFound(1, 1, "connpoint-1", "matcher-1", list(found), "")]
        if self.loses(message):
            raise problems.unavailable("nobody answers")
        return []

    def _store(self, message: Subscribe) -> None:
        before = self.stored.get(message.record.id)
        if message.given_from_s is None:
            self.stored[message.record.id] = dated(message.record, before, time.time())
        elif before is not None:
            self.stored[before.id] = noted(before, message.given_from_s)


class Kepts(PastFinder):
    def __init__(self, settings: Settings, matchers: Matchers) -> None:
        super().__init__("connpoint-1", settings, matchers)
        self.kept: list[Kept] = []
        self.reached_s = -math.inf

    async def find_past(
        self,
        record: SubscriptionRecord,
        from_s: float,
        limit: int,
        bytes_max: int,
        without: list[SubscriptionRecord],
    ) -> Found:
        judge, others = Judge(record), [Judge(other) for other in without]
        await asyncio.sleep(0.01)
        found = [
            one
            for one in self.kept
            if from_s <= one.published_s and judge.accepts(seen := Seen(read_publication(one.content), None))
            if not any(other.was_given(one.published_s) and other.accepts(seen) for other in others)
        ]
        return Found(found, self.reached_s, Unconfirmed(()))


class Stage:
    def __init__(self, **delivery: Any) -> None:
        settings = Settings(delivery=Delivery(**delivery))
        self.matchers = Matchers()
        self.past = Kepts(settings, self.matchers)
        self.core = DeliveryCore("connpoint-1", time.time_ns)
        self.streams = Streams(1, settings.delivery, lambda _: None)
        couriers = Couriers(
            settings,
            Courier(settings, WebhookOutbox(Path("unused"), settings), Poster(settings.webhooks)),
            TopicCourier("connpoint-1", settings, SinkOutbox(Path("unused"), settings.ingress), lambda _: 0),
        )
        self.subscribing = Subscribing(
            "connpoint-1", settings, self.core, self.streams, couriers, questions=self.matchers, past=self.past
        )

    def publish(self, *moments: float, padding: int = 0) -> None:
        """Each as many seconds ago."""
        for ago_s in moments:
            sequence = len(self.past.kept) + 1
            content = b'{"id":"p%d","attributes":{"n":%d},"text":"%b"}' % (sequence, sequence, padding * b"x")
            one = kept(sequence, published_s=time.time() - ago_s, content=content, is_confirmed=True)
            self.past.kept.insert(0, one)

    async def subscribe(self, filter: str = "", from_: str | None = "-1m", **changes: Any) -> SubscriptionRecord:
        given = Subscription(filter=filter, from_=from_, **({"distinct": True} | changes))
        record, _ = await self.subscribing.subscribe(given, subscriber="anna", temporary=False)
        return self.matchers.stored[record.id]

    def delivered(self) -> list[bytes]:
        outbox = self.streams.expect("anna", False, 0.0)
        return sorted(item.payload.partition(b'"id":"')[2][:2] for item in outbox.take(100))


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    made.subscribing.close()


async def test_two_that_are_made_at_the_same_time_give_what_both_match_once(stage: Stage) -> None:
    stage.publish(5, 4, 3)
    await asyncio.gather(stage.subscribe("n > 0"), stage.subscribe("n > 1"))
    assert stage.delivered() == [b"p1", b"p2", b"p3"]


async def test_of_two_that_are_made_at_the_same_time_one_may_fail(stage: Stage) -> None:
    stage.publish(5, 4)
    tasks = [asyncio.create_task(stage.subscribe(filter)) for filter in ("n > 0", "n > 1")]
    await until(lambda: len(stage.matchers.stored) == 2)
    tasks[0].cancel()
    await tasks[1]
    assert stage.delivered() == [b"p2"]
    await until(lambda: len(stage.matchers.stored) == 1)
    await stage.subscribe("n > 0")
    assert stage.delivered() == [b"p1"]


async def test_one_that_was_given_its_past_is_relied_on_although_its_matcher_does_not_know_it_yet(stage: Stage) -> None:
    """As while subscriptions are kept back for a scaling."""
    stage.publish(5, 4, 3)
    stage.matchers.hears_notes.clear()
    first = asyncio.create_task(stage.subscribe("n < 3"))
    await until(lambda: len(stage.matchers.stored) == 1 and stage.core.catching_up.is_idle)
    second = asyncio.create_task(stage.subscribe("n > 1"))
    await until(lambda: len(stage.matchers.stored) == 2 and stage.core.catching_up.is_idle)
    stage.matchers.hears_notes.set()
    await asyncio.gather(first, second)
    assert stage.delivered() == [b"p1", b"p2", b"p3"]


async def test_one_that_catches_up_at_another_connection_point_is_waited_for(stage: Stage) -> None:
    stage.publish(5)
    now_s = time.time()
    other = SubscriptionRecord("a", "anna", "connpoint-2", "", now_s - 1, from_s=now_s - 60, distinct=True)
    stage.matchers.stored["a"] = other
    task = asyncio.create_task(stage.subscribe())
    await until(lambda: stage.matchers.finds >= 3)
    assert not task.done()
    stage.matchers.stored["a"] = replace(other, given_from_s=now_s - 60)
    await task
    assert stage.delivered() == []


async def test_one_that_fails_at_another_connection_point_is_not_relied_on(stage: Stage) -> None:
    stage.publish(5)
    now_s = time.time()
    other = SubscriptionRecord("a", "anna", "connpoint-2", "", now_s - 1, from_s=now_s - 60, distinct=True)
    stage.matchers.stored["a"] = other
    task = asyncio.create_task(stage.subscribe())
    await until(lambda: stage.matchers.finds >= 2)
    stage.matchers.ended.append(stage.matchers.stored.pop("a"))
    await task
    assert stage.delivered() == [b"p1"]


# Where what was given begins


async def test_a_whole_past_begins_with_from(stage: Stage) -> None:
    stage.publish(5)
    record = await stage.subscribe()
    assert record.given_from_s == record.from_s


async def test_a_past_that_was_cut_off_begins_behind_the_last_one_that_is_missing(stage: Stage) -> None:
    stage.publish(5, 4, 3)
    stage.past.reached_s = stage.past.kept[2].published_s
    stage.past.kept.pop()
    record = await stage.subscribe()
    assert record.given_from_s == math.nextafter(stage.past.reached_s, math.inf)


async def test_a_past_that_does_not_fit_begins_behind_the_last_one_that_is_missing() -> None:
    stage = Stage(outbox_bytes_max=1024)
    stage.publish(5, 4, 3, padding=200)
    record = await stage.subscribe(distinct=False)
    assert stage.delivered() == [b"p2", b"p3"]
    assert record.given_from_s == math.nextafter(stage.past.kept[2].published_s, math.inf)
    await stage.subscribe()
    assert stage.delivered() == [b"p1"]


async def test_a_past_is_not_cut_within_a_moment() -> None:
    """A distinct one behind it relies on one moment, and would be given again what was given of it."""
    stage = Stage(outbox_bytes_max=1024)
    stage.publish(5, 4, 4, 3, padding=200)
    moment_s = stage.past.kept[2].published_s
    stage.past.kept[1] = replace(stage.past.kept[1], published_s=moment_s)
    record = await stage.subscribe(distinct=False)
    assert stage.delivered() == [b"p4"]
    assert record.given_from_s == math.nextafter(moment_s, math.inf)
    await stage.subscribe()
    assert stage.delivered() == [b"p2", b"p3"]


async def test_one_without_a_past_begins_when_it_is_stored(stage: Stage) -> None:
    before_s = time.time()
    record = await stage.subscribe(from_=None)
    assert before_s < record.created_s < record.given_from_s
    stage.publish(0, time.time() - record.created_s)
    await stage.subscribe()
    assert stage.delivered() == [b"p2"]  # was published after it was made, and before it was stored


async def test_one_that_is_changed_begins_anew(stage: Stage) -> None:
    stage.publish(5)
    first = await stage.subscribe("n = 99")
    await stage.subscribing.change(first.id, SubscriptionPatch(filter="n > 0"))
    await stage.subscribe()
    assert stage.delivered() == [b"p1"]


# What is over


async def test_one_that_is_over_is_in_no_list_though_no_matcher_has_ended_it_yet(stage: Stage) -> None:
    """And counts until then: what it was given is not given again."""
    stage.publish(5)
    now_s = time.time()
    over = SubscriptionRecord("a", "anna", "connpoint-2", "", now_s - 9, until_s=now_s - 1, distinct=True)
    stage.matchers.stored["a"] = replace(over, given_from_s=now_s - 60)
    assert [page async for page in stage.subscribing.find_all("anna")] == [[]]
    with pytest.raises(problems.Problem, match="subscription"):
        await stage.subscribing.find("a")
    stage.matchers.stored["a"] = replace(stage.matchers.stored["a"], until_s=now_s + 60)
    assert (await stage.subscribing.find("a")).id == "a"
    stage.matchers.stored["a"] = replace(stage.matchers.stored["a"], until_s=now_s - 1)
    await stage.subscribe()
    assert stage.delivered() == []


# What a failure leaves


async def test_one_that_could_not_be_given_its_past_is_not_relied_on_when_it_is_tried_again(stage: Stage) -> None:
    stage.publish(5)
    stage.matchers.fails = lambda message: isinstance(message, FindSubscriptions) and message.ended
    with pytest.raises(problems.Problem):
        await stage.subscribe()
    stage.matchers.fails = lambda _message: False
    await until(lambda: stage.matchers.ended != [])
    await stage.subscribe()
    assert stage.delivered() == [b"p1"]


async def test_one_that_failed_without_a_past_is_remembered_as_given_nothing(stage: Stage) -> None:
    stage.matchers.loses = lambda message: isinstance(message, Subscribe) and message.given_from_s is None
    with pytest.raises(problems.Problem):
        await stage.subscribe(from_=None)
    await until(lambda: stage.matchers.ended != [])
    assert [record.given_from_s for record in stage.matchers.ended] == [math.inf]


async def test_that_it_was_given_cannot_be_noted_is_no_failure(stage: Stage) -> None:
    stage.publish(5)
    stage.matchers.fails = lambda message: isinstance(message, Subscribe) and message.given_from_s is not None
    record = await stage.subscribe()
    assert record.given_from_s == math.inf
    assert stage.delivered() == [b"p1"]


async def test_where_nothing_is_kept_nothing_is_stored() -> None:
    stage = Stage()
    stage.subscribing._giver._settings = Settings(storage=Storage(keep_publications=False))
    with pytest.raises(problems.Problem):
        await stage.subscribe()
    assert stage.matchers.stored == {}
    assert stage.core.catching_up.is_idle
