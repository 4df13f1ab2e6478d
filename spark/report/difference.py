"""What has changed between two runs of a plan: throughput and cost, kind by kind."""

from statistics import median
from typing import NamedTuple

from spark.report.steps import lasted_s
from spark.report.tables import Row, Tables

NOISE_MIN = 0.1  # what two runs of the same code may differ by, however close their repetitions are
NOISE_UNKNOWN = 1 / 3  # what they may differ by as far as is known, where nothing was repeated


class Change(NamedTuple):
    """Of one kind of cell. What was not measured in one of the runs is None."""

    configuration: str
    subscriptions: int
    rate: float
    before_s: float | None  # notifications per second
    now_s: float | None
    before_us: float | None  # processor time for a publication, of all layers
    now_us: float | None
    noise: float = NOISE_UNKNOWN  # a difference that is smaller, as a share, may be the machine

    @property
    def change(self) -> float | None:
        """Of throughput, as a share of what it was."""
        return self.now_s / self.before_s - 1 if self.before_s and self.now_s is not None else None

    @property
    def verdict(self) -> str:
        if self.before_s is None:
            return "not measured before"
        if self.now_s is None:
            return "not measured again"
        if self.change is None:
            return "nothing came before" if self.now_s else "nothing came in either"
        if abs(self.change) < self.noise:
            return "about the same"
        return f"{abs(self.change):.0%} {'faster' if self.change > 0 else 'slower'}"


def changes(before: Tables, now: Tables) -> list[Change]:
    """Those of now, in their order, then what is not there any more."""
    was, is_now = ({_kind(row): row["delivered_s"] for row in tables.throughput} for tables in (before, now))
    cost_before, cost_now = (_costs(tables) for tables in (before, now))
    kinds = [*is_now, *(kind for kind in was if kind not in is_now)]
    return [
        Change(
            *kind,
            *(was.get(kind), is_now.get(kind), cost_before.get(kind), cost_now.get(kind)),
            _noise([row for tables in (before, now) for row in tables.throughput if _kind(row) == kind]),
        )
        for kind in kinds
    ]


class ScalingChange(NamedTuple):
    """Of one step; of several repetitions the medians. What was not measured in one of the runs is None."""

    configuration: str
    subscriptions: int
    rate: float
    scaling: str
    step: str
    before_s: float | None
    now_s: float | None
    before_silent_ms: float | None
    now_silent_ms: float | None


def scaling_changes(before: Tables, now: Tables) -> list[ScalingChange]:
    was, is_now = _steps(before), _steps(now)
    nothing = (None, None)
    found = []
    for step in [*is_now, *(step for step in was if step not in is_now)]:
        (before_s, before_ms), (now_s, now_ms) = was.get(step, nothing), is_now.get(step, nothing)
        found.append(ScalingChange(*step, before_s, now_s, before_ms, now_ms))
    return found


def summary(found: list[Change]) -> str:
    known = [one for one in found if one.before_s is not None and one.now_s is not None]
    if not known:
        return "The two runs have no kind of cell without a scaling in common."
    counts = {word: sum(word in one.verdict for one in known) for word in ("faster", "slower", "same")}
    silent = sum(one.change is None for one in known)
    told = f" Of {silent} nothing came before, so there is nothing to compare." if silent else ""
    return (
        f"Of {len(known)} kinds of cells that both runs measured, {counts['faster']} are faster, "
        f"{counts['slower']} slower and {counts['same']} about the same: no further apart than repetitions of one "
        f"run are, and {NOISE_MIN:.0%}, or {NOISE_UNKNOWN:.0%} where nothing was repeated, which two runs of the same "
        f"code may be.{told}"
    )


def _noise(rows: list[Row]) -> float:
    """How far repetitions lie apart, in the run in which they do so more; both runs of one kind are given."""
    spreads = [
        (row["delivered_s_max"] - row["delivered_s_min"]) / row["delivered_s"]
        for row in rows
        if row["repetitions"] > 1 and row["delivered_s"]
    ]
    return max(NOISE_MIN, *spreads) if spreads else NOISE_UNKNOWN


def _kind(row: Row) -> tuple[str, int, float]:
    return row["configuration"], row["subscriptions"], row["rate"]


def _steps(tables: Tables) -> dict[tuple[str, int, float, str, str], tuple[float, float]]:
    """How long each step took, in seconds, and the longest silence, in milliseconds."""
    found: dict[tuple[str, int, float, str, str], list[Row]] = {}
    for row in tables.silences:
        found.setdefault((*_kind(row), row["scaling"], row["step"]), []).append(row)
    return {
        step: (median(lasted_s(tables, row) for row in rows), median(1000 * row["silent_s"] for row in rows))
        for step, rows in found.items()
    }


def _costs(tables: Tables) -> dict[tuple[str, int, float], float]:
    costs: dict[tuple[str, int, float], float] = {}
    for row in tables.cost:
        if row["cpu_us_per_publication"] is not None:
            costs[_kind(row)] = costs.get(_kind(row), 0.0) + row["cpu_us_per_publication"]
    return costs
