"""The cluster of docker-compose.yml, for real: from nothing to ready, other numbers under load, containers that are
stopped and killed. The tests share one cluster and come in their order.
"""

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator

import pytest

from coordinator.kafka_jars import KafkaUnusable
from tests.cluster.traffic import Traffic
from tests.compose import kafka_image
from tests.compose.docker_host import BASE, Docker
from tests.compose.running import ComposedCluster, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]  # images may have to be built

PAUSE_S = 0.03  # between the batches of each publisher
LAYERS = ("connpoint", "accesspoint", "matcher", "exitpoint")


@pytest.fixture(scope="module")
def cluster(docker: Docker) -> ComposedCluster:
    cluster = ComposedCluster(docker, f"http://127.0.0.1:{docker.variables['API_PORTS']}")
    cluster.up(matcher=3)
    until(cluster.is_ready)
    return cluster


@pytest.fixture
async def traffic(cluster: ComposedCluster) -> AsyncIterator[Traffic]:
    """Flows during the whole test, and for a moment before and afterwards; then everything sent is looked for."""
    traffic = Traffic(publishers=3, subscribers=4, newcomers=1, name=uuid.uuid4().hex)
    async with traffic.flowing([cluster.api], [cluster.api], PAUSE_S):
        await some_more(traffic)
        yield traffic
        await asyncio.to_thread(until, cluster.is_ready)
        await some_more(traffic)
    traffic.check()


async def some_more(traffic: Traffic) -> None:
    before = traffic.acknowledged
    async with asyncio.timeout(60):
        while traffic.acknowledged < before + 200:
            await asyncio.sleep(0.05)


def test_every_profile_is_well_formed(docker: Docker) -> None:
    profiles = [option for name in ("metrics", "kafka", "spark") for option in ("--profile", name)]
    services = docker.compose(*profiles, "config", "--services").split()
    assert {*LAYERS, "zookeeper", "coordinator", "prometheus", "grafana", "kafka", "spark-worker"} < set(services)


def test_three_matchers_register_and_one_is_configured(cluster: ComposedCluster) -> None:
    until(lambda: len(cluster.slices("matcher")) == 3)
    assert sorted(cluster.slices("matcher")) == ["matcher-1", "matcher-2", "matcher-3"]
    assert len(cluster.configured("matcher")) == 1
    assert len(cluster.docker.containers("coordinator")) == 2


def test_every_container_is_healthy_and_nobody_is_root(cluster: ComposedCluster) -> None:
    for service in (*LAYERS, "coordinator", "zookeeper"):
        for container in cluster.docker.containers(service):
            until(lambda container=container: health(cluster.docker, container) == "healthy")  # type: ignore[misc]
            assert cluster.docker.docker("exec", container, "id", "-u").strip() == "10001"
    for container in cluster.docker.containers("matcher"):
        assert "compiling the matching engine" not in cluster.log(container)  # the image has it


def health(docker: Docker, container: str) -> str:
    return docker.docker("inspect", "--format", "{{.State.Health.Status}}", container).strip()


async def test_scaling_takes_in_what_is_registered_under_load(cluster: ComposedCluster, traffic: Traffic) -> None:
    for number in (3, 2, 3):
        said = await asyncio.to_thread(cluster.braid, "scale", "matcher", str(number))
        assert "done in" in said
        assert len(await asyncio.to_thread(cluster.configured, "matcher")) == number
        await some_more(traffic)


async def test_stopping_a_container_drains_its_slice_first(cluster: ComposedCluster, traffic: Traffic) -> None:
    container = await asyncio.to_thread(cluster.container_of, "matcher-2")
    await asyncio.to_thread(cluster.docker.docker, "stop", "--time", "60", container)
    assert await asyncio.to_thread(cluster.configured, "matcher") == ["matcher-1", "matcher-3"]
    assert "asks to be left out" in await asyncio.to_thread(cluster.log, container)
    assert exit_code(cluster.docker, container) == 0
    await some_more(traffic)
    # It comes back under its name, and takes the place of the next one that is stopped.
    await asyncio.to_thread(cluster.docker.docker, "start", container)
    await asyncio.to_thread(until, lambda: "matcher-2" in cluster.slices("matcher"))
    other = await asyncio.to_thread(cluster.container_of, "matcher-3")
    await asyncio.to_thread(cluster.docker.docker, "stop", "--time", "60", other)
    assert await asyncio.to_thread(cluster.configured, "matcher") == ["matcher-1", "matcher-2"]
    await asyncio.to_thread(cluster.docker.docker, "start", other)


