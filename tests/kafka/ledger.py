"""Records on their way through a source, with a ledger: each is published once, in the order of its partition."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator

from aiokafka import AIOKafkaProducer

from tests.cluster.clients import socket

POISON_EVERY = 97
SETTLES_S = 40.0


class Ledger:
    """Writes to all partitions of a topic until it is told to stop; a subscriber that is always connected receives."""

    def __init__(self, topic: str, partitions: int) -> None:
        self.topic = topic
        self._partitions = partitions
        self.written: list[str] = []  # ids of good records that Kafka has
        self.poisoned = 0
        self.received: list[str] = []
        self._stop = asyncio.Event()

    @contextlib.asynccontextmanager
    async def flowing(self, bootstrap: str, api: str, pause_s: float = 0.02) -> AsyncIterator[None]:
        subscribed = asyncio.Event()
        receiving = asyncio.create_task(self._receive(api, subscribed))
        try:
            async with asyncio.timeout(20):
                await subscribed.wait()
            writing = asyncio.create_task(self._write(bootstrap, pause_s))
            try:
                yield
            finally:
                self._stop.set()
                await writing
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SETTLES_S):
                    while len(self.received) < len(self.written):
                        assert not receiving.done(), receiving
                        await asyncio.sleep(0.1)
            await asyncio.sleep(0.5)  # a repetition would come after the original
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    def check(self) -> None:
        received = Counter(self.received)
        assert [id for id in self.written if id not in received] == [], "lost"
        assert [id for id, times in received.items() if times > 1] == [], "twice"
        assert received.keys() <= set(self.written), "never written"
        latest: dict[str, int] = {}
        for id in self.received:
            partition, number = id.split("-")
            assert latest.get(partition, -1) < int(number), f"{id} after {latest[partition]}"
            latest[partition] = int(number)

    async def _write(self, bootstrap: str, pause_s: float) -> None:
        """Some to each partition at a time. What Kafka does not have when it stops is written all the same."""
        number = 0
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
            while not self._stop.is_set():
                sent = []
                for partition in range(self._partitions):
                    for _ in range(5):
                        id = f"{partition}-{number}"
                        if number % POISON_EVERY == 0:
                            value = b"{"
                            self.poisoned += 1
                        else:
                            value = json.dumps({"id": id, "attributes": {"ledger": self.topic}}).encode()
                            self.written.append(id)
                        sent.append(await producer.send(self.topic, value, partition=partition))
                        number += 1
                await asyncio.gather(*sent)
                await asyncio.sleep(pause_s)

    async def _receive(self, api: str, subscribed: asyncio.Event) -> None:
        async with socket(api) as connection:
            wanted = {"filter": f"ledger = '{self.topic}'"}
            await connection.send(json.dumps({"op": "subscribe", "ref": 1, "subscription": wanted}))
            async for text in connection:
                frame = json.loads(text)
                if frame["op"] == "subscribed":
                    subscribed.set()
                    continue
                assert frame["op"] == "notify", frame
                self.received += [one["publication"]["id"] for one in frame["notifications"]]
