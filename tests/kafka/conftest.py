"""A real Kafka broker for the tests of this directory; where it cannot run they are skipped, and say why.

They stay together on one worker (`tests/distribution.py`), so that one broker serves all of them: each makes topics and
groups of its own names.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.kafka import KafkaServer, KafkaUnusable


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    try:
        server = KafkaServer(tmp_path_factory.mktemp("kafka"))
        server.start()
    except KafkaUnusable as error:
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture
def running_kafka(kafka: KafkaServer) -> KafkaServer:
    """For tests that do not stop it: it runs, whatever the test before this one did to it."""
    kafka.start()
    return kafka


class MockCluster:
    """The cluster of mock brokers that comes with librdkafka: it runs anywhere, and does what is needed of it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        (broker,) = client.list_topics(timeout=10).brokers.values()
        self.bootstrap = f"{broker.host}:{broker.port}"

    def make_topics(self, *topics: str) -> None:
        """It makes topics that it is asked for, with four partitions each."""
        for topic in topics:
            self._client.list_topics(topic, timeout=10)


@pytest.fixture(scope="session")
def mock_kafka() -> MockCluster:
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka, whose mock cluster this needs")
    return MockCluster(confluent_kafka.Producer({"bootstrap.servers": "mock:1", "test.mock.num.brokers": 1}))
