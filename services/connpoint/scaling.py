"""Scalings as the door offers them: written into ZooKeeper, where the leading coordinator takes them up."""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from braid import problems
from braid.anchor_map import AnchorMap
from braid.coordination_events import CoordinationUnavailable, ScalingUnderWay
from braid.problems import Problem
from braid.scaling import Ask, Progress, ScalingRecord
from braid.scaling_checks import check_ask
from braid.topology import Configuration


class Coordination(Protocol):
    """What is needed of `braid.coordination`; every call may raise `CoordinationUnavailable`."""

    async def ask_scaling(self, record: ScalingRecord, map: AnchorMap | None = None) -> None:
        """Raises `ScalingUnderWay`."""

    async def read_scaling(self, id: str) -> ScalingRecord | None: ...
    async def list_scalings(self) -> list[ScalingRecord]: ...
    async def read_progress(self, change_id: str) -> tuple[Progress, ...]: ...


class Scalings:
    def __init__(self, coordination: Coordination, configuration: Callable[[], Configuration | None]) -> None:
        self._coordination = coordination
        self._configuration = configuration

    async def ask(self, ask: Ask, map: AnchorMap | None = None) -> str:
        """The id of the scaling that has begun. Nothing is written when it cannot be done at all.

        `map` is the one that the ask names, if it names one.
        """
        configuration = self._configuration()
        if configuration is None:
            raise problems.unavailable("there is no configuration yet, so there is nothing to scale")
        check_ask(ask, configuration)
        record = ScalingRecord(f"scaling-{secrets.token_hex(6)}", ask, time.time())
        try:
            await self._coordination.ask_scaling(record, map)
        except ScalingUnderWay as error:
            raise under_way(error.id) from None
        except CoordinationUnavailable as error:
            raise problems.unavailable(
                f"{error}; the scaling may have been asked for or not, GET /v1/cluster/scalings tells"
            ) from None
        return record.id

    async def find(self, id: str) -> ScalingRecord:
        with _answering():
            record = await self._coordination.read_scaling(id)
        if record is None:
            raise problems.not_found("scaling", id[:100])
        return record

    async def all(self) -> list[ScalingRecord]:
        with _answering():
            return await self._coordination.list_scalings()

    async def progress(self, id: str) -> tuple[Progress, ...]:
        with _answering():
            return await self._coordination.read_progress(id)


def under_way(id: str) -> Problem:
    return Problem(
        409,
        "scaling-under-way",
        "Another scaling is under way",
        f"{id} is under way, and there is one at a time; GET /v1/cluster/scalings/{id} says how far it is",
        scaling=id,
    )


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except CoordinationUnavailable as error:
        raise problems.unavailable(str(error)) from None
