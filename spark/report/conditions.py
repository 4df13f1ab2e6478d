"""What two runs were measured under: where that differs, a difference of their numbers says less of the code."""

from collections.abc import Iterator
from statistics import median
from typing import Any

from spark.report import naming
from spark.report.tables import Row, Tables

_STOLEN = 0.05  # of the cores: as much more or less is worth a sentence


def other_conditions(before: Tables, now: Tables) -> list[str]:
    return [*_machines(before, now), *_cells(before, now), *_stolen(before, now)]


def _machines(before: Tables, now: Tables) -> Iterator[str]:
    if any(before.machine.get(name) != now.machine.get(name) for name in ("processor", "cores")):
        yield (
            f"The machine is another one: {before.machine.get('cores')} cores ({before.machine.get('processor')}) "
            f"before, {now.machine.get('cores')} ({now.machine.get('processor')}) now."
        )


def _cells(before: Tables, now: Tables) -> Iterator[str]:
    """Of cells with the same name: all that they were measured with besides."""
    earlier = {ledger.get("cell"): ledger for ledger in before.ledgers}
    found: dict[str, set[str]] = {}
    for ledger in now.ledgers:
        was, is_now = (_flat(one.get("as")) for one in (earlier.get(ledger.get("cell"), {}), ledger))
        if not was or not is_now:  # ledgers once did not say
            continue
        for name in sorted(was.keys() | is_now.keys()):  # what a plan does not name is not there
            before_told, now_told = naming.told(was.get(name)), naming.told(is_now.get(name))
            if before_told != now_told:
                found.setdefault(name, set()).add(f"{before_told} before and {now_told} now")
    if found:
        told = "; ".join(f"{name} {' or '.join(sorted(values))}" for name, values in found.items())
        yield f"Cells of the same name were not measured in the same way: {told}."


def _stolen(before: Tables, now: Tables) -> Iterator[str]:
    was, is_now = _share_stolen(before), _share_stolen(now)
    if abs(was - is_now) > _STOLEN:
        yield f"In the median of cells other machines held {was:.0%} of the cores before and {is_now:.0%} now."


def _share_stolen(tables: Tables) -> float:
    cores = tables.machine.get("cores")
    return median(row["stolen_cores"] for row in tables.holders) / cores if cores and tables.holders else 0.0


def _flat(measured_with: Any) -> Row:
    """What a scaling is made of stands beside the rest."""
    if not isinstance(measured_with, dict):
        return {}
    scaling = measured_with.get("scaling")
    return {**measured_with, "scaling": None, **(scaling if isinstance(scaling, dict) else {})}