def exit_code(docker: Docker, container: str) -> int:
    return int(docker.docker("inspect", "--format", "{{.State.ExitCode}}", container))


async def test_fewer_containers_are_fewer_slices_and_more_can_be_taken_in(
    cluster: ComposedCluster, traffic: Traffic
) -> None:
    """What compose stops, and under which numbers, is its own business."""
    await asyncio.to_thread(until, lambda: len(cluster.slices("matcher")) == 3)
    await asyncio.to_thread(cluster.up, matcher=1)
    assert len(await asyncio.to_thread(cluster.configured, "matcher")) == 1
    await some_more(traffic)
    await asyncio.to_thread(cluster.up, matcher=2, accesspoint=2, exitpoint=2)
    await asyncio.to_thread(
        until, lambda: all(len(cluster.slices(layer)) == 2 for layer in ("matcher", "accesspoint", "exitpoint"))
    )
    said = await asyncio.to_thread(cluster.braid, "scale", "matcher=2", "accesspoint=2", "exitpoint=2")
    assert "done in" in said
    await some_more(traffic)
    for layer in ("accesspoint", "exitpoint"):
        (first, *_) = await asyncio.to_thread(cluster.docker.containers, layer)
        await asyncio.to_thread(cluster.docker.docker, "stop", "--time", "60", first)
        assert len(await asyncio.to_thread(cluster.configured, layer)) == 1
    await some_more(traffic)


@pytest.mark.parametrize("layer", ["matcher", "accesspoint", "exitpoint", "coordinator"])
async def test_a_container_is_killed(cluster: ComposedCluster, traffic: Traffic, layer: str) -> None:
    (first, *_) = await asyncio.to_thread(cluster.docker.containers, layer)
    before = await asyncio.to_thread(cluster.slices, layer)
    await asyncio.to_thread(cluster.docker.docker, "kill", first)
    await asyncio.sleep(1.0)
    await asyncio.to_thread(cluster.docker.docker, "start", first)
    await asyncio.to_thread(until, lambda: cluster.slices(layer).keys() == before.keys() and cluster.is_ready())
    await some_more(traffic)


async def test_a_process_that_dies_is_started_again(cluster: ComposedCluster, traffic: Traffic) -> None:
    (name, *_) = await asyncio.to_thread(cluster.configured, "matcher")
    container = await asyncio.to_thread(cluster.container_of, name)
    await asyncio.to_thread(kill_inside, cluster.docker, container)
    await asyncio.to_thread(
        until, lambda: cluster.docker.docker("inspect", "--format", "{{.RestartCount}}", container).strip() == "1"
    )
    await asyncio.to_thread(until, lambda: name in cluster.configured("matcher"))
    await some_more(traffic)


def kill_inside(docker: Docker, container: str) -> None:
    """Everything below process 1, which then ends too; docker starts the container again."""
    docker.docker("exec", container, "sh", "-c", "kill -9 $(cat /proc/1/task/1/children | cut -d' ' -f1)")


async def test_a_connection_point_is_stopped_and_started(cluster: ComposedCluster) -> None:
    traffic = Traffic(publishers=2, subscribers=2, name=uuid.uuid4().hex)
    for publisher in traffic.publishers:
        publisher.may_be_refused = True
    for subscriber in traffic.subscribers:
        subscriber.may_break = True
    (container,) = await asyncio.to_thread(cluster.docker.containers, "connpoint")
    async with traffic.flowing([cluster.api], [cluster.api], PAUSE_S):
        await some_more(traffic)
        await asyncio.to_thread(cluster.docker.docker, "stop", "--time", "60", container)
        assert "nothing that was accepted waits for it" in await asyncio.to_thread(cluster.log, container)
        await asyncio.to_thread(cluster.docker.docker, "start", container)
        await asyncio.to_thread(until, cluster.is_ready)
        await some_more(traffic)
        await some_more(traffic)
    traffic.check()


