"""A core over partitions of Kafka with a small window, and what tests do with it."""

import msgspec

from braid.messages import Confirmed, Send
from braid.standing_in import log_name, owner_of
from services.connpoint.committed import Committed
from services.connpoint.partitions import Logged, PartitionsCore, Record
from tests.core.ingress_cases import CONFIGURATION, SETTINGS

NAME, OTHER = "connpoint-1", "connpoint-2"
PARTITIONS = 8
BEGAN_MS = 0x5000  # when the first record of the logs was written
OURS = [p for p in range(PARTITIONS) if owner_of(log_name(p), [NAME, OTHER]) == NAME]  # where there are two


def record(offset: int, publisher: int, *contents: bytes) -> Record:
    value = msgspec.msgpack.encode(Logged(publisher, list(contents) or [b"x"], 40.0))
    return Record(offset, BEGAN_MS + offset, value)


def reading(partition: int = 0, committed: Committed | None = None, now_s: float = 100.0) -> PartitionsCore:
    """The only connection point, which knows what is committed of one partition."""
    core = PartitionsCore(NAME, PARTITIONS, SETTINGS)
    core.on_configuration(CONFIGURATION)
    core.on_connpoints([NAME])
    core.on_committed(partition, committed, 0, now_s)
    return core


def read(core: PartitionsCore, *records: Record, partition: int = 0, now_s: float = 100.0) -> list[Send]:
    return core.on_records(partition, records, now_s, 0)


def confirm(core: PartitionsCore, *sequences: int, origin: str = f"ingress-0.{BEGAN_MS:x}") -> list[int]:
    return [batch.sequence for batch in core.on_confirmed(Confirmed(1, origin, list(sequences)))]


def commit(core: PartitionsCore, now_s: float = 100.0) -> dict[int, Committed]:
    found = core.to_commit(now_s)
    core.on_commit(found, now_s)
    return found


def name(core: PartitionsCore, now_s: float) -> dict[int, Committed]:
    found = core.to_name()
    core.on_named(found, now_s)
    return found
