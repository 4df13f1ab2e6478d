"""A sink: publications until Kafka has committed them in the topic that their subscriptions are delivered to.

- waiting: what waits on the disk of the connection point, because the topic took nothing, until it is there: the sink
  alone.
- live: what is published over WebSocket as fast as it is acknowledged, until it is there: the whole way.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import httpx
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from benchmarks.load import FRAME_MAX, PUBLISHES_UNDER_WAY, Publisher, flood, open_publishers
from benchmarks.local_cluster import LocalCluster

_SUBSCRIBES_UNDER_WAY = 16
_LOOKS_S = 0.01
_S_MAX = 300.0
_PUBLISHERS = 4


class Sink:
    """Subscriptions, each to one sensor, that are delivered to one topic; and publishers."""

    def __init__(self, api: httpx.AsyncClient, id: str, publishers: list[Publisher]) -> None:
        self._api = api
        self._id = id
        self._publishers = publishers
        self._looking = asyncio.create_task(self._look())
        self.count = 0  # that Kafka has
        self.waiting = 0

    async def waiting_per_s(self, bootstrap: str, topic: str, records: int) -> float:
        before = self.count
        async with refusing(bootstrap, topic):
            each = records // FRAME_MAX // len(self._publishers) * FRAME_MAX
            await asyncio.gather(*(_publish(publisher, each) for publisher in self._publishers))
            sent = each * len(self._publishers)
            async with asyncio.timeout(_S_MAX):
                while self.count - before + self.waiting < sent:
                    await asyncio.sleep(_LOOKS_S)
        async with asyncio.timeout(_S_MAX):
            while self.count == before:
                await asyncio.sleep(_LOOKS_S)
        first, started = self.count, time.perf_counter()
        await self.wait_for(before + sent, _S_MAX)
        return (self.count - first) / (time.perf_counter() - started)

    async def live_per_s(self, seconds: float) -> float:
        rate, _ = await flood(self._publishers, self, seconds, FRAME_MAX)
        return rate

    async def wait_for(self, count: int, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            while self.count < count:
                assert not self._looking.done(), self._looking
                await asyncio.sleep(_LOOKS_S)

    async def _look(self) -> None:
        """What the connection point says of it."""
        while True:
            delivery = (await self._api.get(f"/v1/subscriptions/{self._id}")).raise_for_status().json()["delivery"]
            self.count, self.waiting = delivery["delivered"], delivery["waiting"]
            await asyncio.sleep(_LOOKS_S)

    def close(self) -> None:
        self._looking.cancel()


@contextlib.asynccontextmanager
async def open_sink(cluster: LocalCluster, topic: str, subscriptions: int) -> AsyncIterator[Sink]:
    api = cluster.api[0]
    turns = asyncio.Semaphore(_SUBSCRIBES_UNDER_WAY)

    async def subscribe(client: httpx.AsyncClient, number: int) -> str:
        deliver = {"kafka": {"topic": topic, "key": "sensor"}}
        wanted = {"filter": f"sensor = 's{number}' and value >= 0", "deliver": deliver}
        async with turns:
            answer = await client.post("/v1/subscriptions", json=wanted)
        id: str = answer.raise_for_status().json()["id"]
        return id

    async with httpx.AsyncClient(base_url=api, trust_env=False, timeout=60) as client:
        ids = await asyncio.gather(*(subscribe(client, number) for number in range(subscriptions)))
        async with open_publishers(api, _PUBLISHERS, subscriptions) as publishers:
            sink = Sink(client, ids[0], publishers)
            try:
                yield sink
            finally:
                sink.close()


async def _publish(publisher: Publisher, count: int) -> None:
    under_way = 0
    for _ in range(count // FRAME_MAX):
        if under_way == PUBLISHES_UNDER_WAY:
            await publisher.take_answer()
            under_way -= 1
        await publisher.send(FRAME_MAX)
        under_way += 1
    for _ in range(under_way):
        await publisher.take_answer()


@contextlib.asynccontextmanager
async def refusing(bootstrap: str, topic: str) -> AsyncIterator[None]:
    """More replicas have to be in sync than there are, so that nothing is written meanwhile."""
    await _need_replicas(bootstrap, topic, 2)
    try:
        yield
    finally:
        await _need_replicas(bootstrap, topic, 1)


async def _need_replicas(bootstrap: str, topic: str, count: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        wanted = ConfigResource(ConfigResourceType.TOPIC, topic, {"min.insync.replicas": str(count)})
        (answer,) = await admin.alter_configs([wanted])
        assert all(code == 0 for code, *_ in answer.resources), answer
    finally:
        await admin.close()
