"""Where samples go."""

from pathlib import Path
from typing import Protocol

from braid.config import Settings
from braid.telemetry.backlog import Line

DIRECTORY = "telemetry"  # below `cluster.data`


class Sink(Protocol):
    """Called on the event loop; nothing of it waits for a disk or a network, but `open` and `close`."""

    async def open(self) -> None: ...
    def put(self, line: Line) -> None: ...
    async def close(self) -> None:
        """Writes what waits, if that is possible within a moment."""


def sink_of(settings: Settings, slice: str, incarnation: int) -> Sink | None:
    """As `telemetry.sink` says; None when nobody wants telemetry."""
    telemetry = settings.telemetry
    if telemetry.sink == "files":
        from braid.telemetry.file_sink import FileSink
        from braid.telemetry.sample_files import SampleFiles

        return FileSink(
            SampleFiles(
                Path(settings.cluster.data) / DIRECTORY,
                slice,
                incarnation,
                bytes_max=telemetry.files_bytes_max,
                s_max=telemetry.retention_s,
            ),
            telemetry.file_s,
        )
    if telemetry.sink == "kafka":
        from braid.telemetry.kafka_sink import KafkaSink, Topic

        topic = Topic(telemetry.topic, settings.kafka.replication, telemetry.retention_s)
        return KafkaSink(settings.kafka.bootstrap, topic, slice)
    return None
