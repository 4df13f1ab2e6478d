"""Sinks: what waits for a topic becomes blocks, and those become batches of records; and what was seen before."""

from typing import Any

import msgspec
import pytest
from aiokafka.partitioner import DefaultPartitioner

from services.connpoint.delivery import Addressed
from services.connpoint.sinks import entries, seen
from services.connpoint.sinks.batches import Batches
from services.connpoint.sinks.entries import Block, Entry, headers_of, in_blocks, key_of, partition_of
from services.connpoint.sinks.seen import Seen, pairs_of


def entry(content: Any, key: str = "", id: str = "a-1") -> Entry:
    return Entry(id, key, msgspec.json.encode(content))


def addressed(sequence: int, place: int = 0, id: str = "a-1", origin: str = "c.1") -> Addressed:
    return Addressed(id, (origin, sequence, place), b"{}")


# Blocks


def test_what_came_together_is_in_few_blocks_in_its_order() -> None:
    many = [entry({"id": str(n)}) for n in range(2 * entries.BLOCK_ENTRIES_MAX + 1)]
    blocks = list(in_blocks(many, 7))
    assert [len(block.entries) for block in blocks] == [entries.BLOCK_ENTRIES_MAX, entries.BLOCK_ENTRIES_MAX, 1]
    assert [one for block in blocks for one in block.entries] == many
    assert {block.received_ms for block in blocks} == {7}
    assert list(in_blocks([], 7)) == []


def test_a_large_one_has_a_block_of_its_own() -> None:
    small, large = entry({"id": "a"}), entry({"text": "x" * entries.BLOCK_BYTES_MAX})
    blocks = [block.entries for block in in_blocks([small, large, large, small, small], 0)]
    assert blocks == [[small], [large], [large], [small, small]]


def test_a_block_is_read_as_it_was_written() -> None:
    block = Block(1_777_636_800_123, [entry({"id": "ä"}, "key"), entry({"id": "b"}, id="a-2")])
    assert entries.decode_block(entries.encode_block(block)) == block


# Records


@pytest.mark.parametrize(
    ("value", "key"),
    [("Getafe", b"Getafe"), ("ñ", "ñ".encode()), (4, b"4"), (4.5, b"4.5"), (True, b"true"), ("", b"")],
)
def test_the_key_is_the_value_of_an_attribute(value: Any, key: bytes) -> None:
    assert key_of(entry({"attributes": {"city": value, "other": 1}}, "city")) == key


def test_a_record_without_the_attribute_has_no_key() -> None:
    assert key_of(entry({"attributes": {"value": 1}}, "city")) is None
    assert key_of(entry({"id": "a"}, "city")) is None
    assert key_of(entry({"attributes": {"": 1}}, "")) is None


def test_headers_say_whose_it_is_and_which_one() -> None:
    assert headers_of(entry({}, id="a-7"), 12) == [("braid-subscription", b"a-7"), ("braid-number", b"12")]


def test_a_key_is_in_the_partition_where_other_clients_put_it() -> None:
    partitioner = DefaultPartitioner()
    for key in (b"", b"a", b"Getafe", b"\xff" * 9):
        assert partition_of(entry({}), key, 7) == partitioner(key, list(range(7)), list(range(7)))


def test_those_without_a_key_are_together_by_subscription() -> None:
    places = {id: {partition_of(entry({}, id=id), None, 5) for _ in range(3)} for id in map(str, range(30))}
    assert all(len(found) == 1 for found in places.values())
    assert len({found.pop() for found in places.values()}) == 5


# Batches


