"""Which version of a subscription counts, whichever one of its writes was hit."""

import pytest

from services.matcher.storage.keys import entry_key, list_id
from services.matcher.storage.records import Kind
from services.matcher.storage.versions import lists_of, record_of, version_of
from tests.core.storage.cases import NOW_S, subscription

Names = str  # each list has one letter
OLD, NEW = subscription("s1", body=b"old"), subscription("s1", body=b"new")


def key_in(name: str) -> bytes:
    return entry_key(list_id(name), Kind.SUBSCRIPTION, NOW_S, "s1")


@pytest.mark.parametrize(
    ("old", "new", "by_id", "expected"),
    [
        ({"a": "a"}, {"b": "b"}, "b", "new b"),
        ({"a": "ac"}, {"b": "bc", "c": ""}, "bc", "new bc"),
        ({"a": "acd", "c": "", "d": ""}, {"b": "b"}, "b", "new b"),
        ({}, {"b": "b"}, "a", "new b"),
        ({}, {"b": "bc", "c": ""}, "ac", "new bc"),
        ({}, {"b": "bc", "c": ""}, "c", "new bc"),
        ({}, {"c": "cb", "b": ""}, "c", "new cb"),
        ({}, {"c": "c"}, "ac", "new c"),
        ({}, {"b": "bc", "c": ""}, "", "new bc"),
        ({}, {"b": "bc"}, "bc", "new bc"),
        ({}, {"c": ""}, "bc", "new bc"),
        ({"c": "c"}, {"a": ""}, "ca", "new ca"),
        ({"d": ""}, {"c": ""}, "dc", "new dc"),
        ({}, {"b": "bc"}, "", "new bc"),
        ({}, {"c": "", "d": ""}, "", "new cd"),
    ],
    ids=[
        "a removal",
        "a removal, and a list of both",
        "all removals",
        "the entry by id",
        "the entry by id, and a list of both",
        "the entry by id, and one list more",
        "the entry by id, and one list more behind it",
        "the entry by id, and one list less",
        "the entry by id, so that none is left",
        "a further entry",
        "the first entry",
        "the first entry, where the old one is left",
        "the first entry, where a further old one is left",
        "a further entry, and the entry by id",
        "the first entry, and the entry by id",
    ],
)
def test_what_was_hit_does_not_decide(
    old: dict[str, Names], new: dict[str, Names], by_id: Names, expected: str
) -> None:
    """What is there of both versions: by its list, the lists that it names."""
    there = {
        key_in(name): (record, tuple(map(list_id, names)))
        for record, entries in ((OLD, old), (NEW, new))
        for name, names in entries.items()
    }
    version = version_of(there, [key_in(name) for name in by_id] or None)
    body, _, lists = expected.partition(" ")
    assert lists_of(version) == tuple(map(list_id, lists))
    assert record_of(there, version).body == body.encode()
