"""What stands in ZooKeeper, as the leading coordinator read or wrote it last."""

from braid.anchor_map import AnchorMap
from braid.scaling import Report, ScalingRecord, Step
from braid.topology import Configuration
from coordinator.events import ConfigurationRead


class Standing:
    def __init__(self) -> None:
        self.configuration: Configuration | None = None
        self.version: int | None = None  # of the configuration; None before it was read
        self.record: ScalingRecord | None = None
        self.map: AnchorMap | None = None  # that the record asks for
        self.reports: dict[tuple[Step, str], Report] = {}
        self._reports_of: str | None = None

    @property
    def scaling_id(self) -> str | None:
        """The change that stands in the configuration comes first; its record may have been removed, or be another."""
        if self.configuration is not None and self.configuration.change is not None:
            return self.configuration.change.id
        return self.record.id if self.record is not None else None

    @property
    def record_of_scaling(self) -> ScalingRecord | None:
        return self.record if self.record is not None and self.record.id == self.scaling_id else None

    def note_read(self, event: ConfigurationRead) -> None:
        self.configuration, self.version = event.configuration, event.version
        self.record, self.map = event.record, event.map
        if self.scaling_id is not None:
            self.note_reports(self.scaling_id, event.reports)

    def note_reports(self, change: str, reports: tuple[Report, ...]) -> None:
        """Those of one change only grow, so news that is older than what is known takes nothing away."""
        if change != self._reports_of:
            self.reports, self._reports_of = {}, change
        self.reports.update({(report.step, report.slice): report for report in reports})
