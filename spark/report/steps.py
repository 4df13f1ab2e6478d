"""What belongs to one step of one live scaling."""

from spark.report.tables import Row, Tables

_SAME = ("configuration", "subscriptions", "rate", "scaling", "repetition", "step")


def of_step(rows: list[Row], step: Row) -> list[Row]:
    """`step` has the columns of a cell, and the step."""
    return [row for row in rows if all(row[name] == step[name] for name in _SAME)]


def lasted_s(tables: Tables, step: Row) -> float:
    return max((float(row["end_s"]) for row in of_step(tables.phases, step)), default=0.0)
