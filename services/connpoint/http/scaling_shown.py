"""A scaling as people and programs see it: how long each phase took, and what it cost."""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from braid.instants import format_instant
from braid.scaling import Ask, Progress, ScalingRecord

_ENDINGS = ("done", "aborted")


class ScalingShown(msgspec.Struct):
    """`reason` is empty unless it was aborted; `epoch` is null until there is a number for what it leads to."""

    id: str
    state: Literal["running", "done", "aborted"]
    phase: str
    reason: str
    asked: Ask
    asked_at: str
    epoch: int | None
    phase_s: dict[str, float]  # in the order of the phases; that of the phase under way grows
    total_s: float
    moved: int  # subscriptions that went to another matcher
    longest_pause_s: float  # for which a publication was held
    longest_wait_s: float  # for which a subscription was kept back
    progress: dict[str, dict[str, float]] | msgspec.UnsetType = msgspec.UNSET  # of each slice, while it runs


class ScalingList(msgspec.Struct):
    scalings: list[ScalingShown]


def shown(record: ScalingRecord, now_s: float, progress: Iterable[Progress] | None = None) -> ScalingShown:
    """Clocks of two machines may differ a little, so no time is ever shown below zero."""
    begun = sorted(record.began_s.items(), key=lambda item: item[1])
    phases = [("asked", record.asked_s), *((phase, at_s) for phase, at_s in begun if phase != "asked")]
    end_s = next((at_s for phase, at_s in phases if phase in _ENDINGS), None)
    if end_s is None:
        end_s = now_s if record.state == "running" else phases[-1][1]
    passed = [(phase, at_s) for phase, at_s in phases if phase not in _ENDINGS]
    nexts = [*(at_s for _, at_s in passed[1:]), end_s]
    return ScalingShown(
        id=record.id,
        state=record.state,
        phase=record.phase,
        reason=record.reason,
        asked=record.asked,
        asked_at=format_instant(record.asked_s),
        epoch=record.epoch,
        phase_s={phase: _between(at_s, next_s) for (phase, at_s), next_s in zip(passed, nexts, strict=True)},
        total_s=_between(record.asked_s, end_s),
        moved=record.moved,
        longest_pause_s=record.longest_pause_s,
        longest_wait_s=record.longest_wait_s,
        progress={each.slice: each.details for each in progress} if progress is not None else msgspec.UNSET,
    )


def _between(begin_s: float, end_s: float) -> float:
    return round(max(0.0, end_s - begin_s), 3)


EXAMPLE: dict[str, Any] = {
    "id": "scaling-1f0c6a04b7d2",
    "state": "running",
    "phase": "copying",
    "reason": "",
    "asked": {"layers": {"matcher": 3}, "replace": [], "routing": None, "map": None},
    "asked_at": "2026-05-01T12:00:00.000Z",
    "epoch": 5,
    "phase_s": {"asked": 0.012, "gathering": 1.204, "copying": 0.731},
    "total_s": 1.947,
    "moved": 0,
    "longest_pause_s": 0.0,
    "longest_wait_s": 0.0,
    "progress": {"matcher-1": {"moved": 12000}, "accesspoint-1": {"kept_back": 4}},
}
