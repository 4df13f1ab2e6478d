"""A cluster in containers, shared by all tests of this directory. It takes minutes, so it has to be asked for."""

import os
from collections.abc import Iterator

import pytest

from benchmarks.local_cluster import free_port
from tests.compose.docker_host import Docker, Unusable, docker_host, ensure_base

WANTED = "COMPOSE_TESTS"


@pytest.fixture(scope="session")
def docker() -> Iterator[Docker]:
    """Images are built, nothing is started. When it ends, nothing of it is left."""
    if not os.environ.get(WANTED):
        pytest.skip(f"a cluster in containers takes minutes; ./dev test --compose starts one ({WANTED}=1 asks for it)")
    project = f"braidtest{os.getpid()}"
    ports = {name: str(free_port()) for name in ("API_PORTS", "PROMETHEUS_PORT")}
    try:
        with docker_host() as host:
            docker = Docker(
                host, project, {**ports, "PROMETHEUS_IMAGE": "braid-test-prometheus", "KAFKA_IMAGE": "braid-test-kafka"}
            )
            ensure_base(docker)
            docker.compose("--profile", "spark", "build", timeout_s=1800)
            try:
                yield docker
            finally:
                every = ["--profile", "metrics", "--profile", "kafka", "--profile", "spark"]
                docker.compose(*every, "down", "--volumes", "--remove-orphans", "--timeout", "10")
    except Unusable as why:
        pytest.skip(str(why))
