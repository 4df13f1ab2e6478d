"""How cells are told apart in captions, rows and sentences."""

from collections.abc import Iterable
from typing import Any

from spark.report.tables import Row, Tables


def is_repeated(tables: Tables) -> bool:
    return any(row["repetition"] > 1 for row in (*tables.holders, *tables.silences))


def cells_wanted(tables: Tables) -> int:
    """By the plan of the run."""
    return len(tables.ledgers) + len(tables.missing)


def scaled_from(row: Row, tables: Tables) -> str:
    """Of a step: what the scaling began with, and which of several it is."""
    return ", ".join([f"from {_load(row)}", *_which(row, tables, " " in row["scaling"])])


def cell(row: Row, tables: Tables) -> str:
    return ", ".join([_load(row), *_which(row, tables, bool(row["scaling"]))])


def conditions(tables: Tables) -> list[str]:
    """What the plan of the run names besides configurations and loads. All its cells have the same."""
    measured_with = [ledger.get("as") or {} for ledger in tables.ledgers]
    return [
        f"{name} {value}"
        for name in ("routing", "workload")
        for value in sorted({told(one[name]) for one in measured_with if one.get(name) is not None})
    ]


def told(value: Any) -> str:
    """Of something that a cell was measured with."""
    if value is None:
        return "not named"
    return ", ".join(f"{name} {one}" for name, one in value.items()) if isinstance(value, dict) else str(value)


def _load(row: Row) -> str:
    return f"{row['configuration']} with {row['subscriptions']:,} subscriptions"


def _which(row: Row, tables: Tables, has_steps: bool) -> Iterable[str]:
    if row["rate"]:
        yield f"at {row['rate']:,.0f} publications per second"
    if has_steps:
        yield f"scaling {row['scaling']}"
    if is_repeated(tables):
        yield f"repetition {row['repetition']}"
