"""`./dev bench path`: how much of a bare relay's speed is left when the relay is a broker.

One slice of each layer, 1,000 subscriptions, every publication matches one of them, publishing and receiving over
WebSocket in batches. In the same run a row of five processes passes the same frames on without any broker logic.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from benchmarks import relay
from benchmarks.load import Receiver, flood, open_socket, paced
from benchmarks.local_cluster import LocalCluster, free_port, local_cluster
from braid.content import Content, encode_content

_PUBLISHERS = 4  # connections


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./dev bench path",
        description=__doc__,
        epilog="examples: ./dev bench path    ./dev bench path --seconds 20 --json",
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement (default 10)")
    parser.add_argument("--subscriptions", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=200, help="publications in one WebSocket frame")
    parser.add_argument("--rounds", type=int, default=3, help="relay and broker take turns so often (default 3)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result = uvloop.run(_run(given))
    print(json.dumps(result, indent=2) if given.json else _table(result))


async def _run(given: argparse.Namespace) -> dict[str, Any]:
    content = encode_content(Content(id="p1-19a-1", attributes={"sensor": "s1", "value": 41.5, "at": 1.7e9}))
    relay_rates, batch_relay_rates, broker_rates = [], [], []
    with tempfile.TemporaryDirectory(prefix="braid-") as directory, local_cluster(Path(directory)) as cluster:
        async with contextlib.AsyncExitStack() as stack:
            incoming = await stack.enter_async_context(open_socket(cluster.api[0], "receiver"))
            outgoing = [await stack.enter_async_context(open_socket(cluster.api[0])) for _ in range(_PUBLISHERS)]
            receiver = Receiver()
            await receiver.subscribe(incoming, given.subscriptions)
            receiving = asyncio.create_task(receiver.receive(incoming))
            for _ in range(given.rounds):
                ports = [free_port() for _ in range(relay.HOPS + 1)]
                relay_rates.append(await relay.measure("messages", given.seconds, content, ports))
                ports = [free_port() for _ in range(relay.HOPS + 1)]
                batch_relay_rates.append(await relay.measure("batches", given.seconds, content, ports))
                receiver.received = 0
                before = cluster.cpu_seconds()
                broker_rates.append(await flood(outgoing, receiver, given.seconds, given.batch, given.subscriptions))
                cpu = _cpu_per_publication(cluster, before, receiver.received)
            latencies = await _latencies(outgoing[0], receiver, max(broker_rates) / 2, given)
            receiving.cancel()
    relay_rate, batch_relay_rate, broker_rate = map(median, (relay_rates, batch_relay_rates, broker_rates))
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "subscriptions": given.subscriptions,
        "relay_per_s": round(relay_rate),
        "batch_relay_per_s": round(batch_relay_rate),
        "broker_per_s": round(broker_rate),
        "ratio": round(broker_rate / relay_rate, 3),
        "ratio_to_batch_relay": round(broker_rate / batch_relay_rate, 3),
        "relay_rounds_per_s": [round(rate) for rate in relay_rates],
        "broker_rounds_per_s": [round(rate) for rate in broker_rates],
        "cpu_us_per_publication": cpu,
        **latencies,
    }


async def _latencies(outgoing: Any, receiver: Receiver, rate: float, given: argparse.Namespace) -> dict[str, Any]:
    receiver.received = 0
    receiver.keep_latencies = True
    sent = await paced(outgoing, rate, given.seconds, given.subscriptions)
    await receiver.wait_for(sent, 30)
    sample = sorted(receiver.latencies_s)
    return {
        "half_load_per_s": round(rate),
        "p50_ms": round(1000 * sample[len(sample) // 2], 2),
        "p99_ms": round(1000 * sample[int(len(sample) * 0.99)], 2),
        "max_ms": round(1000 * sample[-1], 2),
    }


def _cpu_per_publication(cluster: LocalCluster, before: dict[str, float], count: int) -> dict[str, float]:
    after = cluster.cpu_seconds()
    return {name: round(1e6 * (after[name] - before[name]) / count, 2) for name in sorted(after)}


def _table(result: dict[str, Any]) -> str:
    cpu = ", ".join(f"{name} {used}" for name, used in result["cpu_us_per_publication"].items())
    rows = [
        ("machine", result["machine"]),
        ("bare relay of five processes", f"{result['relay_per_s']:,} per second {result['relay_rounds_per_s']}"),
        ("bare relay of whole batches", f"{result['batch_relay_per_s']:,} per second"),
        ("broker, end to end", f"{result['broker_per_s']:,} per second {result['broker_rounds_per_s']}"),
        ("ratio (to reach: 0.30)", f"{result['ratio']:.2f}"),
        (
            "latency at half load",
            f"{result['half_load_per_s']:,} per second: p50 {result['p50_ms']} ms, "
            f"p99 {result['p99_ms']} ms (to reach: 20), max {result['max_ms']} ms",
        ),
        ("processor µs per publication", cpu),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


if __name__ == "__main__":
    main()
