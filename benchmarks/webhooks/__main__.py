"""`./dev bench webhooks`: notifications that arrive by webhooks, at one endpoint and at a hundred, ten of them dead.

One slice of each layer, and a receiver in a process of its own on the same machine. Every publication matches the
subscription of one endpoint. For the rate no more are under way than a bound; for the latencies they are published at a
constant rate. Of ten dead endpoints four hang, three answer 500 and three refuse connections.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import uvloop

from benchmarks.load import Publisher, open_publishers
from benchmarks.local_cluster import LocalCluster, free_port, local_cluster
from benchmarks.webhooks.receiving import FAILS, HANGS, WELL, PostedTo

PUBLISHERS = 2
UNDER_WAY_MAX = 10_000  # notifications that have not arrived
BATCH = 200
_LOOKS_S = 0.002
_ARRIVED_S = 120.0
_SUBSCRIBES_AT_ONCE = 16
SETTINGS = {"BRAID_WEBHOOKS__ALLOW_PRIVATE": "true"}


class Case(NamedTuple):
    name: str
    endpoints: int
    dead: int

    @property
    def well(self) -> int:
        return self.endpoints - self.dead

    def arriving(self, published: int) -> int:
        """Of whole batches, each of which has as many for every endpoint."""
        return published * self.well // self.endpoints


CASES = (
    Case("1 endpoint", 1, 0),
    Case("100 endpoints", 100, 0),
    Case("100 endpoints, 10 dead", 100, 10),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./dev bench webhooks",
        description=__doc__,
        epilog="examples: ./dev bench webhooks    ./dev bench webhooks --seconds 5 --rate 200 --json",
    )
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement (default 15)")
    parser.add_argument("--rate", type=int, default=400, help="publications per second for the latencies (default 400)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [uvloop.run(_measure(case, given)) for case in CASES]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    result = {"machine": machine, "seconds": given.seconds, "rate": given.rate, "cases": rows}
    print(json.dumps(result, indent=2) if given.json else _table(result))


async def _measure(case: Case, given: argparse.Namespace) -> dict[str, Any]:
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="braid-")))
        cluster = stack.enter_context(local_cluster(directory, settings=SETTINGS))
        receiver = stack.enter_context(PostedTo())
        await receiver.open()
        await _subscribe(cluster.api[0], case, receiver.port)
        publishers = await stack.enter_async_context(open_publishers(cluster.api[0], PUBLISHERS, case.endpoints))
        await _flood(publishers, receiver, case, min(2.0, given.seconds))  # warms up, and finds out who is dead
        await receiver.posted()
        before = cluster.cpu_seconds()
        rate, arrived = await _flood(publishers, receiver, case, given.seconds)
        after = cluster.cpu_seconds()
        flooded = await receiver.posted()
        await _paced(publishers, receiver, case, given.rate, given.seconds)
        paced = await receiver.posted()
        buried = await _dead_letters(cluster)
    latencies_ms = sorted(1000 * latency_s for latency_s in paced.latencies_s)
    return {
        "case": case.name,
        "notifications_per_s": round(rate),
        "notifications_per_request": round(arrived / flooded.requests, 1),
        "latency_ms": {
            name: round(latencies_ms[place], 1)
            for name, place in (("p50", len(latencies_ms) // 2), ("p99", int(len(latencies_ms) * 0.99)), ("max", -1))
        },
        "cpu_us_per_notification": {
            name: round(1e6 * (after[name] - before[name]) / arrived, 1) for name in sorted(after)
        },
        "arrived": arrived + len(paced.latencies_s),
        "twice": flooded.twice + paced.twice,
        "in_dead_letters": buried,
    }


async def _subscribe(api: str, case: Case, port: int) -> None:
    slots = asyncio.Semaphore(_SUBSCRIBES_AT_ONCE)
    async with httpx.AsyncClient(base_url=api, trust_env=False, timeout=30) as client:

        async def one(number: int) -> None:
            url = _url(number - case.well, port) if number >= case.well else f"http://127.0.0.1:{port}{WELL}{number}"
            body = {"filter": f"sensor = 's{number}' and value >= 0", "deliver": {"webhook": {"url": url}}}
            async with slots:
                answer = await client.post("/v1/subscriptions", json=body)
            if answer.status_code != 201:
                raise RuntimeError(f"a subscription was refused: {answer.text}")

        await asyncio.gather(*(one(number) for number in range(case.endpoints)))


def _url(dead: int, port: int) -> str:
    """Of ten, four hang, three fail, and three refuse."""
    if dead % 10 < 4:
        return f"http://127.0.0.1:{port}{HANGS}{dead}"
    if dead % 10 < 7:
        return f"http://127.0.0.1:{port}{FAILS}{dead}"
    return f"http://127.0.0.1:{free_port()}/"


async def _flood(publishers: Sequence[Publisher], receiver: PostedTo, case: Case, seconds: float) -> tuple[float, int]:
    """Notifications per second that arrived, and how many did."""
    before, published, began = receiver.count, 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        if case.arriving(published) - (receiver.count - before) < UNDER_WAY_MAX:
            await _publish(publishers, BATCH)
            published += BATCH * len(publishers)
        else:
            await asyncio.sleep(_LOOKS_S)
    await _arrived(receiver, before + case.arriving(published))
    return case.arriving(published) / (time.perf_counter() - began), case.arriving(published)


async def _paced(publishers: Sequence[Publisher], receiver: PostedTo, case: Case, rate: int, seconds: float) -> None:
    """Batches that have one for each endpoint, or of a few for a single one."""
    batch = max(case.endpoints, 4)
    before, published, began = receiver.count, 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        if published <= rate * passed:
            await _publish(publishers[:1], batch)
            published += batch
        else:
            await asyncio.sleep(_LOOKS_S)
    await _arrived(receiver, before + case.arriving(published))


async def _publish(publishers: Sequence[Publisher], batch: int) -> None:
    for publisher in publishers:
        await publisher.send(batch)
    for publisher in publishers:
        await publisher.take_answer()


async def _arrived(receiver: PostedTo, count: int) -> None:
    try:
        async with asyncio.timeout(_ARRIVED_S):
            while receiver.count < count:
                await asyncio.sleep(_LOOKS_S)
    except TimeoutError:
        raise RuntimeError(f"{count - receiver.count} notifications have not come within {_ARRIVED_S:g} s") from None
    if receiver.count > count:
        raise RuntimeError(f"{receiver.count - count} notifications came that nobody had published")


async def _dead_letters(cluster: LocalCluster) -> int:
    """Notifications in them, as the connection point says."""
    async with httpx.AsyncClient(base_url=cluster.api[0], trust_env=False, timeout=30) as client:
        text = (await client.get("/metrics")).text
    return int(
        sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("braid_webhook_dead_letters "))
    )


def _table(result: dict[str, Any]) -> str:
    lines = [f"{result['machine']}; latencies at {result['rate']} publications per second"]
    lines.append(f"{'':<24}{'per s':>8}{'per request':>13}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}{'twice':>7}")
    for row in result["cases"]:
        latency = row["latency_ms"]
        lines.append(
            f"{row['case']:<24}{row['notifications_per_s']:>8,}{row['notifications_per_request']:>13}"
            f"{latency['p50']:>9}{latency['p99']:>9}{latency['max']:>9}{row['twice']:>7}"
        )
    for row in result["cases"]:
        cpu = ", ".join(f"{name} {used}" for name, used in row["cpu_us_per_notification"].items())
        lines.append(f"processor µs per notification, {row['case']}: {cpu}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
