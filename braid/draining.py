"""A slice that is told to stop lets others take over: `braid.leaving` decides, this asks and waits."""

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Protocol

import structlog

from braid.coordination_events import CoordinationUnavailable, ScalingUnderWay
from braid.leaving import Known, Leave, Stop, Wait, next_step
from braid.scaling import Ask, ScalingRecord
from braid.topology import Layer

log = structlog.get_logger()

ASKS_MAX = 3  # scalings that were aborted are not asked for for ever
LOOK_EVERY_S = 0.2


class Asking(Protocol):
    """What is needed of `braid.coordination`."""

    async def ask_scaling(self, record: ScalingRecord) -> None:
        """Raises `ScalingUnderWay`, `CoordinationUnavailable`."""


class Draining:
    def __init__(self, name: str, layer: Layer, asking: Asking, known: Callable[[], Known]) -> None:
        self._name = name
        self._layer: Layer = layer
        self._asking = asking
        self._known = known
        self._asks = 0
        self._told = ""

    async def run(self) -> str:
        """Until the slice may stop; says why it may. The caller bounds the time."""
        while True:
            match next_step(self._name, self._layer, self._known()):
                case Stop(why):
                    return why
                case Wait(why):
                    self._tell(why)
                case Leave(ask):
                    given_up = await self._ask(ask)
                    if given_up:
                        return given_up
            await asyncio.sleep(LOOK_EVERY_S)

    async def _ask(self, ask: Ask) -> str:
        """Why nothing more is asked for; empty while there is hope.

        Asked again while an own one has not begun, or has ended and the news has not come: the first is told that it
        is under way, the second is refused, because the slice is not configured any more.
        """
        if self._asks == ASKS_MAX:
            return f"it was not left out by {ASKS_MAX} scalings"
        record = ScalingRecord(f"drain-{secrets.token_hex(6)}", ask, time.time())
        try:
            await self._asking.ask_scaling(record)
        except ScalingUnderWay as error:
            self._tell(f"for the end of {error.id}")
        except CoordinationUnavailable:
            return "ZooKeeper cannot be reached"
        else:
            self._asks += 1
            log.info("asks to be left out", scaling=record.id, layers=ask.layers, replace=ask.replace)
            self._told = f"for the end of {record.id}"
        return ""

    def _tell(self, why: str) -> None:
        if why != self._told:
            self._told = why
            log.info("waits before it stops", why=why)
