"""Other slices or another map for a running cluster: asking for them, and how far that is."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec

from braid.client.errors import BraidError
from braid.client.rest import Rest

T = TypeVar("T")


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """One scaling, from the question to its end. Times are in seconds."""

    id: str
    state: Literal["running", "done", "aborted"]
    phase: str
    reason: str = ""  # why it was aborted
    asked: dict[str, Any] = {}  # {"layers": {"matcher": 3}, "replace": ["matcher-2"], "routing": None, "map": None}
    asked_at: str = ""
    epoch: int | None = None  # of the configuration that it leads to
    phase_s: dict[str, float] = {}
    total_s: float = 0.0
    moved: int = 0  # subscriptions that went to another matcher
    longest_pause_s: float = 0.0  # for which a publication was held
    longest_wait_s: float = 0.0  # for which a subscription was kept back
    progress: dict[str, dict[str, float]] = {}  # while it runs, what each slice says of itself

    def so_far(self, what: str) -> int:
        """Of all slices together: `moved` subscriptions, those `kept_back` now, publications `held` now, and
        `publications_handed_over` by those that leave.
        """
        return int(sum(details.get(what, 0) for details in self.progress.values()))


async def scale(
    rest: Rest,
    layers: Mapping[str, int],
    replace: Sequence[str],
    routing: str | None,
    map: Mapping[str, Any] | Literal["none"] | None,
) -> str:
    asked: dict[str, Any] = {"layers": dict(layers), "replace": list(replace)}
    asked = {name: value for name, value in asked.items() if value}
    asked |= {name: value for name, value in (("routing", routing), ("map", map)) if value is not None}
    accepted = await rest.post("/v1/cluster/scale", asked)
    if not isinstance(accepted, dict) or not isinstance(accepted.get("id"), str):
        raise BraidError("the server accepted the scaling but told no id")
    return str(accepted["id"])


async def find_scaling(rest: Rest, id: str) -> Scaling:
    return _read(await rest.get(f"/v1/cluster/scalings/{quote(id, safe='')}"), Scaling)


async def list_scalings(rest: Rest) -> list[Scaling]:
    return _read(await rest.get("/v1/cluster/scalings"), _Listed).scalings


class _Listed(msgspec.Struct):
    scalings: list[Scaling]


def _read(answer: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise BraidError(f"the scaling is not as expected: {error}") from None
