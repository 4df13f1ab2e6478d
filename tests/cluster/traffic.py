"""Publishers and subscribers over real WebSockets, with a ledger of everything sent and received."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

SENSORS = 4


@contextlib.asynccontextmanager
async def socket(api: str, **query: str) -> AsyncIterator[ClientConnection]:
    text = "&".join(f"{key}={value}" for key, value in query.items())
    url = f"{api.replace('http://', 'ws://')}/v1/ws?{text}"
    async with connect(url, compression=None, max_size=None, proxy=None) as connection:
        yield connection


class Subscriber:
    """One connection with one subscription; keeps the ids it was notified of, in order."""

    def __init__(self, name: str, sensor: int) -> None:
        self.name = name
        self.sensor = sensor
        self.received: list[str] = []
        self.subscribed = asyncio.Event()

    async def run(self, api: str) -> None:
        async with socket(api, subscriber=self.name) as connection:
            wanted = {"filter": f"sensor = {self.sensor}"}
            await connection.send(json.dumps({"op": "subscribe", "ref": 1, "subscription": wanted}))
            async for text in connection:
                frame = json.loads(text)
                if frame["op"] == "subscribed":
                    self.subscribed.set()
                    continue
                assert frame["op"] == "notify", frame
                self.received += [n["publication"]["id"] for n in frame["notifications"]]


class Publisher:
    """One connection; knows which of its publications were acknowledged. A lost connection is opened again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.acknowledged: dict[str, int] = {}  # id -> sensor
        self.unanswered: set[str] = set()
        self.connections = 0
        self._number = 0

    async def run(self, api: str, stop: asyncio.Event, pause_s: float) -> None:
        while not stop.is_set():
            try:
                async with socket(api) as connection:
                    self.connections += 1
                    await self._publish(connection, stop, pause_s)
            except (ConnectionClosed, OSError):
                await asyncio.sleep(0.1)

    async def _publish(self, connection: ClientConnection, stop: asyncio.Event, pause_s: float) -> None:
        while not stop.is_set():
            sensor = self._number % SENSORS
            # The connection is part of the name: order is promised per connection.
            ids = [f"{self.name}.{self.connections}-{self._number + n:06d}" for n in range(5)]
            self._number += len(ids)
            publications: list[dict[str, Any]] = [{"id": id, "attributes": {"sensor": sensor}} for id in ids]
            self.unanswered.update(ids)
            await connection.send(json.dumps({"op": "publish", "ref": 1, "publications": publications}))
            answer = json.loads(await connection.recv())
            assert answer["op"] == "published", answer
            assert answer["ids"] == ids
            self.unanswered.difference_update(ids)
            self.acknowledged.update(dict.fromkeys(ids, sensor))
            await asyncio.sleep(pause_s)


class Traffic:
    """Runs publishers and subscribers, then compares what was promised with what arrived."""

    def __init__(self, publishers: int, subscribers: int) -> None:
        self.publishers = [Publisher(f"publisher{n}") for n in range(publishers)]
        self.subscribers = [Subscriber(f"subscriber{n}", n % SENSORS) for n in range(subscribers)]
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def flowing(
        self, publish_at: list[str], subscribe_at: list[str], pause_s: float = 0.01
    ) -> AsyncIterator[None]:
        receiving = [
            asyncio.create_task(subscriber.run(subscribe_at[n % len(subscribe_at)]))
            for n, subscriber in enumerate(self.subscribers)
        ]
        try:
            await self._until_subscribed(receiving)
            publishing = [
                asyncio.create_task(publisher.run(publish_at[n % len(publish_at)], self._stop, pause_s))
                for n, publisher in enumerate(self.publishers)
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
        """Until nothing is missing, or long enough that it never will come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(30):
                while self.lost():
                    await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)  # a repetition would come after the original

    def lost(self) -> list[str]:
        return [
            f"{id} for {subscriber.name}"
            for subscriber in self.subscribers
            for got in [set(subscriber.received)]
            for publisher in self.publishers
            for id, sensor in publisher.acknowledged.items()
            if sensor == subscriber.sensor and id not in got
        ]

    def twice(self) -> list[str]:
        return [
            f"{id} to {subscriber.name}"
            for subscriber in self.subscribers
            if len(subscriber.received) != len(set(subscriber.received))
            for id in sorted({id for id in subscriber.received if subscriber.received.count(id) > 1})
        ]

    def out_of_order(self) -> list[str]:
        disorder = []
        for subscriber in self.subscribers:
            last: dict[str, str] = {}
            for id in subscriber.received:
                source = id.rpartition("-")[0]
                if last.get(source, "") > id:
                    disorder.append(f"{id} after {last[source]} to {subscriber.name}")
                last[source] = max(last.get(source, ""), id)
        return disorder

    def wrong(self) -> list[str]:
        """Delivered to somebody who did not ask for it, or never published."""
        sensors = {id: sensor for publisher in self.publishers for id, sensor in publisher.acknowledged.items()}
        unanswered = {id for publisher in self.publishers for id in publisher.unanswered}
        return [
            f"{id} to {subscriber.name}"
            for subscriber in self.subscribers
            for id in subscriber.received
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
