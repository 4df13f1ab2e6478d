"""How a subscription with an address stands, in the answer of `GET /v1/subscriptions/{id}`."""

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from braid.instants import format_instant
from braid.problems import Problem
from services.connpoint.door import DeliveryState, Door

_STATES = ["idle", "sending", "pausing", "disabled", "unknown"]


class DeliveryShown(msgspec.Struct, kw_only=True):
    """`unknown`, with a `detail` and nothing else, when the connection point that delivers it cannot be asked."""

    state: Annotated[str, msgspec.Meta(extra_json_schema={"enum": _STATES})]
    detail: str | UnsetType = UNSET
    waiting: Annotated[int, msgspec.Meta(description="notifications that have not arrived")] | UnsetType = UNSET
    waiting_bytes: int | UnsetType = UNSET
    attempts: Annotated[int, msgspec.Meta(description="of the request that is next")] | UnsetType = UNSET
    failures: Annotated[int, msgspec.Meta(description="since the last success")] | UnsetType = UNSET
    next_attempt: str | UnsetType = UNSET
    last_success: str | UnsetType = UNSET
    last_failure: str | UnsetType = UNSET
    last_error: str | UnsetType = UNSET
    delivered: Annotated[int, msgspec.Meta(description="notifications")] | UnsetType = UNSET
    dead_letters: Annotated[int, msgspec.Meta(description="notifications in them")] | UnsetType = UNSET
    dropped: Annotated[int, msgspec.Meta(description="since its connection point started")] | UnsetType = UNSET


async def delivery_shown(door: Door, id: str) -> DeliveryShown:
    """Of one that is homed here."""
    try:
        state = await door.delivery_of(id)
    except Problem as problem:
        return unknown(problem)
    return _shown(state)


def unknown(problem: Problem) -> DeliveryShown:
    return DeliveryShown(state="unknown", detail=problem.detail)


def _shown(state: DeliveryState) -> DeliveryShown:
    return DeliveryShown(
        state=state.state,
        waiting=state.waiting,
        waiting_bytes=state.waiting_bytes,
        attempts=state.attempts,
        failures=state.failures,
        next_attempt=_instant(state.next_attempt_s),
        last_success=_instant(state.last_success_s),
        last_failure=_instant(state.last_failure_s),
        last_error=state.last_error or UNSET,
        delivered=state.delivered,
        dead_letters=state.dead_letters,
        dropped=state.dropped,
    )


def _instant(at_s: float) -> str | UnsetType:
    return format_instant(at_s) if at_s else UNSET
