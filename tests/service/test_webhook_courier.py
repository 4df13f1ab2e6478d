"""Webhooks over real HTTP and a real disk: receivers that fail, hang, say 410, drip or are slow."""

import asyncio
import math
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from braid import metrics
from braid.config import Settings, Webhooks
from braid.deliver import Webhook
from braid.leveldb import Pages, SerialDatabase
from braid.subscription import SubscriptionRecord
from services.connpoint.door import DeliveryState
from services.connpoint.webhooks import courier as courier_module
from services.connpoint.webhooks.courier import Courier
from services.connpoint.webhooks.outbox import WebhookOutbox
from services.connpoint.webhooks.posting import Poster
from tests.core.webhook_cases import SECRET, addressed
from tests.service.ticking import ticked
from tests.service.waiting import until
from tests.service.webhook_receiver import Receiver, receiving

QUICK: dict[str, Any] = {"allow_private": True, "retry_s": 0.05, "retry_s_max": 5.0, "timeout_s": 5.0}


@asynccontextmanager
async def couriering(directory: Path, **webhooks: Any) -> AsyncIterator[Courier]:
    settings = Settings(webhooks=Webhooks(**{**QUICK, **webhooks}))
    courier = Courier(settings, WebhookOutbox(directory, settings), Poster(settings.webhooks))
    await courier.open()
    try:
        async with ticked(courier.on_tick, time.time):
            yield courier
    finally:
        await courier.close()


def record(url: str, id: str = "a-1", secret: str = SECRET) -> SubscriptionRecord:
    return SubscriptionRecord(id, "anna", "connpoint-1", "", 0.0, deliver=Webhook(url, secret))


async def send(courier: Courier, *numbers: int, id: str = "a-1") -> None:
    await courier.delivered([addressed(number, id) for number in numbers])


async def state_of(courier: Courier, expected: str, id: str = "a-1") -> DeliveryState:
    async with asyncio.timeout(20):
        while (state := await courier.delivery_of(id)).state != expected:
            await asyncio.sleep(0.01)
    return state


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        yield made


async def test_notifications_are_posted_together_in_order_and_signed(tmp_path: Path, receiver: Receiver) -> None:
    async with couriering(tmp_path, batch_notifications_max=10) as courier:
        courier.expect(record(receiver.url()))
        for first in range(0, 100, 5):
            await send(courier, *range(first, first + 5))
        state = await state_of(courier, "idle")
    assert receiver.publications() == [f"p{number}" for number in range(100)]
    assert max(len(posted.publications) for posted in receiver.posted["/"]) <= 10
    receiver.verify(SECRET)
    oldest = receiver.posted["/"][0]
    assert oldest.headers["content-type"] == "application/json"
    assert oldest.body.startswith(b'{"op":"notify","subscriber":"anna","notifications":[{"subscriptions":["a-1"],')
    assert len({posted.id for posted in receiver.posted["/"]}) == len(receiver.posted["/"])
    assert (state.delivered, state.waiting, state.failures, state.last_error) == (100, 0, 0, "")


async def test_what_is_written_just_behind_an_attempt_that_finds_nothing_is_posted(
    tmp_path: Path, receiver: Receiver
) -> None:
    """Both are done in one write, so the endpoint hears of what arrived before it hears that nothing was left."""
    closed, gate = threading.Event(), threading.Event()

    def wait(_pages: Pages) -> None:
        closed.set()
        assert gate.wait(10)

    async with couriering(tmp_path) as courier:
        database = courier._outbox._database
        courier._forget_at_s = math.inf  # nobody else asks anything of the disk

        def held(_number: int) -> int:
            if not gate.is_set():
                database.do([wait], lambda _failure: None)
            return 204

        receiver.moods["/"] = held
        courier.expect(record(receiver.url()))
        await send(courier, 1)
        await until(closed.is_set)
        await until(lambda: len(database._done) == 1)  # the next attempt looks for a request when the gate opens
        second = asyncio.create_task(send(courier, 2))
        await until(lambda: len(database._done) == 2)
        gate.set()
        await second
        await until(lambda: receiver.publications() == ["p1", "p2"])


