"""Samples of real slices, and sinks that hang or fail: telemetry never keeps anybody waiting."""

import asyncio
import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from braid import metrics
from braid.telemetry import file_sink
from braid.telemetry.backlog import Line
from braid.telemetry.file_sink import FileSink
from braid.telemetry.sample import Sample, decode_sample
from braid.telemetry.sample_files import SampleFiles
from braid.telemetry.totals import total_of
from tests.cluster.clients import socket
from tests.service.in_process import client_of, in_process_cluster
from tests.service.waiting import until
from tests.service.zookeeper_fixture import ZooKeeperServer

TELEMETRY = {"sink": "files", "interval_s": 0.1, "file_s": 0.3}


def samples_in(root: Path) -> list[Sample]:
    return [decode_sample(line) for path in sorted(root.glob("*/*.ndjson")) for line in path.read_bytes().splitlines()]


def measured(samples: list[Sample]) -> Counter[tuple[str, str]]:
    """How much was measured of each layer and part."""
    found: Counter[tuple[str, str]] = Counter()
    for sample in samples:
        for latency in sample.latencies:
            found[sample.layer, latency.part] += sum(bucket.count for bucket in latency.buckets)
    return found


async def test_samples_of_a_cluster_count_every_publication_once(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    async with (
        in_process_cluster(zookeeper.hosts, tmp_path, telemetry=TELEMETRY) as cluster,
        client_of(cluster) as http,
    ):
        async with socket(cluster.api, subscriber="dashboard") as connection:
            await connection.send('{"op": "subscribe", "ref": 1, "subscription": {"filter": "n = 1"}}')
            assert json.loads(await connection.recv())["op"] == "subscribed"
            for _ in range(5):
                batch = [{"attributes": {"n": number}} for number in (1, 2, 1)]
                assert (await http.post("/v1/publications", json=batch)).status_code == 202
            await until(lambda: cluster.connpoint._log.unconfirmed == 0)
    # The last samples were written when the slices stopped.
    samples = samples_in(tmp_path / "telemetry")
    counts: Counter[tuple[str, str]] = Counter()
    for sample in samples:
        counts.update({(sample.layer, what): number for what, number in sample.counts.items() if what != "messages"})
    assert counts == {
        ("connpoint", "publications"): 15,
        ("connpoint", "notifications"): 10,
        ("accesspoint", "publications"): 15,
        ("matcher", "publications"): 15,
        ("exitpoint", "batches"): 5,
        ("exitpoint", "notifications"): 10,
    }
    assert measured(samples) == {
        ("connpoint", "confirmed"): 15,
        ("connpoint", "delivered"): 10,
        ("accesspoint", "routed"): 15,
        ("matcher", "matched"): 15,
        ("matcher", "answered"): 15,
        ("exitpoint", "gathered"): 5,
    }
    hit = [hit for sample in samples if sample.layer == "matcher" for hit in sample.anchors]
    assert {one.anchor for one in hit} == {"filter:n = 1"}
    assert 0 < sum(one.count for one in hit) <= 15  # an estimate
    for name in ("connpoint-1", "accesspoint-1", "matcher-1", "exitpoint-1"):
        own = [sample for sample in samples if sample.slice == name]
        assert [sample.number for sample in own] == list(range(1, len(own) + 1))
        assert sum(sample.counts["messages"] for sample in own) > 0
        assert {sample.incarnation for sample in own} == {cluster.slices[name].incarnation}
        assert all(sample.rss_bytes > 10_000_000 and sample.seconds > 0 and sample.takes_part for sample in own)
        assert own[-1].epoch == 1
    assert samples[0].queues.keys() >= {"link_bytes"}


async def test_a_cluster_without_telemetry_writes_none(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster:
        assert cluster.connpoint.measures is None
    assert not (tmp_path / "telemetry").exists()


class Disk(SampleFiles):
    """Files on a disk that hangs or fails when it is told to."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "matcher-1", 7, bytes_max=10_000, s_max=100.0)
        self.moves = threading.Event()
        self.moves.set()
        self.failure: OSError | None = None
        self.numbers: list[list[int]] = []

    def write(self, lines: Any) -> None:
        assert self.moves.wait(20)
        if self.failure is not None:
            raise self.failure
        super().write(lines)
        self.numbers.append([line.number for line in lines])


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


async def test_a_disk_that_hangs_keeps_nobody_waiting(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_sink, "_CLOSING_S_MAX", 0.1)
    sink, before = FileSink(disk, 0.0), total_of(metrics.TELEMETRY_DROPPED, reason="behind")
    await sink.open()
    disk.moves.clear()
    for number in range(1, 702):  # more than fit, with the first of them on its way to the disk
        sink.put(Line(number, b"x"))
        if number == 1:
            await asyncio.sleep(0)
    assert total_of(metrics.TELEMETRY_DROPPED, reason="behind") - before == 100
    async with asyncio.timeout(5):
        await sink.close()
    disk.moves.set()


async def test_a_disk_that_fails_gets_the_same_samples_again(disk: Disk) -> None:
    sink = FileSink(disk, 0.0)
    await sink.open()
    disk.failure = OSError(28, "No space left on device")
    sink.put(Line(1, b"x"))
    await until(lambda: sink._writing is None)
    assert sink._fails
    sink.put(Line(2, b"x"))
    await until(lambda: sink._writing is None)
    disk.failure = None
    sink.put(Line(3, b"x"))
    await sink.close()
    assert [number for numbers in disk.numbers for number in numbers] == [1, 2, 3]
    assert not sink._fails


async def test_a_directory_that_cannot_be_made_stops_no_slice(tmp_path: Path) -> None:
    (tmp_path / "telemetry").write_text("in the way")
    sink = FileSink(SampleFiles(tmp_path / "telemetry", "matcher-1", 7, bytes_max=10_000, s_max=100.0), 0.0)
    await sink.open()
    sink.put(Line(1, b"x"))
    await sink.close()
    assert sink._fails
