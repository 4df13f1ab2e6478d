"""What a cluster that is there already does: for `braid bench`, which any cluster may be asked with.

Everything comes through its API, and nothing is known of its machines. The sensors have names that nobody else has, so
that publications and subscriptions of others do not meet those of the measurement.
"""

import contextlib
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from benchmarks.load import flood, open_publishers, paced
from benchmarks.receiver import Receiver


class Wanted(NamedTuple):
    api: str
    subscriptions: int
    seconds: float
    rate: float | None  # None: as many as are acknowledged
    publishers: int
    batch: int


class Measured(msgspec.Struct, frozen=True):
    subscriptions: int
    published: int
    delivered_per_s: float
    latency_ms: dict[str, float]
    lost: int
    twice: int
    out_of_order: int

    @property
    def is_right(self) -> bool:
        return not (self.lost or self.twice or self.out_of_order)


async def measure(wanted: Wanted, on_loaded: Callable[[int], None], on_published: Callable[[int], None]) -> Measured:
    """Raises `RuntimeError` or `OSError`. It tells how many subscriptions are there, and how many more it published."""
    family = f"bench-{secrets.token_hex(4)}-"
    async with contextlib.AsyncExitStack() as stack:
        receiver = stack.enter_context(Receiver(wanted.api, wanted.subscriptions, family=family, subscriber=""))
        await receiver.load(on_loaded)
        publishers = await stack.enter_async_context(
            open_publishers(wanted.api, wanted.publishers, wanted.subscriptions, family)
        )
        started = time.perf_counter()
        if wanted.rate is None:
            _, sent = await flood(publishers, receiver, wanted.seconds, wanted.batch, on_published=on_published)
        else:
            sent = await paced(publishers, receiver, wanted.rate, wanted.seconds, on_published=on_published)
        took_s = time.perf_counter() - started
        latencies = await receiver.latencies_ms()
        arrived = (await receiver.received()).ledger
    return Measured(
        wanted.subscriptions,
        sent,
        round(arrived.received / took_s, 1),
        latencies._asdict(),
        sent - arrived.received,
        arrived.twice,
        arrived.out_of_order,
    )