async def test_a_repetition_is_the_same_request(tmp_path: Path, receiver: Receiver) -> None:
    receiver.moods["/"] = lambda number: 503 if number <= 3 else 200
    async with couriering(tmp_path) as courier:
        courier.expect(record(receiver.url()))
        await send(courier, 1, 2)
        await until(lambda: len(receiver.posted["/"]) >= 2)
        await send(courier, 3)
        await until(lambda: "p3" in receiver.publications())
        state = await state_of(courier, "idle")
    *repeated, last = receiver.posted["/"]
    assert len(repeated) == 4
    assert {(posted.id, posted.body) for posted in repeated} == {(repeated[0].id, repeated[0].body)}
    assert repeated[0].publications == ["p1", "p2"]
    assert last.publications == ["p3"]
    assert (state.attempts, state.failures, state.last_error) == (0, 0, "answered 503")


async def test_what_is_asked_for_with_retry_after_is_waited_for(tmp_path: Path, receiver: Receiver) -> None:
    from starlette.responses import Response

    receiver.moods["/"] = lambda number: Response(status_code=429, headers={"retry-after": "1"}) if number == 1 else 200
    async with couriering(tmp_path) as courier:
        courier.expect(record(receiver.url()))
        await send(courier, 1)
        paused = await state_of(courier, "pausing")
        assert 0.5 < paused.next_attempt_s - time.time() <= 1.0
        await until(lambda: len(receiver.posted["/"]) == 2)
    first, second = receiver.posted["/"]
    assert second.at_s - first.at_s >= 0.99
    assert int(second.headers["webhook-timestamp"]) > int(first.headers["webhook-timestamp"])


async def test_410_disables_until_a_replay(tmp_path: Path, receiver: Receiver) -> None:
    receiver.moods["/"] = lambda number: 410 if number == 1 else 200
    async with couriering(tmp_path, batch_notifications_max=2) as courier:
        courier.expect(record(receiver.url()))
        await send(courier, 1, 2, 3)
        await state_of(courier, "disabled")
        await send(courier, 4)
        await until(lambda: len(receiver.posted["/"]) == 1)
        letters = await courier.dead_letters_of("a-1", 10)
        assert [letter.publications for letter in letters] == [["p1", "p2"], ["p3"], ["p4"]]
        assert {letter.reason for letter in letters} == {"answered 410: the receiver wants no more"}
        assert (await courier.delivery_of("a-1")).dead_letters == 4
        assert await courier.replay("a-1", {letters[1].id, letters[0].id}) == (2, 3)
        await state_of(courier, "idle")
        assert receiver.publications()[2:] == ["p1", "p2", "p3"]
        assert receiver.posted["/"][0].id == receiver.posted["/"][1].id == letters[0].id
        assert await courier.replay("a-1", None) == (1, 1)
        await until(lambda: "p4" in receiver.publications())


async def test_what_hangs_is_given_up_and_tried_again(tmp_path: Path, receiver: Receiver) -> None:
    receiver.moods["/"] = lambda number: "hang" if number == 1 else 200
    async with couriering(tmp_path, timeout_s=0.2) as courier:
        courier.expect(record(receiver.url()))
        await send(courier, 1)
        await until(lambda: len(receiver.posted["/"]) == 2)
        state = await state_of(courier, "idle")
    assert state.last_error == "no answer within 0.2 s"


async def test_a_body_that_never_ends_keeps_nobody_waiting(tmp_path: Path, receiver: Receiver) -> None:
    receiver.moods["/"] = lambda number: receiver.endless() if number == 1 else 200
    async with couriering(tmp_path, batch_notifications_max=1) as courier:
        courier.expect(record(receiver.url()))
        started = time.monotonic()
        await send(courier, 1, 2)
        state = await state_of(courier, "idle")
    assert receiver.publications() == ["p1", "p2"]
    assert state.failures == 0
    assert time.monotonic() - started < 4