class Builder:
    """Takes three records."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def append(self, **record: Any) -> Any:
        if len(self.records) == 3:
            return None
        self.records.append(record)
        return record


def values_of(batches: Batches) -> dict[int, list[list[str]]]:
    return {
        partition: [[msgspec.json.decode(one["value"])["id"] for one in batch.builder.records] for batch in found]
        for partition, found in batches.by_partition.items()
    }


def test_batches_keep_the_order_of_each_partition() -> None:
    batches = Batches(Builder, [10, 11])
    keys = {key: 10 + partition_of(entry({}), key.encode(), 2) for key in "abcdefgh"}
    key_10, key_11 = (next(key for key, place in keys.items() if place == wanted) for wanted in (10, 11))
    given = [
        entry({"id": str(n), "attributes": {"k": key}}, "k") for n, key in enumerate((key_10, key_10, key_11) * 3, 100)
    ]
    batches.add(100, Block(5, given[:5]), set())
    batches.add(105, Block(6, given[5:]), {107})
    assert values_of(batches) == {10: [["100", "101", "103"], ["104", "106"]], 11: [["102", "105", "108"]]}
    first, second = batches.by_partition[10]
    assert (first.first, first.count, second.first, second.count) == (100, 3, 104, 2)
    record = first.builder.records[0]
    assert (record["timestamp"], record["key"]) == (5, key_10.encode())
    assert ("braid-number", b"100") in record["headers"]


# What was seen


def has(one: Seen, what: Addressed) -> bool:
    batches, fresh = one.fresh([what])
    assert fresh in ([], [what])
    assert not fresh or batches == {what.key[:2]}
    return not fresh


def test_a_batch_that_came_is_known_for_everybody() -> None:
    one = Seen()
    assert not has(one, addressed(1))
    one.note(one.merged([("c.1", 1)], []))
    assert has(one, addressed(1))
    assert has(one, addressed(1, place=9, id="a-2"))
    assert not has(one, addressed(2))
    assert not has(one, addressed(1, origin="c.2"))


def test_what_was_given_with_a_past_is_known_for_whom_it_was_given() -> None:
    one = Seen()
    one.note(one.merged([], [addressed(1, place=0), addressed(1, place=2)]))
    one.note(one.merged([], [addressed(1, place=1, id="a-2")]))
    assert has(one, addressed(1, place=0))
    assert has(one, addressed(1, place=2))
    assert has(one, addressed(1, place=1, id="a-2"))
    assert not has(one, addressed(1, place=1))
    assert not has(one, addressed(1, place=0, id="a-2"))
    one.note(one.merged([("c.1", 1)], []))
    one.note(one.merged([], [addressed(1, place=5, id="a-3")]))  # of a batch that everybody has
    assert has(one, addressed(1, place=0, id="a-2"))


def test_it_is_the_same_when_it_is_read_from_the_disk() -> None:
    one, again = Seen(), Seen()
    notes = one.merged([("c.1", 3), ("ingress-3.19a", 2**40)], [addressed(4, place=1, id="a-2")])
    again.load([(key, value) for key, value in pairs_of(notes) if value is not None])
    assert has(again, addressed(3))
    assert has(again, addressed(2**40, origin="ingress-3.19a"))
    assert has(again, addressed(4, place=1, id="a-2"))
    assert not has(again, addressed(4, place=1))
    assert len(again) == 3


def test_it_is_forgotten_when_it_is_confirmed() -> None:
    one = Seen()
    notes = one.merged([("c.1", 1), ("c.1", 2), ("c.2", 1)], [addressed(3)])
    one.note(notes)
    erased = one.forget(lambda origin: {"c.1": 2}.get(origin, 0))
    assert erased == [(b"s/c.1/%016x" % 1, None), (b"s/c.1/%016x" % 2, None)]
    assert not has(one, addressed(2))
    assert has(one, addressed(3))
    assert has(one, addressed(1, origin="c.2"))
    assert len(one) == 2


def test_of_too_many_those_are_forgotten_that_were_silent_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "SEEN_MAX", 3)
    one = Seen()
    one.note(one.merged([("c.1", 1), ("c.1", 2)], []))
    one.note(one.merged([("c.2", 1)], []))
    erased = one.note(one.merged([("c.3", 1)], []))
    assert {key for key, _ in erased} == {b"s/c.1/%016x" % 1, b"s/c.1/%016x" % 2}
    assert not has(one, addressed(1))
    assert has(one, addressed(1, origin="c.2"))
    assert len(one) == 2


def test_of_several_batches_those_are_left_that_did_not_come() -> None:
    one = Seen()
    one.note(one.merged([("c.1", 2)], [addressed(3, place=1)]))
    came = [addressed(1), addressed(1, 1), addressed(2), addressed(3), addressed(3, 1), addressed(3, 1, "a-2")]
    batches, fresh = one.fresh(came)
    assert fresh == [addressed(1), addressed(1, 1), addressed(3), addressed(3, 1, "a-2")]
    assert batches == {("c.1", 1), ("c.1", 3)}
    assert one.fresh([]) == (set(), [])
