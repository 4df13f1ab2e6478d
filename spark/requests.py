"""What the command line asks for. It hands one of these over as JSON, and knows nothing else of this package."""

from pathlib import Path

import msgspec

PUBLICATIONS = ("readings", "posts", "fleets")
SUBSCRIPTIONS = "subscriptions"
KINDS = (*PUBLICATIONS, SUBSCRIPTIONS)
SUBSCRIBED = ("readings", "posts", "fleets", "topics")
SOURCES = ("taxis", "flights")


class Workload(msgspec.Struct, tag="workload", forbid_unknown_fields=True, frozen=True):
    kind: str
    rows: int
    seed: int
    out: Path
    on: str | None = None
    matches: float = 10.0
    data: Path | None = None
    source: str | None = None
    master: str = "local[*]"
    partitions: int | None = None
    overwrite: bool = False
    json: bool = False


class Words(msgspec.Struct, tag="words", forbid_unknown_fields=True, frozen=True):
    posts: Path
    out: Path
    vocabulary: int = 10_000
    master: str = "local[*]"
    overwrite: bool = False
    json: bool = False


class Map(msgspec.Struct, tag="map", forbid_unknown_fields=True, frozen=True):
    words: Path  # as `Words` made it
    parts: int
    out: Path  # a file
    subscriptions: Path | None = None
    limit: int = 50_000
    master: str = "local[*]"
    overwrite: bool = False
    json: bool = False


class Run(msgspec.Struct, tag="run", forbid_unknown_fields=True, frozen=True):
    plan: str
    out: Path
    again: bool = False
    json: bool = False


class Report(msgspec.Struct, tag="report", forbid_unknown_fields=True, frozen=True):
    results: Path  # of one plan
    out: Path | None = None
    against: str = ""  # a commit
    master: str = "local[*]"
    json: bool = False


class Follow(msgspec.Struct, tag="follow", forbid_unknown_fields=True, frozen=True):
    checkpoint: Path
    out: Path
    source: str = "files"
    directory: Path = Path("data/telemetry")  # of files
    bootstrap: str = ""  # of Kafka
    topic: str = "braid-telemetry"
    window: str = "10s"
    late: str = "15s"
    once: bool = False
    master: str = "local[*]"
    json: bool = False


Request = Workload | Words | Map | Run | Report | Follow
decode_request = msgspec.json.Decoder(Request, dec_hook=lambda kind, given: kind(given)).decode
