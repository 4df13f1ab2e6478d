"""The topics of Kafka that a connection point delivers to: which subscriptions, what waits, how it stands."""

import asyncio
import time
from collections.abc import Callable
from fnmatch import fnmatchcase

import structlog

from braid import metrics, problems
from braid.config import Settings
from braid.deliver import Topic
from braid.subscription import SubscriptionRecord
from services.connpoint.delivery import Addressed
from services.connpoint.door import DeliveryState
from services.connpoint.sinks.arrivals import Arrival, Arrivals
from services.connpoint.sinks.entries import Entry, content_of, encode_entry
from services.connpoint.sinks.lane import Lane, Writer
from services.connpoint.sinks.outbox import SinkOutbox
from services.connpoint.sinks.writing import TopicWriter

log = structlog.get_logger()

_FORGET_EVERY_S = 1.0


class TopicCourier:
    def __init__(
        self,
        name: str,
        settings: Settings,
        outbox: SinkOutbox,
        watermark_of: Callable[[str], int],
        make_writer: Callable[[str], Writer] | None = None,
    ) -> None:
        self._name = name
        self._settings = settings
        self._kafka = settings.kafka
        self._outbox = outbox
        self._watermark_of = watermark_of
        self._make_writer = make_writer or self._topic_writer
        self._arrivals = Arrivals(outbox, self._on_written)
        self._topics: dict[str, Topic] = {}  # by subscription
        self._lanes: dict[str, Lane] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._dropped: dict[str, int] = {}  # by topic
        self._forget_at_s = 0.0

    async def open(self) -> None:
        await self._outbox.open()
        for topic, line in self._outbox.lines.items():
            if line.waiting:
                self._open_lane(topic)

    # Subscriptions

    def check(self, topic: Topic) -> None:
        """Whether it may be delivered to; raises `Problem`."""
        field = "$.deliver.kafka.topic"
        if not self._kafka.bootstrap:
            raise problems.invalid("$.deliver.kafka", "this cluster knows no Kafka (kafka.bootstrap)")
        if not any(fnmatchcase(topic.topic, allowed) for allowed in self._kafka.sink_topics):
            raise problems.invalid(field, "this topic is not among those that may be written to (kafka.sink_topics)")
        if any(topic.topic == source.topic for source in self._kafka.sources):
            raise problems.invalid(field, "this topic is a source: what is written to it would be published again")
        if topic.topic not in self._lanes and len(self._lanes) >= self._kafka.sink_lanes_max:
            raise problems.limit_exceeded("kafka.sink_lanes_max", self._kafka.sink_lanes_max, None, field)

    def expect(self, record: SubscriptionRecord) -> None:
        """Its subscription is delivered from here: it was made or changed, or was found when the process started."""
        assert isinstance(record.deliver, Topic)
        self._topics[record.id] = record.deliver
        self._open_lane(record.deliver.topic)

    def end(self, id: str) -> None:
        """Nothing more will come. What waits is written all the same."""
        self._topics.pop(id, None)

    def __contains__(self, id: str) -> bool:
        return id in self._topics

    # Notifications

    def deliver(self, addressed: list[Addressed], receipt: Callable[[], None]) -> None:
        """`receipt` is called when they are on disk."""
        fresh = [one for one in addressed if not self._outbox.has_seen(one.key[0], one.key[1])]
        batches = {one.key[:2] for one in fresh}
        self._arrivals.add(Arrival(self._entries(fresh), batches, receipt))

    async def give(self, addressed: list[Addressed]) -> None:
        """Of the past, which nobody sends again; returns when they are on disk."""
        written = asyncio.Event()
        self._arrivals.add(Arrival(self._entries(addressed), set(), written.set))
        await written.wait()

    def _entries(self, addressed: list[Addressed]) -> list[tuple[str, bytes]]:
        now_ms, entries = int(time.time() * 1000), []
        for one in addressed:
            topic = self._topics.get(one.id)
            if topic is None:
                continue  # it has ended
            if self._outbox.line(topic.topic).bytes >= self._kafka.sink_bytes_max:
                self._drop(topic.topic)
                continue
            entries.append((topic.topic, encode_entry(Entry(one.id, topic.key, content_of(one), now_ms))))
        return entries

    def _drop(self, topic: str) -> None:
        if not self._dropped.get(topic):
            log.error("more waits for a topic than there is room for; what comes is dropped", topic=topic)
        self._dropped[topic] = self._dropped.get(topic, 0) + 1
        metrics.KAFKA_SINK_RECORDS.labels(topic, "dropped").inc()

    def _on_written(self, topics: set[str]) -> None:
        for topic in topics:
            self._open_lane(topic).wake()

    # What is asked of it

    def delivery_of(self, id: str) -> DeliveryState:
        """Of its topic: subscriptions with the same one share a line."""
        topic = self._topics.get(id)
        if topic is None:
            raise problems.not_found("subscription with a topic", id)
        lane, line = self._lanes[topic.topic], self._outbox.line(topic.topic)
        return DeliveryState(
            state=lane.state,
            waiting=line.waiting,
            waiting_bytes=line.bytes,
            attempts=lane.failures,
            failures=lane.failures,
            next_attempt_s=lane.next_attempt_s if lane.state == "pausing" else 0.0,
            last_success_s=lane.last_success_s,
            last_failure_s=lane.last_failure_s,
            last_error=lane.last_error,
            delivered=lane.delivered,
            dead_letters=0,
            dropped=self._dropped.get(topic.topic, 0),
        )

    # Time

    def on_tick(self, now_s: float) -> None:
        self._arrivals.write()
        if now_s >= self._forget_at_s:
            self._forget_at_s = now_s + _FORGET_EVERY_S
            self._outbox.forget_seen(self._watermark_of)
            self._close_lanes()
            for topic, line in self._outbox.lines.items():
                metrics.KAFKA_SINK_WAITING.labels(topic).set(line.waiting)
            metrics.KAFKA_SINK_BYTES.set(sum(line.bytes for line in self._outbox.lines.values()))
        self._outbox.flush()

    async def close(self) -> None:
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()), *self._closing)
        await self._outbox.close()

    def _open_lane(self, topic: str) -> Lane:
        lane = self._lanes.get(topic)
        if lane is None:
            lane = self._lanes[topic] = Lane(topic, self._outbox, self._make_writer(topic))
        return lane

    def _close_lanes(self) -> None:
        """Those that no subscription needs any more, when nothing is left."""
        used = {topic.topic for topic in self._topics.values()}
        for topic in [topic for topic in self._lanes if topic not in used and not self._outbox.line(topic).waiting]:
            closing = asyncio.get_running_loop().create_task(self._lanes.pop(topic).close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _topic_writer(self, topic: str) -> Writer:
        return TopicWriter(self._name, topic, self._outbox.name, self._settings)
