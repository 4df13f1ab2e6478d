"""The subscriptions an index holds: by number, by id, by subscriber.

At a million subscriptions what counts is bytes: a record is kept as it is stored, in its short encoding, and decoded
when somebody asks for it; those of one subscriber are a chain through two arrays.
"""

from array import array
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np

from braid.id_tables import IdMap
from braid.matching.engine.memory import IDS, SUBSCRIPTIONS_MAX, Memory
from braid.subscription import SubscriptionRecord

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SubscriptionRecord).decode

NOBODY = -1


class Records:
    def __init__(self, memory: Memory) -> None:
        self._numbers: IdMap[int] = IdMap()
        self._encoded: list[bytes | None] = [None]  # the engine knows no number 0
        self._free: list[int] = []
        # For all there may ever be: an array that grows would be copied, and the engine knows its address.
        self.ids: np.ndarray[Any, np.dtype[np.object_]] = memory.objects(IDS, SUBSCRIPTIONS_MAX)
        self._first_of: IdMap[int] = IdMap()  # by subscriber
        self._before, self._behind = array("i", [NOBODY]), array("i", [NOBODY])

    def __del__(self) -> None:
        self.ids[: len(self._encoded)] = None  # the memory they lie in knows nothing of references

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def numbers_end(self) -> int:
        """All numbers there are lie below."""
        return len(self._encoded)

    def __iter__(self) -> Iterator[SubscriptionRecord]:
        return (_decode(encoded) for encoded in list(self._encoded) if encoded is not None)

    def known_ids(self) -> Iterator[str]:
        return iter(self._numbers)

    def walk_ids(self) -> Iterator[str]:
        """In the order of numbers; records may come and go meanwhile. One that comes may be missing."""
        number = 1
        while number < len(self._encoded):
            id = self.ids[number]
            if id is not None:
                yield id
            number += 1

    def __contains__(self, id: str) -> bool:
        return id in self._numbers

    def number_of(self, id: str) -> int | None:
        return self._numbers.get(id)

    def get(self, id: str) -> SubscriptionRecord | None:
        number = self._numbers.get(id)
        return None if number is None else self.at(number)

    def at(self, number: int) -> SubscriptionRecord:
        encoded = self._encoded[number]
        assert encoded is not None
        return _decode(encoded)

    def reserve(self) -> int:
        """A number for a record that is put here soon, or not after all (`release`)."""
        if self._free:
            return self._free.pop()
        number = len(self._encoded)
        self._encoded.append(None)
        self._before.append(NOBODY)
        self._behind.append(NOBODY)
        return number

    def reserve_many(self, count: int) -> list[int]:
        free = self._free[max(0, len(self._free) - count) :]
        del self._free[len(self._free) - len(free) :]
        first, more = len(self._encoded), count - len(free)
        self._encoded += [None] * more
        nobody = array("i", [NOBODY]) * more
        self._before += nobody
        self._behind += nobody
        return [*free, *range(first, first + more)]

    def release(self, number: int) -> None:
        self._free.append(number)

    def put(self, number: int, record: SubscriptionRecord) -> None:
        self._encoded[number] = _encode(record)
        self._numbers[record.id] = number
        self.ids[number] = record.id
        self._chain(number, record.subscriber)

    def put_many(self, numbers: list[int], records: list[SubscriptionRecord], remove: Callable[[str], object]) -> None:
        """The same as putting each, some times faster; `remove` takes out what has the id of one of them already."""
        ids = [record.id for record in records]
        for place in self._numbers.add_many(ids, numbers):
            remove(ids[place])
            self._numbers[ids[place]] = numbers[place]
        encoded = self._encoded
        for number, record in zip(numbers, records, strict=True):
            encoded[number] = _encode(record)
        self.ids[numbers] = ids
        self._chain_many(np.array(numbers, dtype=np.int32), [record.subscriber for record in records])

    def _chain(self, number: int, subscriber: str) -> None:
        behind = self._first_of.get(subscriber, NOBODY)
        self._first_of[subscriber] = number
        self._before[number] = NOBODY
        self._behind[number] = behind
        if behind != NOBODY:
            self._before[behind] = number

    def _chain_many(self, numbers: "np.ndarray[Any, np.dtype[np.int32]]", subscribers: list[str]) -> None:
        firsts = self._first_of.exchange_many(subscribers, numbers.tolist(), NOBODY)
        behind = np.array(firsts, dtype=np.int32)
        has_one_behind = behind != NOBODY
        all_before, all_behind = (np.frombuffer(chain, dtype=np.int32) for chain in (self._before, self._behind))
        all_before[numbers] = NOBODY
        all_behind[numbers] = behind
        all_before[behind[has_one_behind]] = numbers[has_one_behind]

    def take(self, id: str) -> SubscriptionRecord:
        number = self._numbers.pop(id)
        record = self.at(number)
        self._encoded[number] = None
        self.ids[number] = None
        before, behind = self._before[number], self._behind[number]
        if behind != NOBODY:
            self._before[behind] = before
        if before != NOBODY:
            self._behind[before] = behind
        elif behind != NOBODY:
            self._first_of[record.subscriber] = behind
        else:
            del self._first_of[record.subscriber]
        self._free.append(number)
        return record

    def ids_of(self, subscriber: str) -> list[str]:
        found = []
        number = self._first_of.get(subscriber, NOBODY)
        while number != NOBODY:
            found.append(self.ids[number])
            number = self._behind[number]
        return found
