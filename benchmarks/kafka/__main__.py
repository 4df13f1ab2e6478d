"""`./dev bench kafka`: sources and sinks beside a bare copy loop, and the ingress log in LevelDB and in Kafka.

A real broker on this machine, one slice of each layer, 1,000 subscriptions, every record matches one of them. The limit
is a process that reads one topic and writes another with aiokafka and nothing else. They take turns.
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

from benchmarks.kafka import copying, ingress, sourcing
from benchmarks.kafka.sinking import open_sink
from benchmarks.kafka.topics import SENSORS, fill, make_topic
from benchmarks.local_cluster import LocalCluster, local_cluster
from benchmarks.receiver import Receiver
from coordinator.kafka import KafkaServer

TO_REACH = 0.5  # of the copy loop


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./dev bench kafka",
        description=__doc__,
        epilog="examples: ./dev bench kafka    ./dev bench kafka --records 50000 --rounds 1 --only bridge --json",
    )
    parser.add_argument("--records", type=int, default=200_000, help="of each measurement (default 200,000)")
    parser.add_argument("--rounds", type=int, default=3, help="they take turns so often (default 3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement over time (default 4)")
    parser.add_argument("--only", choices=("bridge", "ingress"), help="sources and sinks alone, or the ingress log")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result = uvloop.run(_run(given))
    print(json.dumps(result, indent=2) if given.json else _table(result))


async def _run(given: argparse.Namespace) -> dict[str, Any]:
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    result: dict[str, Any] = {"machine": machine, "records": given.records, "to_reach": TO_REACH}
    with tempfile.TemporaryDirectory(prefix="braid-") as name:
        kafka = KafkaServer(Path(name) / "kafka", heap_mb=512)
        kafka.start()
        try:
            if given.only != "ingress":
                result |= await _bridge(Path(name), kafka, given)
            if given.only != "bridge":
                result["ingress"] = await ingress.measure(Path(name), kafka, given.seconds, given.rounds, batch=200)
        finally:
            kafka.stop()
    return result


async def _bridge(directory: Path, kafka: KafkaServer, given: argparse.Namespace) -> dict[str, Any]:
    rates: dict[str, list[float]] = {}
    cpu: dict[str, dict[str, float]] = {}
    for topic in ("source", "copied", "limit", "sunk"):
        await make_topic(kafka.bootstrap, topic)
    await fill(kafka.bootstrap, "limit", given.records)
    settings = {
        "BRAID_KAFKA__BOOTSTRAP": kafka.bootstrap,
        "BRAID_KAFKA__SOURCES": json.dumps([{"topic": "source"}]),
    }
    of_sink = {
        "BRAID_CLUSTER__NAME": "sink",
        "BRAID_KAFKA__BOOTSTRAP": kafka.bootstrap,
        "BRAID_KAFKA__SINK_TOPICS": json.dumps(["sunk"]),
    }
    async with contextlib.AsyncExitStack() as stack:
        cluster = stack.enter_context(local_cluster(directory / "cluster", settings=settings))
        receiver = stack.enter_context(Receiver(cluster.api[0], SENSORS))
        await receiver.load()
        sinking = stack.enter_context(local_cluster(directory / "sinking", settings=of_sink))
        sink = await stack.enter_async_context(open_sink(sinking, "sunk", SENSORS))
        for _ in range(given.rounds):
            for way in copying.WAYS:
                rate = await copying.measure(way, kafka.bootstrap, "limit", "copied", given.records)
                rates.setdefault(f"copy loop, {way}", []).append(rate)
            before = cluster.cpu_seconds()
            rate = await sourcing.measure(cluster, receiver, kafka.bootstrap, "source", given.records)
            rates.setdefault("source", []).append(rate)
            cpu["source"] = _cpu_us(cluster, before, given.records)
            rates.setdefault("sink, waiting", []).append(
                await sink.waiting_per_s(kafka.bootstrap, "sunk", given.records)
            )
            before, count = sinking.cpu_seconds(), sink.count
            rates.setdefault("sink, live", []).append(await sink.live_per_s(given.seconds))
            cpu["sink, live"] = _cpu_us(sinking, before, sink.count - count)
    limit = max(median(rates[f"copy loop, {way}"]) for way in copying.WAYS)
    return {
        "rates_per_s": {name: [round(rate) for rate in found] for name, found in rates.items()},
        "of_the_limit": {name: round(median(found) / limit, 2) for name, found in rates.items()},
        "cpu_us_per_record": cpu,
    }


def _cpu_us(cluster: LocalCluster, before: dict[str, float], records: int) -> dict[str, float]:
    """Of each process, per record; in the last round."""
    after = cluster.cpu_seconds()
    return {name: round(1e6 * (after[name] - before[name]) / records, 2) for name in sorted(after)}


def _table(result: dict[str, Any]) -> str:
    rows = [("machine", result["machine"])]
    for name, found in result.get("rates_per_s", {}).items():
        share = result["of_the_limit"][name]
        rows.append((name, f"{round(median(found)):,} records/s {found}; {share:.2f} of the limit"))
    for name, of_slices in result.get("cpu_us_per_record", {}).items():
        used = ", ".join(f"{slice} {us}" for slice, us in of_slices.items())
        rows.append((f"  processor µs per record, {name}", used))
    if "rates_per_s" in result:
        rows.append(("to reach", f"{result['to_reach']:.2f} of the limit"))
    rows += ingress.rows(result["ingress"]) if "ingress" in result else []
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


if __name__ == "__main__":
    main()
