"""The index finds exactly what a look at every subscription would find."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from braid.filters import Filter, Value, evaluate, parse, print_filter
from braid.subscription import SubscriptionRecord
from services.matcher.index import SubscriptionIndex
from tests.core.test_filter_properties import few_filters

NOW = 100.0
VALUES: list[Value] = ["", "x", "xy", 0, 1, 1.0, 2, 2.5, True, False, 2**53 + 1, float(2**53), -0.0]

publications: st.SearchStrategy[dict[str, Value]] = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.sampled_from(VALUES), max_size=3
)
windows = st.sampled_from([(None, None), (None, NOW + 1), (None, NOW), (NOW, None), (NOW + 1, None)])
equalities = st.builds(
    lambda name, value: parse(f"{name} = {value}"),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["1", "1.0", "true", "'x'", "0", "-0.0", "9007199254740993"]),
)
steps = st.lists(
    st.tuples(st.integers(0, 5), st.none() | few_filters | equalities, windows, st.booleans()), min_size=1, max_size=14
)


def record(id: int, filter: Filter | None, window: tuple[Any, Any]) -> SubscriptionRecord:
    text = "" if filter is None else print_filter(filter)
    return SubscriptionRecord(f"s-{id}", f"subscriber-{id % 2}", "connpoint-1", text, 0.0, *window)


def brute_force(known: dict[str, SubscriptionRecord], attributes: dict[str, Value]) -> set[str]:
    return {
        id
        for id, record in known.items()
        if (not record.filter or evaluate(parse(record.filter), attributes))
        and (record.from_s is None or record.from_s <= NOW)
        and (record.until_s is None or record.until_s > NOW)
    }


@settings(derandomize=True, deadline=None, max_examples=120, database=None)
@given(steps, st.lists(publications, min_size=1, max_size=6))
def test_equals_brute_force(
    steps: list[tuple[int, Filter | None, tuple[Any, Any], bool]], published: list[dict[str, Value]]
) -> None:
    index, known = SubscriptionIndex(), dict[str, SubscriptionRecord]()
    for id, filter, window, remove in steps:
        if remove:
            assert index.remove(f"s-{id}") == known.pop(f"s-{id}", None)
        else:
            known[f"s-{id}"] = record(id, filter, window)
            index.add(known[f"s-{id}"])
        for attributes in published:
            found = [match.id for match in index.match(attributes, NOW)]
            assert len(found) == len(set(found))
            assert set(found) == brute_force(known, attributes)
    assert {record.id: record for record in index} == known
    assert len(index) == len(known)
    for number in (0, 1):
        own = {id for id, record in known.items() if record.subscriber == f"subscriber-{number}"}
        assert set(index.ids_of(f"subscriber-{number}")) == own


def test_nothing_is_left_behind() -> None:
    index = SubscriptionIndex()
    for id in range(4):
        index.add(record(id, parse("a = 1 and b = 2") if id % 2 else None, (None, None)))
    for id in range(4):
        assert index.remove(f"s-{id}") is not None
        assert index.get(f"s-{id}") is None
    assert index.remove("s-0") is None
    assert len(index) == 0
    assert [vars(index)[name] for name in vars(index)] == [{}] * len(vars(index))


def test_a_subscription_is_looked_at_only_where_its_pair_occurs() -> None:
    """Of two pairs the one with fewer subscriptions under it is taken."""
    index = SubscriptionIndex()
    index.add(record(1, parse("a = 1"), (None, None)))
    index.add(record(2, parse("a = 1 and b = 2"), (None, None)))
    index.add(record(3, parse("a = 1 and b = 2"), (None, None)))
    assert {pair: set(under) for pair, under in index._anchored.items()} == {
        ("a", 1): {"s-1", "s-3"},
        ("b", 2): {"s-2"},
    }
    assert index._unanchored == {}


def test_a_replacement_moves_to_its_new_pair_and_subscriber() -> None:
    index = SubscriptionIndex()
    index.add(record(1, parse("a = 1"), (None, None)))
    index.add(SubscriptionRecord("s-1", "bert", "connpoint-2", "a = 2", 0.0))
    assert index.match({"a": 1}, NOW) == []
    assert [match.home for match in index.match({"a": 2}, NOW)] == ["connpoint-2"]
    assert (list(index.ids_of("subscriber-1")), list(index.ids_of("bert"))) == ([], ["s-1"])
