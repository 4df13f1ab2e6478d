"""A real Kafka broker for the tests of this directory; where it cannot run they are skipped, and say why.

They stay together on one worker (`tests/distribution.py`), so that one broker serves all of them: each makes topics and
groups of its own names.
"""

from collections.abc import Iterator

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
