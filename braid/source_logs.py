"""The names of the logs that sources are: partitions of topics of Kafka, which any connection point may read.

Origins begin with them, as others begin with the name of a connection point.
"""

_PREFIX = "source-"


def source_log(topic: str, partition: int) -> str:
    return f"{_PREFIX}{topic}-{partition}"


def is_source(log: str) -> bool:
    return log.startswith(_PREFIX)