async def test_every_container_is_replaced_by_a_new_one(cluster: ComposedCluster) -> None:
    """As for another version: new containers come beside the old ones, and take over when these are stopped."""
    cluster.up(matcher=2, accesspoint=1, exitpoint=1)
    until(lambda: len(cluster.slices("matcher")) == 2 and cluster.is_ready())
    cluster.braid("scale", "matcher=2", "accesspoint=1", "exitpoint=1")
    traffic = Traffic(publishers=2, subscribers=2, name=uuid.uuid4().hex)
    for publisher in traffic.publishers:
        publisher.may_be_refused = True
    for subscriber in traffic.subscribers:
        subscriber.may_break = True
    async with traffic.flowing([cluster.api], [cluster.api], PAUSE_S):
        await some_more(traffic)
        for layer, number in (("exitpoint", 1), ("matcher", 2), ("accesspoint", 1)):
            await asyncio.to_thread(replace_containers, cluster, layer, number)
            await some_more(traffic)
        assert not any(subscriber.earlier for subscriber in traffic.subscribers)
        for service, number in (("coordinator", 2), ("connpoint", 1)):
            before = await asyncio.to_thread(cluster.ids, service)
            await asyncio.to_thread(cluster.recreate, service, number)
            assert not set(before) & set(await asyncio.to_thread(cluster.ids, service))
            await asyncio.to_thread(until, cluster.is_ready)
            await some_more(traffic)
    traffic.check()


def replace_containers(cluster: ComposedCluster, layer: str, number: int) -> None:
    old = cluster.docker.containers(layer)
    names = cluster.configured(layer)
    assert len(old) == len(names) == number
    cluster.more(layer, 2 * number)
    until(lambda: len(cluster.slices(layer)) == 2 * number)
    for container in old:
        cluster.docker.docker("stop", "--time", "60", container)
        cluster.docker.docker("rm", container)
    assert len(cluster.configured(layer)) == number
    assert not set(names) & set(cluster.configured(layer))


def test_the_whole_cluster_stops_and_starts_as_it_was(cluster: ComposedCluster) -> None:
    cluster.up(matcher=2, accesspoint=1, exitpoint=1)
    until(lambda: len(cluster.slices("matcher")) == 2 and cluster.is_ready())
    cluster.braid("scale", "matcher", "2")
    before = {layer: cluster.configured(layer) for layer in LAYERS}
    cluster.docker.compose("stop")
    (container, *_) = re.findall(r"\S+matcher\S+", cluster.docker.docker("ps", "--all", "--format", "{{.Names}}"))
    assert "the whole cluster stops" in cluster.log(container)
    cluster.docker.compose("start")
    until(cluster.is_ready)
    until(lambda: {layer: cluster.configured(layer) for layer in LAYERS} == before)


async def test_the_volume_of_zookeeper_is_lost(cluster: ComposedCluster) -> None:
    """The settings want one matcher, and two have subscriptions: both refuse a configuration that forgets one. Without
    one, slices take the first names that are free, so all are started again when the right one is back.
    """
    cluster.up(matcher=2, accesspoint=1, exitpoint=1)
    until(lambda: len(cluster.slices("matcher")) == 2 and cluster.is_ready())
    cluster.braid("scale", "matcher=2", "accesspoint=1", "exitpoint=1")
    for layer in ("exitpoint", "accesspoint"):
        replace_containers(cluster, layer, 1)
    before = cluster.configured("matcher")
    for number in range(40):
        cluster.post("/v1/subscriptions", {"filter": f"value = {number}", "subscriber": "dashboard"})
    cluster.docker.compose("down", "--timeout", "60")
    cluster.docker.docker("volume", "rm", f"{cluster.docker.project}_zookeeper")
    cluster.up(matcher=2)
    until(lambda: any("is refused" in cluster.log(name) for name in cluster.docker.containers("matcher")))
    assert not cluster.is_ready()
    cluster.docker.compose("stop")
    cluster.docker.compose("start", "zookeeper")
    restoring = ["run", "--rm", "--no-deps", "-T", "matcher", "python", "-m", "coordinator.restoring"]
    assert "restored: epoch" in cluster.docker.compose(*restoring)
    cluster.docker.compose("start")
    until(cluster.is_ready)
    until(lambda: cluster.configured("matcher") == before)
    found = cluster.get("/v1/subscriptions?subscriber=dashboard&limit=1000")["subscriptions"]
    assert {each["filter"] for each in found} == {f"value = {number}" for number in range(40)}


