"""How cells are told apart in captions, rows and sentences."""

from collections.abc import Iterable

from spark.report.tables import Row, Tables


def is_repeated(tables: Tables) -> bool:
    return any(row["repetition"] > 1 for row in (*tables.holders, *tables.silences))


def scaled_from(row: Row, tables: Tables) -> str:
    """Of a step: what the scaling began with, and which of several it is."""
    return ", ".join([f"from {_load(row)}", *_which(row, tables, " " in row["scaling"])])


def cell(row: Row, tables: Tables) -> str:
    return ", ".join([_load(row), *_which(row, tables, bool(row["scaling"]))])


def _load(row: Row) -> str:
    return f"{row['configuration']} with {row['subscriptions']:,} subscriptions"


def _which(row: Row, tables: Tables, has_steps: bool) -> Iterable[str]:
    if row["rate"]:
        yield f"at {row['rate']:,.0f} publications per second"
    if has_steps:
        yield f"scaling {row['scaling']}"
    if is_repeated(tables):
        yield f"repetition {row['repetition']}"
