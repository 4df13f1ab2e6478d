"""Notifications for subscriptions with an address that are not delivered from here any more, and come here anyway.

An exit point sends them to where the subscription was homed when they matched: to a connection point that was away
meanwhile, or that hears of the change later than of them. They are delivered from here, to where the subscription says
now; those of one that has ended are dropped.

Invariants:
- No receipt overtakes one that waits, be it of a repetition: what has a receipt is on disk, or for nobody.
- An address that is adopted for strays is let go when they are on disk; they leave it as what waits for any other does.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Container
from typing import Protocol

import structlog

from braid.problems import Problem
from braid.subscription import SubscriptionRecord
from services.connpoint.delivery import Addressed

log = structlog.get_logger()

_AGAIN_S = 1.0
_GONE_MAX = 10_000
_NOT_FOUND = 404


class Delivering(Protocol):
    """What is needed of `couriers.Couriers`."""

    def expect(self, record: SubscriptionRecord) -> None: ...
    def end(self, id: str) -> None: ...
    def deliver(self, addressed: list[Addressed], receipt: Callable[[], None]) -> None: ...


class Strays:
    def __init__(
        self, couriers: Delivering, ours: Container[str], find: Callable[[str], Awaitable[SubscriptionRecord]]
    ) -> None:
        self._couriers = couriers
        self._ours = ours
        self._find = find
        self._waiting: deque[tuple[list[Addressed], Callable[[], None]]] = deque()
        self._gone: OrderedDict[str, None] = OrderedDict()  # ids of subscriptions that have ended; none comes back
        self._task: asyncio.Task[None] | None = None
        self.delivered = 0
        self.unclaimed = 0

    def deliver(self, addressed: list[Addressed], receipt: Callable[[], None]) -> None:
        """`receipt` is called when all of them are on disk, or found to be for nobody."""
        if not self._waiting and all(one.id in self._ours for one in addressed):
            self._couriers.deliver(addressed, receipt)
            return
        self._waiting.append((addressed, receipt))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._waiting:
                addressed, receipt = self._waiting[0]
                try:
                    await self._deliver(addressed)
                except Problem as problem:
                    log.warning("it is not known yet where notifications are to be delivered", reason=problem.detail)
                    await asyncio.sleep(_AGAIN_S)
                except Exception:  # a mistake of ours; ended silently, it would hold back everything behind it
                    log.exception("notifications cannot be delivered")
                    await asyncio.sleep(_AGAIN_S)
                else:
                    self._waiting.popleft()
                    receipt()
        finally:
            self._task = None

    async def _deliver(self, addressed: list[Addressed]) -> None:
        adopted: list[SubscriptionRecord] = []
        for id in dict.fromkeys(one.id for one in addressed):
            if id in self._ours or id in self._gone:
                continue
            record = await self._found(id)
            if record is None:
                self._forget(id)
            else:
                adopted.append(record)
        for record in adopted:
            self._couriers.expect(record)
        left = [one for one in addressed if one.id not in self._gone]
        written = asyncio.Event()
        self._couriers.deliver(left, written.set)
        await written.wait()
        strays = {record.id for record in adopted if record.id not in self._ours}
        for id in strays:
            self._couriers.end(id)
        self.delivered += sum(one.id in strays for one in left)
        self.unclaimed += len(addressed) - len(left)

    async def _found(self, id: str) -> SubscriptionRecord | None:
        try:
            record = await self._find(id)
        except Problem as problem:
            if problem.status == _NOT_FOUND:
                return None
            raise
        return None if record.deliver is None else record

    def _forget(self, id: str) -> None:
        self._gone[id] = None
        if len(self._gone) > _GONE_MAX:
            self._gone.popitem(last=False)
