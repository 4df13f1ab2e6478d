"""A sink before a mock cluster, without slices around it: what is delivered to a topic is there, once."""

import time
from pathlib import Path

import pytest

from braid.config import Kafka, Settings
from services.connpoint.sinks.courier import TopicCourier
from services.connpoint.sinks.outbox import SinkOutbox
from tests.kafka.conftest import MockCluster
from tests.kafka.producing import headers_of, read_topic, unique
from tests.service.test_sinks import deliver, record
from tests.service.ticking import ticked
from tests.service.waiting import until

pytestmark = pytest.mark.slow  # the mock cluster takes a moment to make topics


@pytest.mark.parametrize("sink", ["transactional", "idempotent"])
async def test_what_is_delivered_is_in_the_topic_in_its_order(
    mock_kafka: MockCluster, tmp_path: Path, sink: str
) -> None:
    topic = unique("out")
    mock_kafka.make_topics(topic)
    kafka = Kafka.model_validate({"bootstrap": mock_kafka.bootstrap, "sink_topics": ["out*"], "sink": sink})
    settings = Settings(kafka=kafka)
    for numbers in ((1, 2, 3), (4, 5)):  # the second time by one that was started again
        courier = TopicCourier("connpoint-1", settings, SinkOutbox(tmp_path, settings.ingress), lambda _: 0)
        await courier.open()
        async with ticked(courier.on_tick, time.time):
            courier.expect(record(topic))
            await deliver(courier, *numbers)
            await until(lambda courier=courier: not courier.delivery_of("a-1").waiting)  # type: ignore[misc]
        await courier.close()
    # The checksums of what was written in a transaction do not fit in the mock cluster; a real one checks them itself.
    found = await read_topic(mock_kafka.bootstrap, topic, 5, check_crcs=sink != "transactional")
    assert [one.value for one in found] == [b'{"id":"p%d"}' % number for number in range(1, 6)]
    assert {headers_of(one)["braid-subscription"] for one in found} == {b"a-1"}
