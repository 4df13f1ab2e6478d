"""Notifications that come to a connection point which the subscription, with its address, has left."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from braid import problems
from braid.deliver import Webhook
from braid.subscription import SubscriptionRecord
from services.connpoint import strays as strays_module
from services.connpoint.delivery import Addressed
from services.connpoint.strays import Strays
from tests.core.webhook_cases import SECRET, addressed
from tests.service.test_webhook_courier import couriering
from tests.service.waiting import until
from tests.service.webhook_receiver import Receiver, receiving

OURS = {"a-1"}


class Finding:
    """The subscriptions as matchers have them. Nobody answers before it is told to."""

    def __init__(self, *there: SubscriptionRecord) -> None:
        self.there = {record.id: record for record in there}
        self.asked: list[str] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.fails = 0

    async def __call__(self, id: str) -> SubscriptionRecord:
        self.asked.append(id)
        await self.answers.wait()
        if self.fails:
            self.fails -= 1
            raise problems.unavailable("no matcher answers")
        if id not in self.there:
            raise problems.not_found("subscription", id)
        return self.there[id]


class FakeCouriers:
    """Writes at once."""

    def __init__(self) -> None:
        self.did: list[str] = []

    def expect(self, record: SubscriptionRecord) -> None:
        self.did.append(f"expect {record.id}")

    def end(self, id: str) -> None:
        self.did.append(f"end {id}")

    def deliver(self, addressed: list[Addressed], receipt: Callable[[], None]) -> None:
        self.did.append("write " + " ".join(f"{one.id}:{one.key[1]}" for one in addressed))
        receipt()


def moved(id: str, url: str = "https://example.com/hook") -> SubscriptionRecord:
    return SubscriptionRecord(id, "anna", "connpoint-2", "", 0.0, deliver=Webhook(url, SECRET))


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        yield made


async def test_what_comes_to_the_old_home_is_posted_from_there(tmp_path: Path, receiver: Receiver) -> None:
    """It was away, exit points kept this for it, and meanwhile another one was given the address."""
    async with couriering(tmp_path) as courier:
        courier.on_restored()
        strays = Strays(courier, (), Finding(moved("a-1", receiver.url())))
        receipts: list[int] = []
        for number in (1, 2):
            strays.deliver([addressed(number)], lambda number=number: receipts.append(number))  # type: ignore[misc]
        await until(lambda: receipts == [1, 2])
        await until(lambda: receiver.publications() == ["p1", "p2"])
        await until(lambda: not courier._endpoints)
        assert (strays.delivered, strays.unclaimed) == (2, 0)


async def test_what_is_ours_goes_straight_on_and_what_has_ended_is_dropped() -> None:
    couriers, find = FakeCouriers(), Finding(moved("a-2"))
    strays = Strays(couriers, OURS, find)
    receipts: list[str] = []
    strays.deliver([addressed(1)], lambda: receipts.append("one"))
    assert (couriers.did, receipts) == (["write a-1:1"], ["one"])
    couriers.did.clear()
    for _ in range(2):
        batch = [addressed(2, "a-1"), addressed(2, "a-2"), addressed(2, "a-3")]
        strays.deliver(batch, lambda: receipts.append("all"))
        await until(lambda: receipts[-1] == "all" and strays._task is None)
        assert couriers.did == ["expect a-2", "write a-1:2 a-2:2", "end a-2"]
        couriers.did.clear()
        receipts.append("next")
    assert find.asked == ["a-2", "a-3", "a-2"], "one that has ended is not asked for again"
    assert (strays.delivered, strays.unclaimed) == (2, 2)


async def test_no_receipt_overtakes_one_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exit point may send the same again meanwhile; that it is known here does not say that it is safe."""
    monkeypatch.setattr(strays_module, "_AGAIN_S", 0.001)
    couriers, find = FakeCouriers(), Finding(moved("a-2"))
    find.answers.clear()
    find.fails = 2
    strays = Strays(couriers, OURS, find)
    receipts: list[str] = []
    strays.deliver([addressed(1, "a-2")], lambda: receipts.append("stray"))
    strays.deliver([], lambda: receipts.append("repeated"))
    strays.deliver([addressed(2)], lambda: receipts.append("ours"))
    await asyncio.sleep(0.01)
    assert (receipts, couriers.did) == ([], [])
    find.answers.set()
    await until(lambda: len(receipts) == 3)
    assert receipts == ["stray", "repeated", "ours"]
    assert find.asked == ["a-2"] * 3


async def test_closing_sends_no_receipt() -> None:
    find = Finding()
    find.answers.clear()
    strays = Strays(FakeCouriers(), OURS, find)
    receipts: list[str] = []
    strays.deliver([addressed(1, "a-2")], lambda: receipts.append("stray"))
    await until(lambda: find.asked)
    await strays.close()
    assert receipts == []
