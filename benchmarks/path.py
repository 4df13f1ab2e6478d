"""`./dev bench path`: how much of a bare relay's speed is left when the relay is a broker.

One slice of each layer, 1,000 subscriptions, every publication matches one of them, publishing and receiving over
WebSocket in batches. In the same run a row of five processes passes the same frames on without any broker logic.
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

from benchmarks import relay
from benchmarks.load import flood, open_publishers, paced
from benchmarks.local_cluster import LocalCluster, free_port, local_cluster
from benchmarks.receiver import Receiver
from braid.content import Content, encode_content

_PUBLISHERS = 4  # connections
_LOADS = (0.15, 0.25, 0.5)  # shares of the highest rate, at which latency is measured


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
    relays: dict[str, list[float]] = {kind: [] for kind in relay.KINDS}
    broker: list[float] = []
    cpu: dict[str, float] = {}
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="braid-")))
        cluster = stack.enter_context(local_cluster(directory))
        receiver = stack.enter_context(Receiver(cluster.api[0], given.subscriptions))
        await receiver.load()
        publishers = await stack.enter_async_context(open_publishers(cluster.api[0], _PUBLISHERS, given.subscriptions))
        for _ in range(given.rounds):
            for kind in relay.KINDS:
                ports = [free_port() for _ in range(relay.HOPS + 1)]
                relays[kind].append(await relay.measure(kind, given.seconds, content, ports))
            before = cluster.cpu_seconds()
            rate, arrived = await flood(publishers, receiver, given.seconds, given.batch)
            broker.append(rate)
            cpu = _cpu_per_publication(cluster, before, arrived)
        latencies = {}
        for share in _LOADS:
            rate = share * median(broker)
            await receiver.received()  # those of the flood are not meant
            await paced(publishers, receiver, rate, given.seconds)
            latencies[share] = {"per_s": round(rate), **(await receiver.latencies_ms())._asdict()}
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "subscriptions": given.subscriptions,
        "broker_per_s": round(median(broker)),
        "broker_rounds_per_s": [round(rate) for rate in broker],
        "relays": {
            kind: {
                "per_s": round(median(rates)),
                "rounds_per_s": [round(rate) for rate in rates],
                "ratio": round(median(broker) / median(rates), 3),
            }
            for kind, rates in relays.items()
        },
        "cpu_us_per_publication": cpu,
        "latency_ms": latencies,
    }


def _cpu_per_publication(cluster: LocalCluster, before: dict[str, float], count: int) -> dict[str, float]:
    after = cluster.cpu_seconds()
    return {name: round(1e6 * (after[name] - before[name]) / count, 2) for name in sorted(after)}


def _table(result: dict[str, Any]) -> str:
    cpu = ", ".join(f"{name} {used}" for name, used in result["cpu_us_per_publication"].items())
    rows = [
        ("machine", result["machine"]),
        ("broker, end to end", f"{result['broker_per_s']:,} publications/s {result['broker_rounds_per_s']}"),
    ]
    for kind, measured in result["relays"].items():
        rate = f"{measured['per_s']:,} publications/s {measured['rounds_per_s']}"
        rows.append((f"bare relay of {kind}", f"{rate}; the broker does {measured['ratio']:.2f} of it"))
    for share, measured in result["latency_ms"].items():
        found = f"p50 {measured['p50']} ms, p99 {measured['p99']} ms, max {measured['max']} ms"
        rows.append((f"latency at {share:.0%} of its rate", f"{measured['per_s']:,} publications/s: {found}"))
    rows += [
        ("processor µs per publication", cpu),
        ("to reach", "0.30 of the relay, p99 of 20 ms at half load"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


if __name__ == "__main__":
    main()
