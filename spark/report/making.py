"""From the results of a plan to the page."""

from pathlib import Path
from typing import Any

from spark.errors import ExperimentError
from spark.requests import Report

# A few thousand rows: more partitions, or compiling for speed, would cost more than the work.
_SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def make_report(request: Report) -> dict[str, Any]:
    """Of the run that measured last, against the one before it unless another one is named."""
    from spark.experiments.finished import runs_of
    from spark.report.page import page
    from spark.report.tables import read_tables
    from spark.session import spark_session

    *earlier, now = runs_of(request.results)
    before = earlier[-1] if earlier else None
    if request.against:
        before = _named([*earlier, now], request.against)
    with spark_session(request.master, _SMALL) as spark:
        tables, earlier_tables, why = read_tables(spark, now), None, None
        if before is not None:
            try:
                earlier_tables = read_tables(spark, before)
            except ExperimentError as error:  # damage there is no reason to show nothing of what was measured now
                why = f"The difference to {before.name} is left out: {error}."
        made = page(tables, earlier_tables, why)
    out = request.out or now / "report.html"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(made, encoding="utf-8")
    except OSError as error:
        raise ExperimentError(f"cannot write {out}: {error.strerror}") from None
    return {
        "made": "report",
        "of": now.name,
        "against": None if earlier_tables is None else earlier_tables.run,
        "note": why,
        "out": str(out),
    }


def _named(known: list[Path], run: str) -> Path:
    """By its name, or by how its name begins."""
    matching = [path for path in known if path.name == run] or [path for path in known if path.name.startswith(run)]
    if len(matching) != 1:
        raise ExperimentError(f"--against {run}: one of {', '.join(path.name for path in known)} is meant")
    return matching[0]
