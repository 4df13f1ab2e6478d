"""From a directory of results to the page."""

import json
from pathlib import Path
from typing import Any

from spark.errors import ExperimentError
from spark.requests import Report


def make_report(request: Report) -> dict[str, Any]:
    """Of the newest commit that was measured, against the one before it unless another one is named."""
    from spark.report.page import page
    from spark.report.tables import read_tables
    from spark.session import spark_session

    known = newest_of(request.results)
    now = known[-1]
    before = _named(known, request.against) if request.against else (known[-2] if len(known) > 1 else None)
    with spark_session(request.master) as spark:
        made = page(read_tables(spark, now), None if before is None else read_tables(spark, before))
    out = request.out or now / "report.html"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(made, encoding="utf-8")
    return {"made": "report", "of": now.name, "against": None if before is None else before.name, "out": str(out)}


def newest_of(directory: Path) -> list[Path]:
    """The results of one plan, by commit, the newest last. Raises `ExperimentError`."""
    found = {path.parent: json.loads(path.read_text())["began"] for path in directory.glob("*/machine.json")}
    if not found:
        raise ExperimentError(
            f"{directory} holds no results: name the directory of one plan, as 'braid experiment run' has said it"
        )
    return sorted(found, key=lambda path: str(found[path]))


def _named(known: list[Path], commit: str) -> Path:
    matching = [path for path in known if path.name.startswith(commit)]
    if len(matching) != 1:
        raise ExperimentError(f"--against {commit}: one of {', '.join(path.name for path in known)} is meant")
    return matching[0]
