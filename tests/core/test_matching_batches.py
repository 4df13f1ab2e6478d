"""Subscriptions that are added together."""

import pytest

from braid.matching import batches as batching
from braid.matching.batches import batches
from tests.core.matching_cases import record


def ids_of(*ids: str, filter: str = "a = 1") -> list[list[str]]:
    return [[one.id for one in batch] for batch in batches([record(id, filter) for id in ids])]


def test_an_id_comes_once_in_a_batch() -> None:
    assert ids_of("a", "b", "a", "a", "c") == [["a", "b"], ["a"], ["a", "c"]]
    assert ids_of() == []


def test_batches_are_bounded_by_their_number_and_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "ADDED_AT_ONCE", 3)
    assert ids_of(*"abcdefg") == [list("abc"), list("def"), ["g"]]
    monkeypatch.setattr(batching, "CHARACTERS_AT_ONCE", 10)
    assert ids_of(*"abcd", filter="a = 1") == [["a", "b"], ["c", "d"]]
    assert ids_of(*"abc", filter="a = 1 and b = 2") == [["a"], ["b"], ["c"]]
