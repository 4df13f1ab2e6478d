"""The ingress log in LevelDB and in Kafka side by side: how much is published per second, and how long it takes.

Two clusters of one slice of each layer run on the same machine and take turns: 1,000 subscriptions, every publication
matches one of them, publishing and receiving over WebSocket. Then the same rates for both, shares of what the slower
one does at most, at which the time from the publisher to the subscriber is measured.

`python -m benchmarks.kafka.ingress` measures this alone; `./dev bench kafka` has it too.
"""

import argparse
import contextlib
import json
import os
import platform
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from benchmarks.load import Publisher, flood, open_publishers, paced
from benchmarks.local_cluster import LocalCluster, local_cluster
from benchmarks.receiver import Latencies, Receiver
from coordinator.kafka import KafkaServer

LOGS = ("leveldb", "kafka")
SHARES = (0.1, 0.25, 0.5)  # of what the slower one does at most
_PUBLISHERS = 4  # connections
_SUBSCRIPTIONS = 1_000


class _Side:
    """One of the two clusters, with its publishers and its receiver."""

    def __init__(self, cluster: LocalCluster, receiver: Receiver, publishers: list[Publisher], kafka: int) -> None:
        self.cluster = cluster
        self.receiver = receiver
        self.publishers = publishers
        self._kafka = kafka  # process id
        self.rates: list[float] = []
        self.cpu_us: dict[str, float] = {}
        self.latencies: dict[float, list[Latencies]] = {}

    async def flood(self, seconds: float, batch: int) -> None:
        before = self._cpu_seconds()
        rate, arrived = await flood(self.publishers, self.receiver, seconds, batch)
        after = self._cpu_seconds()
        self.rates.append(rate)
        self.cpu_us = {name: round(1e6 * (after[name] - before[name]) / arrived, 2) for name in sorted(after)}

    async def paced(self, share: float, rate: float, seconds: float) -> None:
        await self.receiver.received()  # those of before are not meant
        await paced(self.publishers, self.receiver, rate, seconds)
        self.latencies.setdefault(share, []).append(await self.receiver.latencies_ms())

    def _cpu_seconds(self) -> dict[str, float]:
        used = self.cluster.cpu_seconds()
        if self._kafka:
            tick = os.sysconf("SC_CLK_TCK")
            fields = Path(f"/proc/{self._kafka}/stat").read_text().rpartition(")")[2].split()
            used["kafka"] = (int(fields[11]) + int(fields[12])) / tick
        return used


async def measure(directory: Path, kafka: KafkaServer, seconds: float, rounds: int, batch: int) -> dict[str, Any]:
    """Of each log: publications per second, processor time, and latencies by share."""
    async with contextlib.AsyncExitStack() as stack:
        sides = {log: await _side(stack, directory, kafka, log) for log in LOGS}
        for _ in range(rounds):
            for side in sides.values():
                await side.flood(seconds, batch)
        slower = min(median(side.rates) for side in sides.values())
        for share in SHARES:
            for _ in range(rounds):
                for side in sides.values():
                    await side.paced(share, share * slower, seconds)
        return {
            "seconds": seconds,
            "batch": batch,
            "logs": {log: _described(side) for log, side in sides.items()},
            "rates_of_latencies_per_s": {share: round(share * slower) for share in SHARES},
        }


async def _side(stack: contextlib.AsyncExitStack, directory: Path, kafka: KafkaServer, log: str) -> _Side:
    settings = {"BRAID_CLUSTER__NAME": f"ingress-{log}", "BRAID_INGRESS__LOG": log}
    if log == "kafka":
        settings["BRAID_KAFKA__BOOTSTRAP"] = kafka.bootstrap
    cluster = stack.enter_context(local_cluster(directory / f"ingress-{log}", settings=settings))
    receiver = stack.enter_context(Receiver(cluster.api[0], _SUBSCRIPTIONS))
    await receiver.load()
    publishers = await stack.enter_async_context(open_publishers(cluster.api[0], _PUBLISHERS, _SUBSCRIPTIONS))
    return _Side(cluster, receiver, publishers, kafka.pid if log == "kafka" else 0)


def _described(side: _Side) -> dict[str, Any]:
    return {
        "per_s": round(median(side.rates)),
        "rounds_per_s": [round(rate) for rate in side.rates],
        "cpu_us_per_publication": side.cpu_us,
        "latency_ms": {
            share: {
                "p50": round(median(one.p50 for one in found), 2),
                "p99": round(median(one.p99 for one in found), 2),
                "p99_rounds": [one.p99 for one in found],
            }
            for share, found in side.latencies.items()
        },
    }


def rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    for log, measured in result["logs"].items():
        found.append((f"ingress in {log}", f"{measured['per_s']:,} publications/s {measured['rounds_per_s']}"))
    for share, rate in result["rates_of_latencies_per_s"].items():
        for log, measured in result["logs"].items():
            latency = measured["latency_ms"][share]
            text = f"p50 {latency['p50']} ms, p99 {latency['p99']} ms {latency['p99_rounds']}"
            found.append((f"  at {rate:,} publications/s, in {log}", text))
    for log, measured in result["logs"].items():
        used = ", ".join(f"{name} {us}" for name, us in measured["cpu_us_per_publication"].items())
        found.append((f"  processor µs per publication, in {log}", used))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kafka.ingress",
        description=__doc__,
        epilog="examples: python -m benchmarks.kafka.ingress    python -m benchmarks.kafka.ingress --batch 1 --json",
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement (default 5)")
    parser.add_argument("--rounds", type=int, default=3, help="they take turns so often (default 3)")
    parser.add_argument("--batch", type=int, default=200, help="publications in one WebSocket frame (default 200)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()

    async def run() -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="braid-") as name:
            kafka = KafkaServer(Path(name) / "kafka", heap_mb=512)
            kafka.start()
            try:
                return await measure(Path(name), kafka, given.seconds, given.rounds, given.batch)
            finally:
                kafka.stop()

    result = uvloop.run(run())
    if given.json:
        print(json.dumps(result, indent=2))
        return
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    shown = [("machine", machine), *rows(result)]
    width = max(len(name) for name, _ in shown)
    print("\n".join(f"{name:<{width}}  {value}" for name, value in shown))


if __name__ == "__main__":
    main()
