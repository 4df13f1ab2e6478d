"""Entries become batches of records, by partition and in their order."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from services.connpoint.sinks.entries import Block, headers_of, key_of, partition_of


class Batch(msgspec.Struct, eq=False):
    builder: Any  # aiokafka's
    first: int  # number of the first entry in it
    count: int = 0


class Batches:
    def __init__(self, create: Callable[[], Any], partitions: Sequence[int]) -> None:
        self._create = create
        self._partitions = partitions
        self.by_partition: dict[int, list[Batch]] = {}

    def add(self, first: int, block: Block, left_out: set[int]) -> None:
        """`first` is the number of the first entry of the block."""
        partitions, timestamp_ms = self._partitions, block.received_ms
        for number, entry in enumerate(block.entries, first):
            if left_out and number in left_out:
                continue
            key = key_of(entry)
            batches = self._of(partitions[partition_of(entry, key, len(partitions))], number)
            value, headers = entry.content, headers_of(entry, number)
            if not batches[-1].builder.append(timestamp=timestamp_ms, key=key, value=value, headers=headers):
                batches.append(Batch(self._create(), number))
                # An empty batch takes one of any size.
                batches[-1].builder.append(timestamp=timestamp_ms, key=key, value=value, headers=headers)
            batches[-1].count += 1

    def _of(self, partition: int, number: int) -> list[Batch]:
        found = self.by_partition.get(partition)
        if found is None:
            found = self.by_partition[partition] = [Batch(self._create(), number)]
        return found