PROMETHEUS = f"""\
FROM {BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends prometheus && mkdir -p /prometheus
ENTRYPOINT ["prometheus"]
"""


def test_prometheus_finds_every_container(cluster: ComposedCluster) -> None:
    """Debian's Prometheus in the place of the official image, with the configuration of this repository."""
    docker = cluster.docker
    docker.docker("build", "--tag", "braid-test-prometheus", "-", given=PROMETHEUS.encode(), timeout_s=600)
    docker.compose("--profile", "metrics", "up", "--detach", "--no-deps", "prometheus")
    there = ComposedCluster(docker, f"http://127.0.0.1:{docker.variables['PROMETHEUS_PORT']}")
    expected = {service: len(docker.containers(service)) for service in (*LAYERS, "coordinator")}

    def found() -> dict[str, int]:
        try:
            targets = there.get("/api/v1/targets")["data"]["activeTargets"]
        except OSError:
            return {}
        up = [each["labels"]["service"] for each in targets if each["health"] == "up"]
        return {service: up.count(service) for service in set(up)}

    until(lambda: found() == expected)
    until(lambda: there.get("/api/v1/query?query=sum(braid_epoch)")["data"]["result"])
    docker.compose("--profile", "metrics", "rm", "--force", "--stop", "prometheus")


async def test_the_ingress_log_lies_in_the_kafka_of_the_profile(cluster: ComposedCluster) -> None:
    """Apache Kafka in an image made here in the place of the official one, with the variables of docker-compose.yml. A
    connection point is killed; what it had acknowledged is in Kafka, and is delivered.
    """
    docker = cluster.docker
    try:
        kafka_image.build(docker)
    except KafkaUnusable as why:
        pytest.skip(str(why))
    docker.compose("--profile", "kafka", "up", "--detach", "--no-deps", "--no-build", "kafka")
    (kafka,) = docker.containers("kafka")
    await asyncio.to_thread(until, lambda: health(docker, kafka) == "healthy")
    await asyncio.to_thread(cluster.recreate, "connpoint", 1, INGRESS_LOG="kafka")
    await asyncio.to_thread(until, cluster.is_ready)
    traffic = Traffic(publishers=2, subscribers=2, name=uuid.uuid4().hex)
    for publisher in traffic.publishers:
        publisher.may_be_refused = True
    for subscriber in traffic.subscribers:
        subscriber.may_break = True
    (container,) = await asyncio.to_thread(docker.containers, "connpoint")
    async with traffic.flowing([cluster.api], [cluster.api], PAUSE_S):
        await some_more(traffic)
        await asyncio.to_thread(docker.docker, "kill", container)
        await asyncio.to_thread(docker.docker, "start", container)
        await asyncio.to_thread(until, cluster.is_ready)
        await some_more(traffic)
    traffic.check()
    await asyncio.to_thread(cluster.recreate, "connpoint", 1)
    await asyncio.to_thread(until, cluster.is_ready)
    docker.compose("--profile", "kafka", "rm", "--force", "--stop", "kafka")


COUNT = """\
from spark.session import spark_session
with spark_session("spark://spark-master:7077") as spark:
    print(spark.range(1000).selectExpr("sum(id)").first()[0])
"""


def test_spark_runs_a_job_on_its_worker(docker: Docker) -> None:
    docker.compose("--profile", "spark", "up", "--detach", "--no-build", "spark-worker")
    (worker,) = docker.containers("spark-worker")
    until(lambda: health(docker, worker) == "healthy")
    assert docker.docker("exec", worker, "python", "-c", COUNT).split()[-1] == str(sum(range(1000)))
    state = json.loads(docker.docker("exec", worker, "python", "-c", MASTER_STATE))
    assert [app["state"] for app in state["completedapps"]] == ["FINISHED"]
    docker.compose("--profile", "spark", "rm", "--force", "--stop", "spark-worker", "spark-master")


MASTER_STATE = """\
import urllib.request
print(urllib.request.urlopen("http://spark-master:8080/json/").read().decode())
"""
