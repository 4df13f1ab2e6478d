"""Clients over real WebSockets, with a ledger of everything sent and received."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from benchmarks.stillness import until_still
from tests.cluster.clients import SENSORS, Address, Publisher, Subscriber
from tests.cluster.newcomers import Newcomer

NEWCOMER_PAUSE_S = 0.05
SETTLES_S = 30.0


class Traffic:
    """Runs publishers and subscribers, then compares what was promised with what arrived."""

    def __init__(self, publishers: int, subscribers: int, newcomers: int = 0, name: str = "") -> None:
        self.publishers = [Publisher(f"{name}publisher{n}") for n in range(publishers)]
        self.subscribers = [Subscriber(f"{name}subscriber{n}", n % SENSORS) for n in range(subscribers)]
        self.newcomers = [Newcomer(f"{name}newcomer{n}") for n in range(newcomers)]
        self._stop = asyncio.Event()

    @contextlib.asynccontextmanager
    async def flowing(
        self, publish_at: Sequence[str | Address], subscribe_at: Sequence[str | Address], pause_s: float = 0.01
    ) -> AsyncIterator[None]:
        receiving = [
            asyncio.create_task(subscriber.run(_address(subscribe_at, n)))
            for n, subscriber in enumerate(self.subscribers)
        ]
        try:
            await self._until_subscribed(receiving)
            publishing = [
                asyncio.create_task(publisher.run(_address(publish_at, n), self._stop, pause_s))
                for n, publisher in enumerate(self.publishers)
            ]
            receiving += [
                asyncio.create_task(newcomer.run(_address(subscribe_at, n), self._stop, NEWCOMER_PAUSE_S))
                for n, newcomer in enumerate(self.newcomers)
            ]
            try:
                yield
            finally:
                self._stop.set()
                await asyncio.gather(*publishing)
            await self._settle()
        finally:
            for task in receiving:
                task.cancel()
            results = await asyncio.gather(*receiving, return_exceptions=True)
        broken = [r for r in results if isinstance(r, Exception) and not isinstance(r, asyncio.CancelledError)]
        assert not broken, broken

    async def _until_subscribed(self, receiving: "list[asyncio.Task[None]]") -> None:
        """Or until one of them fails, which says more than that time is up."""
        async with asyncio.timeout(20):
            while not all(subscriber.subscribed.is_set() for subscriber in self.subscribers):
                await asyncio.sleep(0.01)
                for task in receiving:
                    if task.done():
                        task.result()

    async def _settle(self) -> None:
        """Until nothing is missing, or long enough that it never will come; then until no repetition comes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLES_S):
                while self.lost():
                    await asyncio.sleep(0.1)
        await until_still(self._came)

    def lost(self) -> list[str]:
        by_subscribers = [
            f"{id} for {subscriber.name}"
            for subscriber in self.subscribers
            for got in [set(subscriber.received)]
            for publisher in self.publishers
            for id in publisher.of_sensor(subscriber.sensor, subscriber.complete_since_s)
            if id not in got
        ]
        return by_subscribers + [each for newcomer in self.newcomers for each in newcomer.lost(self.publishers)]

    def twice(self) -> list[str]:
        """Over one connection: whoever was told of a gap may be told again what came before it."""
        by_subscribers = [
            f"{id} to {name}"
            for name, received in self._streams()
            if len(received) != len(set(received))
            for id in sorted({id for id in received if received.count(id) > 1})
        ]
        return by_subscribers + [each for newcomer in self.newcomers for each in newcomer.twice()]

    def out_of_order(self) -> list[str]:
        disorder = []
        for name, received in self._streams():
            last: dict[str, str] = {}
            for id in received:
                source = id.rpartition("-")[0]
                if last.get(source, "") > id:
                    disorder.append(f"{id} after {last[source]} to {name}")
                last[source] = max(last.get(source, ""), id)
        return disorder

    def wrong(self) -> list[str]:
        """Delivered to somebody who did not ask for it, or never published."""
        sensors = {id: sensor for publisher in self.publishers for id, sensor in publisher.acknowledged.items()}
        unanswered = {id for publisher in self.publishers for id in publisher.unanswered}
        return [
            f"{id} to {subscriber.name}"
            for subscriber in self.subscribers
            for id in [id for received in (*subscriber.earlier, subscriber.received) for id in received]
            if id not in unanswered and sensors.get(id) != subscriber.sensor
        ]

    def check(self) -> None:
        assert self.lost() == []
        assert self.twice() == []
        assert self.wrong() == []
        assert self.out_of_order() == []

    @property
    def acknowledged(self) -> int:
        return sum(len(publisher.acknowledged) for publisher in self.publishers)

    @property
    def delivered(self) -> int:
        """To all subscribers together, over the connections that are open."""
        return sum(len(subscriber.received) for subscriber in self.subscribers)

    @property
    def subscribed(self) -> int:
        return sum(len(newcomer.acknowledged) for newcomer in self.newcomers)

    def _came(self) -> int:
        """Everything, also what came twice, and over connections that are lost."""
        to_newcomers = sum(len(got) for newcomer in self.newcomers for got in newcomer.received.values())
        return to_newcomers + sum(len(received) for _, received in self._streams())

    def _streams(self) -> list[tuple[str, list[str]]]:
        return [
            (subscriber.name, received)
            for subscriber in self.subscribers
            for received in (*subscriber.earlier, subscriber.received)
        ]


def _address(addresses: Sequence[str | Address], number: int) -> Address:
    address = addresses[number % len(addresses)]
    return (lambda: address) if isinstance(address, str) else address