async def test_redirections_are_not_followed(tmp_path: Path, receiver: Receiver) -> None:
    from starlette.responses import RedirectResponse

    receiver.moods["/"] = lambda _number: RedirectResponse("/elsewhere")
    async with couriering(tmp_path, refusals_max=2) as courier:
        courier.expect(record(receiver.url()))
        await send(courier, 1)
        await until(lambda: len(receiver.posted["/"]) == 2)
        await state_of(courier, "idle")
        (letter,) = await courier.dead_letters_of("a-1", 10)
    assert (letter.reason, letter.attempts) == ("refused 2 times; last: answered 307", 2)
    assert receiver.posted["/elsewhere"] == []


async def test_a_private_address_is_never_connected_to(tmp_path: Path, receiver: Receiver) -> None:
    async with couriering(tmp_path, allow_private=False, refusals_max=1) as courier:
        courier.expect(record(receiver.url(host="localhost")))
        await send(courier, 1)
        async with asyncio.timeout(10):
            while not (letters := await courier.dead_letters_of("a-1", 10)):
                await asyncio.sleep(0.01)
    assert "localhost is no public address" in letters[0].reason
    assert not receiver.posted


async def test_a_mistake_of_ours_is_a_failed_attempt(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(*_: object) -> dict[str, str]:
        raise ValueError("no such secret")

    async with couriering(tmp_path, refusals_max=1) as courier:
        courier.expect(record(receiver.url()))
        with monkeypatch.context() as patched:
            patched.setattr(courier_module, "headers_of", mistaken)
            await send(courier, 1)
            paused = await state_of(courier, "pausing")
        assert paused.last_error == "cannot be tried: no such secret"
        await send(courier, 2)
        await until(lambda: receiver.publications() == ["p2"])
        assert [letter.publications for letter in await courier.dead_letters_of("a-1", 10)] == [["p1"]]


async def test_what_is_buried_while_metrics_are_told_is_told_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings()
    courier = Courier(settings, WebhookOutbox(tmp_path, settings), Poster(settings.webhooks))
    totals, told = courier._outbox.totals, Counter[str]()

    class Counted:
        """Something is buried in the very moment in which it is told."""

        def labels(self, fate: str) -> "Counted":
            self._fate = fate
            return self

        def inc(self, notifications: int) -> None:
            told[self._fate] += notifications
            totals.buried += self._fate == "buried"

    monkeypatch.setattr(metrics, "WEBHOOK_NOTIFICATIONS", Counted())
    for _ in range(3):
        courier._show_metrics()
    assert (told["buried"], totals.buried) == (2, 3)


async def test_nobody_listens_until_somebody_does(tmp_path: Path, receiver: Receiver) -> None:
    async with couriering(tmp_path) as courier:
        courier.expect(record("http://127.0.0.1:1/"))
        await send(courier, 1)
        paused = await state_of(courier, "pausing")
        assert paused.last_error.startswith("no answer: ")
        assert paused.last_success_s == 0.0 < paused.last_failure_s
        courier.expect(record(receiver.url(), secret="whsec_" + 32 * "A"))
        await state_of(courier, "idle")
    assert receiver.publications() == ["p1"]
    receiver.verify("whsec_" + 32 * "A")


async def test_what_was_under_way_is_posted_again_behind_a_start(tmp_path: Path, receiver: Receiver) -> None:
    receiver.moods["/"] = lambda number: "hang" if number == 1 else 200
    async with couriering(tmp_path, batch_notifications_max=2) as courier:
        courier.expect(record(receiver.url()))
        await send(courier, 1, 2, 3)
        await until(lambda: receiver.posted["/"])
    async with couriering(tmp_path, batch_notifications_max=5) as courier:
        await asyncio.sleep(0.05)
        assert len(receiver.posted["/"]) == 1  # it is not known yet whether there is such a subscription
        courier.expect(record(receiver.url()))
        courier.on_restored()
        await state_of(courier, "idle")
    hung, again, rest = receiver.posted["/"]
    assert (hung.id, hung.body) == (again.id, again.body)
    assert rest.publications == ["p3"]


async def test_what_waits_for_a_subscription_that_ended_is_posted_and_then_forgotten(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.moods["/"] = lambda number: 503 if number <= 2 else 200
    async with couriering(tmp_path, retry_s=0.3) as courier:
        courier.expect(record(receiver.url()))
        await send(courier, 1)
        await until(lambda: receiver.posted["/"])
    async with couriering(tmp_path) as courier:
        courier.on_restored()
        await until(lambda: len(receiver.posted["/"]) == 3)
        await until(lambda: not courier._endpoints)
    async with couriering(tmp_path) as courier:
        assert courier._found == {}


async def test_one_that_is_removed_is_posted_to_no_more(tmp_path: Path, receiver: Receiver) -> None:
    receiver.moods["/"] = lambda _number: 503
    async with couriering(tmp_path) as courier:
        courier.expect(record(receiver.url()))
        await send(courier, 1)
        await until(lambda: receiver.posted["/"])
        courier.remove("a-1")
        await send(courier, 2)
        posted = len(receiver.posted["/"])
        await asyncio.sleep(0.3)
        assert len(receiver.posted["/"]) == posted
    async with couriering(tmp_path) as courier:
        assert courier._found == {}


class FullDisk:
    """Nothing can be written until there is room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failed = 0
        self.has_room = False
        write = SerialDatabase._write

        def failing(database: SerialDatabase, operations: list[Any], sync: bool) -> None:
            if not self.has_room:
                self.failed += 1
                raise OSError("No space left on device")
            write(database, operations, sync)

        monkeypatch.setattr(SerialDatabase, "_write", failing)


async def test_one_that_cannot_be_noted_at_first_is_posted_to_nevertheless(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with couriering(tmp_path) as courier:
        disk = FullDisk(monkeypatch)
        courier.expect(record(receiver.url()))
        await until(lambda: disk.failed)
        disk.has_room = True
        await send(courier, 1)
        await until(lambda: receiver.publications() == ["p1"])


async def test_what_waits_for_a_disk_that_is_full_keeps_its_order(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipts: list[int] = []
    async with couriering(tmp_path) as courier:
        courier.expect(record(receiver.url()))
        await send(courier, 1)
        disk = FullDisk(monkeypatch)
        for number in range(2, 7):
            courier.deliver([addressed(number)], partial(receipts.append, number))
        await until(lambda: courier._arrivals._has_failed)
        disk.has_room = True
        courier.deliver([addressed(7)], partial(receipts.append, 7))
        await until(lambda: len(receiver.publications()) == 7)
    assert receipts == [2, 3, 4, 5, 6, 7]
    assert receiver.publications() == [f"p{number}" for number in range(1, 8)]


async def test_no_receipt_before_the_disk_has_it(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipts: list[str] = []
    async with couriering(tmp_path) as courier:
        courier.expect(record(receiver.url()))
        await send(courier, 1)
        disk = FullDisk(monkeypatch)
        courier.deliver([addressed(2)], lambda: receipts.append("second"))
        courier.deliver([], lambda: receipts.append("a repetition"))
        await asyncio.sleep(0.1)
        assert receipts == []
        disk.has_room = True
        await until(lambda: receipts == ["second", "a repetition"])
        await until(lambda: receiver.publications() == ["p1", "p2"])
        courier.deliver([], lambda: receipts.append("at once"))
        assert receipts[-1] == "at once"


async def test_work_that_failed_halfway_is_not_done_twice(tmp_path: Path, receiver: Receiver) -> None:
    """What was written of a group whose end failed is recognised when it is tried again."""
    failed = asyncio.Event()

    def fail(pages: Pages) -> None:
        pages.write()
        raise OSError("the disk is gone")

    async with couriering(tmp_path) as courier:
        receiver.moods["/"] = lambda _number: 503
        courier.expect(record(receiver.url()))
        await send(courier, 1)
        written = asyncio.create_task(send(courier, 2))
        await asyncio.sleep(0)
        courier._outbox._database.do([fail], lambda _failure: failed.set())
        await failed.wait()
        await written
        receiver.moods["/"] = lambda _number: 200
        await until(lambda: (receiver.publications() or [""])[-1] == "p2")
        await state_of(courier, "idle")
    taken = dict.fromkeys(receiver.publications())
    assert list(taken) == ["p1", "p2"]
