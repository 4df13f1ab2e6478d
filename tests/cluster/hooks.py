"""Subscriptions with webhooks, and what came to the receiver: compared with what publishers were acknowledged."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import httpx
from standardwebhooks.webhooks import Webhook as Verifier
from starlette.responses import Response

from tests.cluster.clients import Publisher
from tests.service.webhook_receiver import Posted, Receiver

SETTLES_S = 40.0


class Late(Response):
    """204, but not at once: so long a request is under way."""

    def __init__(self, after_s: float) -> None:
        super().__init__(status_code=204)
        self._after_s = after_s

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(self._after_s)
        await super().__call__(scope, receive, send)


class Hook:
    """One subscription to a sensor, posted to a path of the receiver, or to another url at first."""

    def __init__(self, receiver: Receiver, path: str, sensor: int, url: str = "") -> None:
        self.receiver = receiver
        self.path = path
        self.sensor = sensor
        self.url = url or receiver.url(path)
        self.id = ""
        self.since_s = 0.0
        self._secret = ""

    async def subscribe(self, api: str) -> None:
        body = {
            "filter": f"sensor = {self.sensor}",
            "subscriber": f"whoever waits at {self.path}",
            "deliver": {"webhook": {"url": self.url}},
        }
        made = await call(api, "POST", "/v1/subscriptions", body)
        self.since_s = time.monotonic()
        self.id, self._secret = made["id"], made["deliver"]["webhook"]["secret"]

    # What the cluster says

    async def delivery(self, api: str) -> dict[str, Any]:
        shown = await call(api, "GET", f"/v1/subscriptions/{self.id}")
        delivery: dict[str, Any] = shown["delivery"]
        return delivery

    async def dead_letters(self, api: str) -> list[dict[str, Any]]:
        listed = await call(api, "GET", f"/v1/subscriptions/{self.id}/dead-letters?limit=1000")
        letters: list[dict[str, Any]] = listed["dead_letters"]
        return letters

    async def replay(self, api: str, ids: list[str] | None = None) -> dict[str, int]:
        body = {} if ids is None else {"ids": ids}
        replayed: dict[str, int] = await call(api, "POST", f"/v1/subscriptions/{self.id}/dead-letters/replay", body)
        return replayed

    async def change(self, api: str, url: str) -> None:
        await call(api, "PATCH", f"/v1/subscriptions/{self.id}", {"deliver": {"webhook": {"url": url}}})

    async def remove(self, api: str) -> None:
        await call(api, "DELETE", f"/v1/subscriptions/{self.id}")

    # What came

    def promised(self, publishers: Iterable[Publisher]) -> list[str]:
        """Acknowledged, and sent after the subscription was."""
        return [id for publisher in publishers for id in publisher.of_sensor(self.sensor, self.since_s)]

    def lost(self, publishers: Iterable[Publisher]) -> list[str]:
        got = set(self.receiver.publications(self.path))
        return [f"{id} for {self.path}" for id in self.promised(publishers) if id not in got]

    def twice(self) -> list[str]:
        times = Counter(self.receiver.publications(self.path))
        return [f"{id} to {self.path}" for id, number in times.items() if number > 1]

    def twice_under_another_id(self) -> list[str]:
        """Those repetitions that a receiver which drops a `webhook-id` that it has had would not notice."""
        times: Counter[str] = Counter()
        for publications in {posted.id: posted.publications for posted in self._posted}.values():
            times.update(publications)
        return [f"{id} to {self.path}" for id, number in times.items() if number > 1]

    def changed_bodies(self) -> list[str]:
        bodies: dict[str, set[bytes]] = {}
        for posted in self._posted:
            bodies.setdefault(posted.id, set()).add(posted.body)
        return [id for id, several in bodies.items() if len(several) > 1]

    def out_of_order(self) -> list[str]:
        """Of the first arrivals of each publisher; the numbers in its ids grow."""
        disorder: list[str] = []
        last: dict[str, str] = {}
        for id in dict.fromkeys(self.receiver.publications(self.path)):
            source = id.rpartition("-")[0]
            if last.get(source, "") > id:
                disorder.append(f"{id} after {last[source]} to {self.path}")
            last[source] = max(last.get(source, ""), id)
        return disorder

    def wrong(self, publishers: Iterable[Publisher]) -> list[str]:
        """Of another sensor, or never published."""
        sensors = {id: sensor for publisher in publishers for id, sensor in publisher.acknowledged.items()}
        unanswered = {id for publisher in publishers for id in publisher.unanswered}
        got = self.receiver.publications(self.path)
        return [id for id in got if id not in unanswered and sensors.get(id) != self.sensor]

    def verify(self) -> None:
        """As any receiver can: with a library of Standard Webhooks and the secret. Raises when a signature is wrong."""
        assert self._posted
        for posted in self._posted:
            Verifier(self._secret).verify(posted.body, posted.headers)

    def latencies_s(self, publishers: Iterable[Publisher]) -> list[float]:
        """From when a publication was sent to when it came first."""
        began_s = {id: at_s for publisher in publishers for id, at_s in publisher.began_s.items()}
        came_s: dict[str, float] = {}
        for posted in self._posted:
            for id in posted.publications:
                came_s.setdefault(id, posted.at_s)
        return sorted(at_s - began_s[id] for id, at_s in came_s.items() if id in began_s)

    @property
    def _posted(self) -> list[Posted]:
        return self.receiver.posted[self.path]


async def settled(hooks: list[Hook], publishers: list[Publisher]) -> None:
    """Until nothing is missing, or long enough that it never will come."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLES_S):
            while any(hook.lost(publishers) for hook in hooks):
                await asyncio.sleep(0.1)
    await asyncio.sleep(0.5)  # a repetition would come after the original


async def call(api: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=api, trust_env=False, timeout=20) as client:
        answer = await client.request(method, path, json=body)
    assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
    return answer.json() if answer.content else {}


async def until(condition: Callable[[], Awaitable[bool]], timeout_s: float = 60.0) -> None:
    """The condition is called, and awaited, again and again."""
    async with asyncio.timeout(timeout_s):
        while not await condition():
            await asyncio.sleep(0.1)
