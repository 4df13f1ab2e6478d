"""A connection point without a cluster: what is published is kept, and notifications come when a test pushes them."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from braid import problems
from braid.anchor_map import AnchorMap
from braid.config import Settings
from braid.content import Content, check_content, finish_content
from braid.coordination_events import ScalingUnderWay
from braid.matching.meaning import accepts, read_publication
from braid.matching.pair_explanation import explain_pair
from braid.messages import Hop
from braid.scaling import Ask, Progress, ScalingRecord
from braid.subscription import (
    Subscription,
    SubscriptionPatch,
    SubscriptionRecord,
    apply_patch,
    check_subscription,
)
from braid.topology import Configuration, Registration
from services.connpoint.door import (
    Closed,
    DeadLetter,
    DeliveryState,
    Item,
    KeptPublication,
    MatchesExplained,
    Past,
)
from services.connpoint.http.app import create_app
from services.connpoint.http.server import HttpServer
from services.connpoint.scaling import Scalings
from tests.service.kept_publications import KeptPublications
from tests.service.waiting import TIMEOUT_S


class FakeAttachment:
    """An outbox that a test fills with `push` and ends with `close`."""

    def __init__(self, subscriber: str, *, temporary: bool, last_event_id: str | None, gap: str) -> None:
        self.subscriber = subscriber
        self.temporary = temporary
        self.last_event_id = last_event_id
        self.gap = gap
        self.closed: Closed | None = None
        self.detached = False
        self.dropped = 0
        self.waiting: deque[Item] = deque()
        self._changed = asyncio.Event()
        self._number = 0
        self._taken = 0

    def push(self, *payloads: bytes) -> None:
        for payload in payloads:
            self._number += 1
            self.waiting.append(Item(self._number, payload))
        self._changed.set()

    def close(self, reason: str, detail: str = "") -> None:
        self.closed = Closed(reason, detail)
        self._changed.set()

    async def take(self, most: int) -> list[Item]:
        while not self.waiting and self.closed is None:
            self._changed.clear()
            await self._changed.wait()
        if self.closed is not None:
            return []
        taken = [self.waiting.popleft() for _ in range(min(most, len(self.waiting)))]
        self._taken = taken[-1].number
        return taken

    def lost(self) -> int:
        lost, self.dropped = self.dropped, 0
        return lost

    def event_id(self, number: int) -> str:
        return f"{self.subscriber}-{number}"

    def position(self) -> str:
        return self.event_id(self._taken)

    def detach(self) -> None:
        self.detached = True


class FakeCoordination:
    """Keeps scalings as ZooKeeper would; a test is the coordinator that carries them out."""

    def __init__(self) -> None:
        self.records: dict[str, ScalingRecord] = {}
        self.progress: dict[str, tuple[Progress, ...]] = {}
        self.map: AnchorMap | None = None  # that was asked for last
        self.reads = 0  # how often somebody asked how far a scaling is
        self.error: Exception | None = None

    def put(self, record: ScalingRecord, *progress: Progress) -> None:
        self.records[record.id] = record
        self.progress[record.id] = progress

    async def ask_scaling(self, record: ScalingRecord, map: AnchorMap | None = None) -> None:
        self._check()
        for other in self.records.values():
            if other.state == "running":
                raise ScalingUnderWay(other.id)
        self.records[record.id] = record
        self.map = map

    async def read_scaling(self, id: str) -> ScalingRecord | None:
        self.reads += 1
        self._check()
        return self.records.get(id)

    async def list_scalings(self) -> list[ScalingRecord]:
        self._check()
        return list(self.records.values())

    async def read_progress(self, change_id: str) -> tuple[Progress, ...]:
        self._check()
        return self.progress.get(change_id, ())

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


class FakeDoor:
    def __init__(self, settings: Settings | None = None) -> None:
        self.name = "connpoint-1"
        self.settings = settings or Settings()
        self.publishing = asyncio.Event()  # set: calls pass at once; a test that clears it holds them
        self.reset()

    def reset(self) -> None:
        """As new, for the next test."""
        self.publishing.set()  # whoever still waits there may go
        self.publishing = asyncio.Event()
        self.publishing.set()
        self.published: list[tuple[str, bytes]] = []  # publisher, canonical content
        self.kept = KeptPublications(self.settings.limits)
        self.waiting_past: dict[str, list[bytes]] = {}  # by subscriber, until it attaches
        self.publish_calls = 0
        self.publish_called = asyncio.Event()
        self.publish_waits: list[bool] = []
        self.in_flight = 0
        self.in_flight_most = 0
        self.publish_error: Exception | None = None
        self.subscribe_error: Exception | None = None
        self.attach_error: Exception | None = None
        self.explain_error: Exception | None = None
        self.find_error: Exception | None = None
        self.traces: dict[str, list[Hop]] = {}
        self.traced: list[bool] = []
        self.records: dict[str, SubscriptionRecord] = {}
        self.delivering = DeliveryState(
            state="idle",
            waiting=0,
            waiting_bytes=0,
            attempts=0,
            failures=0,
            next_attempt_s=0.0,
            last_success_s=0.0,
            last_failure_s=0.0,
            last_error="",
            delivered=0,
            dead_letters=0,
            dropped=0,
        )
        self.dead_letters: list[DeadLetter] = []
        self.attachments: dict[str, FakeAttachment] = {}
        self.attached = asyncio.Event()
        self.gap = ""
        self.reasons: list[str] = []
        self.registrations = [
            _registration("connpoint-1", "connpoint"),
            _registration("accesspoint-1", "accesspoint"),
            _registration("matcher-1", "matcher"),
            _registration("matcher-2", "matcher"),
            _registration("exitpoint-1", "exitpoint"),
        ]
        self.coordination = FakeCoordination()
        self.in_force: Configuration | None = Configuration(3, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))

    def not_ready(self) -> list[str]:
        return self.reasons

    async def publish(self, publisher: str, contents: list[Content], *, wait: bool, trace: bool = False) -> list[str]:
        self.publish_calls += 1
        self.publish_called.set()
        self.publish_waits.append(wait)
        self.in_flight += 1
        self.in_flight_most = max(self.in_flight_most, self.in_flight)
        try:
            await self.publishing.wait()
            if self.publish_error is not None:
                raise self.publish_error
            encoded = self._accept(contents)
        finally:
            self.in_flight -= 1
        self.published += [(publisher, each) for each in encoded]
        for each in encoded:
            self.kept.add(each, time.time())
        self.traced.append(trace)
        return [content.id for content in contents]

    def _accept(self, contents: list[Content]) -> list[bytes]:
        """As the real one: a problem names the index unless there is only one."""
        encoded: list[bytes] = []
        try:
            for content in contents:
                check_content(content, self.settings.limits, time.time())
                content.id = content.id or f"p{len(self.published)}.{len(encoded)}"
                encoded.append(finish_content(content, self.settings.limits))
        except problems.Problem as problem:
            if len(contents) > 1:
                problem.members["field"] = problem.members["field"].replace("$", f"$[{len(encoded)}]", 1)
            raise
        return encoded

    async def subscribe(
        self, given: Subscription, *, subscriber: str, temporary: bool
    ) -> tuple[SubscriptionRecord, Past | None]:
        if self.subscribe_error is not None:
            raise self.subscribe_error
        await asyncio.sleep(0)
        now = time.time()
        record = check_subscription(
            given,
            self.settings.limits,
            now,
            id=f"s{len(self.records) + 1}" if given.deliver is None else f"a-{len(self.records) + 1}",
            subscriber=subscriber,
            home=self.name,
            temporary=temporary,
        )
        self.records[record.id] = record
        if record.from_s is None or record.from_s >= now:
            return record, None
        past = self._give_past(record, now)
        await asyncio.sleep(0.01)  # whoever takes from the outbox sees the past before the caller sees the answer
        return record, past

    def _give_past(self, record: SubscriptionRecord, now: float) -> Past:
        most = self.settings.delivery.past_notifications_max
        found = self.kept.find_past(record, now)
        payloads = [
            b'{"subscriptions":["%b"],"publication":%b}' % (record.id.encode(), kept.content)
            for kept in reversed(found[:most])
        ]
        if record.subscriber in self.attachments:
            self.attachments[record.subscriber].push(*payloads)
        else:
            self.waiting_past.setdefault(record.subscriber, []).extend(payloads)
        return Past(len(payloads), len(found) <= most)

    async def find_publications(self, wanted: Subscription, limit: int) -> list[KeptPublication]:
        if self.find_error is not None:
            raise self.find_error
        await asyncio.sleep(0)
        return self.kept.find_wanted(wanted, time.time())[:limit]

    async def change(self, id: str, patch: SubscriptionPatch) -> SubscriptionRecord:
        record = apply_patch(await self.find(id), patch, self.settings.limits, time.time())
        self.records[id] = record
        return record

    async def unsubscribe(self, id: str) -> None:
        if self.records.pop(id, None) is None:
            raise problems.not_found("subscription", id)

    async def find(self, id: str) -> SubscriptionRecord:
        if id not in self.records:
            raise problems.not_found("subscription", id)
        return self.records[id]

    async def find_by_subscriber(self, subscriber: str) -> AsyncIterator[list[SubscriptionRecord]]:
        found = [record for record in self.records.values() if subscriber in ("", record.subscriber)]
        for start in range(0, len(found), 2):
            yield found[start : start + 2]

    async def delivery_of(self, id: str) -> DeliveryState:
        return self._delivering(id)

    async def dead_letters_of(self, id: str, most: int) -> list[DeadLetter]:
        self._delivering(id)
        return self.dead_letters[:most]

    async def replay(self, id: str, letters: set[str] | None) -> tuple[int, int]:
        self._delivering(id)
        again = [letter for letter in self.dead_letters if letters is None or letter.id in letters]
        self.dead_letters = [letter for letter in self.dead_letters if letter not in again]
        return len(again), sum(len(letter.publications) for letter in again)

    def _delivering(self, id: str) -> DeliveryState:
        if id not in self.records or self.records[id].deliver is None:
            raise problems.not_found("subscription with a webhook", id)
        return self.delivering

    async def explain(self, content: Content, subscription: str) -> MatchesExplained:
        if self.explain_error is not None:
            raise self.explain_error
        now = time.time()
        check_content(content, self.settings.limits, now)
        publication = read_publication(finish_content(content, self.settings.limits))
        explanation = b""
        if subscription:
            pair = explain_pair(await self.find(subscription), publication, None, now)
            explanation = msgspec.json.encode(pair)
        ids = sorted(record.id for record in self.records.values() if accepts(record, publication, None, now))
        return MatchesExplained(ids, len(ids), explanation)

    async def attach(self, subscriber: str, *, temporary: bool, last_event_id: str | None) -> FakeAttachment:
        if self.attach_error is not None:
            raise self.attach_error
        await asyncio.sleep(0)
        if subscriber in self.attachments:
            self.attachments[subscriber].close("replaced", "a newer connection took over")
        attachment = FakeAttachment(subscriber, temporary=temporary, last_event_id=last_event_id, gap=self.gap)
        self.attachments[subscriber] = attachment
        attachment.push(*self.waiting_past.pop(subscriber, []))
        self.attached.set()
        return attachment

    def trace_of(self, publication_id: str) -> list[Hop] | None:
        return self.traces.get(publication_id)

    def slices(self) -> list[Registration]:
        return self.registrations

    def configuration(self) -> Configuration | None:
        return self.in_force

    @property
    def scalings(self) -> Scalings:
        return Scalings(self.coordination, self.configuration)

    async def scale(self, ask: Ask, map: AnchorMap | None = None) -> str:
        return await self.scalings.ask(ask, map)

    async def find_scaling(self, id: str) -> ScalingRecord:
        return await self.scalings.find(id)

    async def list_scalings(self) -> list[ScalingRecord]:
        return await self.scalings.all()

    async def progress_of(self, id: str) -> tuple[Progress, ...]:
        return await self.scalings.progress(id)

    def stop(self) -> None:
        self.publishing.set()
        for attachment in self.attachments.values():
            if attachment.closed is None:
                attachment.close("stopping", "the connection point stops")


def _registration(name: str, layer: str) -> Registration:
    return Registration(
        name=name,
        layer=layer,  # type: ignore[arg-type]  # a layer by its name
        address="127.0.0.1:1",
        http="127.0.0.1:2",
        pid=1,
        incarnation=1,
        version="0.1.0",
    )


async def closing_of(ws: ClientConnection) -> tuple[int | None, str]:
    """Reads everything that is left; the code and the reason of the close frame, if there was one."""
    try:
        while True:
            await asyncio.wait_for(ws.recv(), TIMEOUT_S)
    except ConnectionClosed as closed:
        return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (None, "")


async def stuck(attachment: FakeAttachment) -> None:
    """Pushes until the connection takes no more, because its client does not read."""
    payload = b'"%b"' % (b"x" * 400_000)
    attachment.push(*[payload] * 100)
    async with asyncio.timeout(20):
        before, unchanged = -1, 0
        while unchanged < 4:  # a busy machine may also pause for a moment
            unchanged = unchanged + 1 if len(attachment.waiting) == before else 0
            before = len(attachment.waiting)
            await asyncio.sleep(0.15)
            if not attachment.waiting:
                attachment.push(*[payload] * 100)


class Served(NamedTuple):
    """The real interface on a real port, before a fake door."""

    door: FakeDoor
    client: httpx.AsyncClient
    port: int
    server: HttpServer

    def connect(self, query: str = "", **options: Any) -> connect:
        """A WebSocket to it."""
        url = f"ws://127.0.0.1:{self.port}/v1/ws{query}"
        return connect(url, **{"compression": None, "max_size": None, "proxy": None, **options})


@asynccontextmanager
async def serving(settings: Settings | None = None, **app_options: Any) -> AsyncIterator[Served]:
    door = FakeDoor(settings)
    server = HttpServer(create_app(door, **app_options), door.settings, "127.0.0.1", 0)
    port = await server.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=20) as client:
            yield Served(door, client, port, server)
    finally:
        door.stop()
        await server.stop()


def problem_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """The problem document of an answer, after checking that it is one."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["status"] == status
    assert document["type"].startswith("urn:braid:problem:")
    assert document["title"]
    assert document["detail"]
    assert "Traceback" not in response.text
    return document
