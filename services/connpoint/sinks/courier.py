"""The topics of Kafka that a connection point delivers to: which subscriptions, what waits, how it stands."""

import asyncio
from collections.abc import Callable, Collection
from fnmatch import fnmatchcase

import structlog

from braid import metrics, problems
from braid.config import Settings
from braid.deliver import Topic
from braid.subscription import SubscriptionRecord
from services.connpoint.delivery import Addressed
from services.connpoint.door import DeliveryState
from services.connpoint.past_order import Key
from services.connpoint.sinks.arrivals import Arrival, Arrivals
from services.connpoint.sinks.entries import Entry
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
        letters = {source.dead_letter_topic for source in settings.kafka.sources}
        self._own_topics = {settings.ingress_topic, settings.telemetry.topic, *letters}
        self._outbox = outbox
        self._watermark_of = watermark_of
        self._make_writer = make_writer or self._topic_writer
        self._arrivals = Arrivals(outbox, self._on_written)
        self._topics: dict[str, Topic] = {}  # by subscription
        self._lanes: dict[str, Lane] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._dropped: dict[str, int] = {}  # by topic
        self._forget_at_s = 0.0
        self._is_restored = False  # all subscriptions are known

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
        if topic.topic in self._own_topics:
            raise problems.invalid(field, "this topic is Braid's own; nobody else may write to it")
        if topic.topic not in self._lanes and len(self._lanes) >= self._kafka.sink_lanes_max:
            raise problems.limit_exceeded("kafka.sink_lanes_max", self._kafka.sink_lanes_max, None, field)

    def expect(self, record: SubscriptionRecord) -> None:
        """Its subscription is delivered from here: it was made or changed, or was found when the process started."""
        assert isinstance(record.deliver, Topic)
        self._topics[record.id] = record.deliver
        self._open_lane(record.deliver.topic)

    def on_restored(self) -> None:
        self._is_restored = True

    def end(self, id: str) -> None:
        """Nothing more will come. What waits is written all the same."""
        self._topics.pop(id, None)

    def __contains__(self, id: str) -> bool:
        return id in self._topics

    # Notifications

    def deliver(self, addressed: list[Addressed], receipt: Callable[[], None]) -> None:
        """`receipt` is called when they are on disk."""
        batches, fresh = self._outbox.seen.fresh(addressed)
        self._arrivals.add(Arrival(self._by_topic(fresh), batches, (), receipt))

    async def give(self, addressed: list[Addressed], may_come: set[Key]) -> None:
        """Of the past, which nobody sends again, but for what may come live, too; returns when they are on disk."""
        written = asyncio.Event()
        given = [one for one in addressed if one.key in may_come]
        self._arrivals.add(Arrival(self._by_topic(addressed), (), given, written.set))
        await written.wait()

    def _by_topic(self, addressed: list[Addressed]) -> dict[str, list[Entry]]:
        entries: dict[str, list[Entry]] = {}
        for one in addressed:
            topic = self._topics.get(one.id)
            if topic is None:
                continue  # it has ended
            of_topic = entries.get(topic.topic)
            if of_topic is None:
                of_topic = entries[topic.topic] = []
            of_topic.append(Entry(one.id, topic.key, one.content))
        for name in [name for name in entries if self._outbox.line(name).bytes >= self._kafka.sink_bytes_max]:
            self._drop(name, len(entries.pop(name)))
        return entries

    def _drop(self, topic: str, count: int) -> None:
        if not self._dropped.get(topic):
            log.error("more waits for a topic than there is room for; what comes is dropped", topic=topic)
        self._dropped[topic] = self._dropped.get(topic, 0) + count
        metrics.KAFKA_SINK_RECORDS.labels(topic, "dropped").inc(count)

    def _on_written(self, topics: Collection[str]) -> None:
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
        """Those that no subscription needs any more, when nothing is left; and their lines."""
        if not self._is_restored:
            return
        used = {topic.topic for topic in self._topics.values()}
        for topic in [topic for topic in self._outbox.lines if topic not in used and self._outbox.is_empty(topic)]:
            self._outbox.close_line(topic)
            self._dropped.pop(topic, None)
            _forget_metrics(topic)
            lane = self._lanes.pop(topic, None)
            if lane is not None:
                closing = asyncio.get_running_loop().create_task(lane.close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)

    def _topic_writer(self, topic: str) -> Writer:
        return TopicWriter(self._name, topic, self._outbox.name, self._settings)


def _forget_metrics(topic: str) -> None:
    """Else there would be more of them with each topic that there ever was."""
    metrics.KAFKA_SINK_WAITING.remove(topic)
    metrics.KAFKA_SINK_FAILURES.remove(topic)
    for fate in ("written", "too large", "dropped"):
        metrics.KAFKA_SINK_RECORDS.remove(topic, fate)
