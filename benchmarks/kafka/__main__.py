"""`./dev bench kafka`: sources and sinks beside a bare copy loop.

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

from benchmarks.kafka import copying, sourcing
from benchmarks.kafka.topics import SENSORS, fill, make_topic
from benchmarks.load import receiver_process
from benchmarks.local_cluster import local_cluster
from coordinator.kafka import KafkaServer

TO_REACH = 0.5  # of the copy loop


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./dev bench kafka",
        description=__doc__,
        epilog="examples: ./dev bench kafka    ./dev bench kafka --records 50000 --rounds 1 --json",
    )
    parser.add_argument("--records", type=int, default=200_000, help="of each measurement (default 200,000)")
    parser.add_argument("--rounds", type=int, default=3, help="they take turns so often (default 3)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result = uvloop.run(_run(given))
    print(json.dumps(result, indent=2) if given.json else _table(result))


async def _run(given: argparse.Namespace) -> dict[str, Any]:
    rates: dict[str, list[float]] = {}
    cpu: dict[str, float] = {}
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="braid-")))
        kafka = KafkaServer(directory / "kafka", heap_mb=512)
        stack.callback(kafka.stop)
        kafka.start()
        for topic in ("source", "copied", "limit"):
            await make_topic(kafka.bootstrap, topic)
        await fill(kafka.bootstrap, "limit", given.records)
        settings = {
            "BRAID_KAFKA__BOOTSTRAP": kafka.bootstrap,
            "BRAID_KAFKA__SOURCES": json.dumps([{"topic": "source"}]),
        }
        cluster = stack.enter_context(local_cluster(directory / "cluster", settings=settings))
        receiver = stack.enter_context(receiver_process(cluster.api[0], SENSORS))
        for _ in range(given.rounds):
            for way in copying.WAYS:
                rate = await copying.measure(way, kafka.bootstrap, "limit", "copied", given.records)
                rates.setdefault(f"copy loop, {way}", []).append(rate)
            before = cluster.cpu_seconds()
            rate = await sourcing.measure(cluster, receiver, kafka.bootstrap, "source", given.records)
            rates.setdefault("source", []).append(rate)
            after = cluster.cpu_seconds()
            cpu = {name: round(1e6 * (after[name] - before[name]) / given.records, 2) for name in sorted(after)}
    limit = max(median(rates[f"copy loop, {way}"]) for way in copying.WAYS)
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "records": given.records,
        "rates_per_s": {name: [round(rate) for rate in found] for name, found in rates.items()},
        "of_the_limit": {name: round(median(found) / limit, 2) for name, found in rates.items()},
        "cpu_us_per_record": cpu,
        "to_reach": TO_REACH,
    }


def _table(result: dict[str, Any]) -> str:
    rows = [("machine", result["machine"])]
    for name, found in result["rates_per_s"].items():
        share = result["of_the_limit"][name]
        rows.append((name, f"{round(median(found)):,} records/s {found}; {share:.2f} of the limit"))
    cpu = ", ".join(f"{name} {used}" for name, used in result["cpu_us_per_record"].items())
    rows += [("processor µs per record", cpu), ("to reach", f"{result['to_reach']:.2f} of the limit")]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


if __name__ == "__main__":
    main()
