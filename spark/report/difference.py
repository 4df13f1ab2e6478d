"""What has changed between two runs of a plan: throughput and cost, kind by kind."""

from typing import NamedTuple

from spark.report.tables import Row, Tables

NOISE = 0.1  # what two runs of the same code may differ by, at least


class Change(NamedTuple):
    """Of one kind of cell. What was not measured in one of the runs is None."""

    configuration: str
    subscriptions: int
    rate: float
    before_s: float | None  # notifications per second
    now_s: float | None
    before_us: float | None  # processor time for a publication, of all layers
    now_us: float | None

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
        if self.change is None or abs(self.change) < NOISE:
            return "about the same"
        return f"{abs(self.change):.0%} {'faster' if self.change > 0 else 'slower'}"


def changes(before: Tables, now: Tables) -> list[Change]:
    """Those of now, in their order, then what is not there any more."""
    speeds = [{_kind(row): row["delivered_s"] for row in tables.throughput} for tables in (before, now)]
    costs = [_costs(tables) for tables in (before, now)]
    kinds = [*speeds[1], *(kind for kind in speeds[0] if kind not in speeds[1])]
    return [
        Change(*kind, *(known.get(kind) for known in speeds), *(known.get(kind) for known in costs)) for kind in kinds
    ]


def summary(found: list[Change]) -> str:
    known = [one for one in found if one.change is not None]
    if not known:
        return "The two runs have no kind of cell in common."
    counts = {word: sum(word in one.verdict for one in known) for word in ("faster", "slower", "same")}
    return (
        f"Of {len(known)} kinds of cells that both runs measured, {counts['faster']} are faster, "
        f"{counts['slower']} slower and {counts['same']} about the same (less than {NOISE:.0%} apart, which two runs "
        "of the same code may be)."
    )


def _kind(row: Row) -> tuple[str, int, float]:
    return row["configuration"], row["subscriptions"], row["rate"]


def _costs(tables: Tables) -> dict[tuple[str, int, float], float]:
    costs: dict[tuple[str, int, float], float] = {}
    for row in tables.cost:
        if row["cpu_us_per_publication"] is not None:
            costs[_kind(row)] = costs.get(_kind(row), 0.0) + row["cpu_us_per_publication"]
    return costs
