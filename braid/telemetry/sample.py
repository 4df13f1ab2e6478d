"""One sample: what one slice did in one second. The schema is in docs/telemetry.md; readers go by `v`."""

import msgspec

from braid.topology import Layer

VERSION = 1
ANCHOR_LENGTH_MAX = 200  # of what a sample shows of an anchor; a filter may be much longer


class Bucket(msgspec.Struct):
    upper_us: int  # the bound before this one < what was measured <= this one
    count: int


class Latency(msgspec.Struct):
    part: str  # of the way of a publication
    buckets: list[Bucket]


class Hit(msgspec.Struct):
    anchor: str  # the first characters of its text
    count: int  # an estimate


class Sample(msgspec.Struct, kw_only=True):
    v: int = VERSION
    cluster: str
    slice: str
    layer: Layer
    incarnation: int  # of the process; with `slice` and `number` it says which sample this is
    number: int  # counts from 1
    epoch: int  # 0 while there is no configuration
    takes_part: bool  # the configuration in force names this slice; connection points always take part
    time_ms: int  # when it was taken, which is the end of what it tells of; milliseconds since 1970
    seconds: float  # that it tells of
    counts: dict[str, int]  # what was handled in them
    latencies: list[Latency]  # of what was finished in them
    queues: dict[str, int]  # what waits now
    anchors: list[Hit]  # hit most in them, those with most hits first
    anchors_missed: int  # an anchor that is left out, or counted too low, has at most so many hits more
    cpu_s: float  # processor time used in them
    rss_bytes: int  # memory now


encode_sample = msgspec.json.Encoder().encode
decode_sample = msgspec.json.Decoder(Sample).decode
