"""What a stream has read so far, from Spark's own reports of its batches."""

from typing import Any

from spark.streaming.samples import READ


class Tally:
    """Of this run. A batch that Spark reports is counted once."""

    def __init__(self) -> None:
        self.lines = 0
        self.unreadable = 0  # no samples, or of another version
        self.repeated = 0
        self.late = 0  # behind the watermark, and so left out
        self._batch = -1

    def add(self, reports: list[dict[str, Any]]) -> None:
        """`recentProgress` of a query."""
        for report in reports:
            if report["batchId"] <= self._batch:
                continue
            self._batch = report["batchId"]
            read = report.get("observedMetrics", {}).get(READ)
            if read is not None:
                self.lines += read["lines"]
                self.unreadable += read["unreadable"]
            for operator in report["stateOperators"]:
                self.late += operator["numRowsDroppedByWatermark"]
                self.repeated += operator.get("customMetrics", {}).get("numDroppedDuplicateRows", 0)

    def counts(self) -> dict[str, int]:
        return {"lines": self.lines, "unreadable": self.unreadable, "repeated": self.repeated, "late": self.late}
