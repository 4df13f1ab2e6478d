"""What an index promises, one promise at a time."""

import gc
import sys
import weakref

import pytest

from braid.filters import FilterError, Value
from braid.instants import format_instant
from braid.matching import previous
from braid.matching.index import MatchIndex
from braid.subscription import SubscriptionRecord
from tests.core.matching_cases import NOW_S, content, index_of, matched, record, remove_everything

MADRID = {"type": "circle", "lat": 40.4168, "lon": -3.7038, "radius_m": 500.0}
LISBON = {**MADRID, "lat": 38.7223, "lon": -9.1393}


def test_an_empty_index_matches_nothing() -> None:
    index = MatchIndex()
    assert index.match([], NOW_S).ids() == []
    assert index.match([content({"a": 1}), content()], NOW_S).ids() == [[], []]
    assert index.match([content({"a": 1})], NOW_S).by_home() == []
    assert (len(index), list(index), index.get("s"), index.remove("s"), index.ids_of("anna")) == (0, [], None, None, [])
    assert (index.anchors(), index.anchors_of("s")) == ([], [])
    remove_everything(index)


def test_records_come_back_as_they_were_given() -> None:
    whole = record("s-1", "a = 1", words=("tax",), topic="a/+", topic_scope="below", zone=MADRID, until_s=200.0)
    plain = record("s-2", subscriber="bert")
    index = index_of([whole, plain])
    assert {each.id: each for each in index} == {"s-1": whole, "s-2": plain}
    assert (index.get("s-1"), index.get("s-2"), index.get("s-3")) == (whole, plain, None)
    assert (index.ids_of("anna"), index.ids_of("bert"), index.ids_of("carl")) == (["s-1"], ["s-2"], [])
    assert (index.remove("s-1"), index.remove("s-1")) == (whole, None)
    assert list(index) == [plain]


def test_the_subscriptions_of_one_subscriber_come_and_go() -> None:
    index = index_of(record(f"s-{number}", "a = 1", subscriber=f"subscriber-{number % 3}") for number in range(30))
    for number in (0, 27, 12, 15):
        index.remove(f"s-{number}")
    index.add(record("s-1", "a = 1", subscriber="subscriber-0"))
    kept = {f"s-{number}" for number in (1, 3, 6, 9, 18, 21, 24)}
    assert set(index.ids_of("subscriber-0")) == kept
    assert len(index.ids_of("subscriber-0")) == len(kept)
    assert "s-1" not in index.ids_of("subscriber-1")
    assert len(index.ids_of("subscriber-2")) == 10


@pytest.mark.parametrize("at_once", [False, True])
def test_the_same_id_again_is_a_replacement(at_once: bool) -> None:
    index = MatchIndex()
    given = [record("s", "a = 1"), record("t", "a = 1"), record("s", "a = 2", home="connpoint-2", subscriber="bert")]
    if at_once:
        index.add_many(given)
    else:
        for each in given:
            index.add(each)
    assert matched(index, content({"a": 1}), content({"a": 2})) == [{"t"}, {"s"}]
    assert len(index) == 2
    assert (index.ids_of("anna"), index.ids_of("bert")) == (["t"], ["s"])
    remove_everything(index)


def test_a_zone_moves() -> None:
    index = index_of([record("s", zone=MADRID)])
    in_madrid = content(zone={"type": "point", "lat": 40.4169, "lon": -3.7035})
    in_lisbon = content(zone={"type": "point", "lat": 38.7223, "lon": -9.1394})
    assert matched(index, in_madrid, in_lisbon) == [{"s"}, set()]
    index.add(record("s", zone=LISBON))
    assert matched(index, in_madrid, in_lisbon) == [set(), {"s"}]
    index.add(record("s", "a = 1"))
    assert matched(index, in_madrid, in_lisbon, content({"a": 1})) == [set(), set(), {"s"}]
    remove_everything(index)


def test_what_cannot_be_added_changes_nothing() -> None:
    index = index_of([record("s", "a = 1")])
    for wrong in ("a = ", "a == 1", "a ! 1", "(a = 1", "a = 1 and"):
        for id in ("s", "new"):
            with pytest.raises(FilterError):
                index.add(SubscriptionRecord(id, "anna", "connpoint-1", wrong, 0.0))
            with pytest.raises(FilterError):
                index.add_many([SubscriptionRecord(id, "anna", "connpoint-1", wrong, 0.0)])
    assert matched(index, content({"a": 1})) == [{"s"}]
    remove_everything(index)


@pytest.mark.parametrize("wrong", ["a = = 1", "a = '\ud800'", "a = 1 or b = '\udfff'"])
def test_what_cannot_be_added_is_left_out_of_many(wrong: str) -> None:
    index = MatchIndex()
    given = [record("plain", "a = 1"), record("other", "a = 1 or b = 2"), record("topic", "a = 1 or b = 2", topic="t")]
    bad = [SubscriptionRecord(f"bad-{parts}", "anna", "connpoint-1", wrong, 0.0, topic=parts) for parts in ("", "t")]
    with pytest.raises(FilterError):
        index.add_many([given[0], *bad, *given[1:]])
    assert set(index.ids()) == {each.id for each in given}
    assert matched(index, content({"a": 1}, topic="t")) == [{each.id for each in given}]
    remove_everything(index)


def test_a_dropped_index_is_freed_at_once() -> None:
    """It reserves much address space and may hold much memory, and a matcher looks for cycles rarely."""
    index = index_of([record("s", "a = 1 and b > prev(b)", words=("tax",), topic="a/+", zone=MADRID)])
    index.match([content({"a": 1}, topic="a/b", text="tax", zone=MADRID)], NOW_S)
    memory = weakref.ref(index._memory)
    gc.collect()
    gc.disable()
    try:
        del index
        assert memory() is None
    finally:
        gc.enable()


def test_matches_of_several_homes() -> None:
    index = index_of(record(f"s-{number}", "a = 1", home=f"connpoint-{number % 3}") for number in range(9))
    index.add(record("b", "b = 1", home="connpoint-2"))
    published = [content({"a": 1}), content({"c": 1}), content({"a": 1, "b": 1})]
    matches = index.match(published, NOW_S)
    by_home = {home: [(place, sorted(ids), body) for place, ids, body in found] for home, found in matches.by_home()}
    first, second, third = ([f"s-{number + home}" for number in (0, 3, 6)] for home in range(3))
    assert by_home == {
        "connpoint-0": [(0, first, published[0]), (2, first, published[2])],
        "connpoint-1": [(0, second, published[0]), (2, second, published[2])],
        "connpoint-2": [(0, third, published[0]), (2, ["b", *third], published[2])],
    }
    assert len(matches) == 19


def test_lists_of_ids_hold_what_they_list_and_let_it_go() -> None:
    """Lists are filled by the engine: of publications without matches, with a few, with more than are fetched ahead."""
    ids = [f"s-{number}" for number in range(200)]
    index = index_of(record(id, f"a >= {number}", home=f"connpoint-{number % 2}") for number, id in enumerate(ids))
    published = [content({"a": value}) for value in (-1, 0, 2, -1, 199, 0, -1)]
    held = [sys.getrefcount(id) for id in ids]
    matches = index.match(published, NOW_S)
    assert [len(found) for found in matches.ids()] == [0, 1, 3, 0, 200, 1, 0]
    assert sorted(matches.ids()[4]) == sorted(ids)
    listed = [sum(id in found for found in matches.ids()) for id in ids]
    assert [sys.getrefcount(id) for id in ids] == [before + times for before, times in zip(held, listed, strict=True)]
    for _ in range(1000):
        index.match(published, NOW_S)
    del matches
    assert [sys.getrefcount(id) for id in ids] == held


def test_matches_stay_true_when_subscriptions_change_later() -> None:
    index = index_of([record("s", "a = 1"), record("t", "a = 1")])
    matches = index.match([content({"a": 1})], NOW_S)
    index.remove("s")
    index.add(record("u", "a = 1", home="connpoint-2"))
    assert sorted(matches.ids()[0]) == ["s", "t"]
    assert [home for home, _ in matches.by_home()] == ["connpoint-1"]


def test_windows_hold_their_beginning_but_not_their_end() -> None:
    index = index_of([record("plain", "a = 1", from_s=10.0, until_s=20.0)])
    index.add(record("checked", "a > 'x' or a = 1", from_s=10.0, until_s=20.0))
    index.add(record("from", from_s=10.0))
    index.add(record("until", until_s=20.0))
    published = content({"a": 1})
    assert matched(index, published, now_s=9.999999) == [{"until"}]
    assert matched(index, published, now_s=10.0) == [{"plain", "checked", "from", "until"}]
    assert matched(index, published, now_s=19.999999) == [{"plain", "checked", "from", "until"}]
    assert matched(index, published, now_s=20.0) == [{"from"}]


def test_what_has_expired_matches_nothing() -> None:
    index = index_of([record("every")])
    published = content({"a": 1}, expires=format_instant(NOW_S))
    assert matched(index, published, content(), now_s=NOW_S - 0.001) == [{"every"}, {"every"}]
    assert matched(index, published, content(), now_s=NOW_S) == [set(), {"every"}]
    assert matched(index, published, content(), now_s=NOW_S + 1) == [set(), {"every"}]
    for unusual in ("1970-01-01T00:01:40Z", "1970-01-01T01:01:40.000000+01:00"):
        spelled = b'{"expires":"%s"}' % unusual.encode()
        assert matched(index, spelled, now_s=NOW_S - 0.001) == [{"every"}]
        assert matched(index, spelled, now_s=NOW_S) == [set()]


@pytest.mark.parametrize("bad", [b"", b"{", b"[]", b"nonsense", b'{"attributes":5}', b'{"attributes":{"a":}}', b"\xff"])
def test_what_is_no_publication_is_counted_and_the_others_match(bad: bytes) -> None:
    index = index_of([record("s", "a = 1"), record("every", home="connpoint-2")])
    good = content({"a": 1})
    matches = index.match([good, bad, good, bad], NOW_S)
    assert [sorted(ids) for ids in matches.ids()] == [["every", "s"], [], ["every", "s"], []]
    assert matches.unreadable == 2
    assert {place for _, found in matches.by_home() for place, _, _ in found} == {0, 2}
    assert index.match([good], NOW_S).unreadable == 0


def test_unusual_spelling_is_read_too() -> None:
    index = index_of([record("s", "name = 'é\"' and value > 1"), record("t", topic="1.4"), record("w", words=("tax",))])
    spelled = b' { "text" : "taxes", "attributes":{"value" : 2.0e0,\n "name":"\\u00e9\\u0022"},"topic":"1\\/4" }\n'
    matches = index.match([spelled], NOW_S)
    assert (sorted(matches.ids()[0]), matches.unreadable) == (["s", "t", "w"], 0)
    assert matches.by_home()[0][1][0][2] == spelled  # what is delivered is what came


def test_previous_publications_inside_a_batch_and_across() -> None:
    index = index_of([record("s", "a > prev(a)")])
    rising = [content({"a": value}, topic="t") for value in (1, 2, 2, 3)]
    assert matched(index, *rising) == [set(), {"s"}, set(), {"s"}]
    assert matched(index, content({"a": 4}, topic="t"), content({"a": 5}, topic="u")) == [{"s"}, set()]
    assert matched(index, content({"a": 9}), content({"a": 10})) == [
        set(),
        set(),
    ]  # without a topic there is no previous
    assert (index.previous_of("t"), index.previous_of("u"), index.previous_of("v")) == ({"a": 4}, {"a": 5}, None)
    assert index.statistics()["topics_remembered"] == 2


def test_what_is_not_remembered_leaves_no_trace() -> None:
    index = index_of([record("s", "a > prev(a)")])
    first, second = content({"a": 1}, topic="t"), content({"a": 2}, topic="t")
    assert index.match([first, second], NOW_S, remember=False).ids() == [[], ["s"]]
    assert index.previous_of("t") is None
    assert index.match([second], NOW_S).ids() == [[]]
    assert index.match([first], NOW_S, remember=False).ids() == [[]]
    assert index.previous_of("t") == {"a": 2}


def test_publications_are_remembered_while_a_subscription_looks_back() -> None:
    index = index_of([record("s", "a = 1")])
    index.match([content({"a": 1}, topic="t")], NOW_S)
    assert index.previous_of("t") is None
    index.add_many([record("one", "a > prev(a)"), record("other", "not (b = prev(b))")])
    index.match([content({"a": 1, "c": 1}, topic="t")], NOW_S)
    index.remove("one")
    assert index.previous_of("t") == {"a": 1}
    index.match([content({"a": 1, "b": 2, "c": 1}, topic="t")], NOW_S)
    assert index.previous_of("t") == {"b": 2}
    index.remove("other")
    assert index.previous_of("t") is None
    remove_everything(index)


def test_a_subscription_that_looks_back_moves_without_forgetting() -> None:
    index = index_of([record("s", "a > prev(a)", topic="t")])
    index.match([content({"a": 1}, topic="t")], NOW_S)
    index.add(record("s", "a > prev(a)", topic="t", zone=MADRID))
    assert index.previous_of("t") == {"a": 1}


def test_what_was_remembered_is_forgotten_when_nobody_looks_back_any_more() -> None:
    index = index_of([record("s", "a > prev(a)", topic="t")])
    index.match([content({"a": 1}, topic="t")], NOW_S)
    index.add(record("s", "a > 0", topic="t"))
    assert index.previous_of("t") is None


def test_a_filter_of_very_many_conditions_is_evaluated() -> None:
    """Multiplied out it would have millions: 1,024 alternatives, each with all these values."""
    either = " and ".join(f"(x{number} > 1 or y{number} > 1)" for number in range(10))
    values = ", ".join(str(number) for number in range(2_000))
    few = ", ".join(f"'{number}'" for number in range(64))
    index = index_of([record("s", f"{either} and c in ({values}) and d in ({few})")])
    assert index.statistics()["programs"] == 1
    numbers: dict[str, Value] = {f"{'xy'[number % 2]}{number}": 2 for number in range(10)}
    right, wrong = numbers | {"c": 1_999, "d": "63"}, numbers | {"c": 2_000, "d": "63"}
    assert matched(index, content(right), content(wrong)) == [{"s"}, set()]
    remove_everything(index)


def test_many_long_filters_are_added_at_once() -> None:
    tail = " and ".join(f"attribute_{number} = 'value {number}'" for number in range(40))
    filters = [f"number = {number} and {tail}" for number in range(1_500)]
    assert record("s", filters[-1]).filter == filters[-1]  # canonical already; parsing so many takes most of the time
    index = index_of(
        SubscriptionRecord(f"s-{number}", "anna", "connpoint-1", filter, 0.0) for number, filter in enumerate(filters)
    )
    assert len(index) == 1_500
    attributes = {f"attribute_{number}": f"value {number}" for number in range(40)}
    assert matched(index, content({"number": 1_499, **attributes})) == [{"s-1499"}]


def test_long_lists_beside_each_other_are_not_multiplied() -> None:
    values = ", ".join(str(number) for number in range(2_000))
    few = ", ".join(f"'{number}'" for number in range(64))
    index = index_of([record("s", f"c in ({values}) and d in ({few})")])
    assert index.statistics()["programs"] == 1
    assert matched(index, content({"c": 7, "d": "7"}), content({"c": 7, "d": "64"})) == [{"s"}, set()]
    remove_everything(index)


def test_the_topics_longest_silent_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previous, "TOPICS_MAX", 3)
    index = index_of([record("s", "a > prev(a)")])
    index.match([content({"a": 1}, topic=topic) for topic in ("t", "u", "v", "t", "w")], NOW_S)
    assert index.statistics()["topics_remembered"] == 3
    assert [index.previous_of(topic) is None for topic in ("t", "u", "v", "w")] == [False, True, False, False]
    assert index.statistics()["topics_forgotten"] == 1


def test_an_attribute_is_remembered_from_when_a_subscription_looks_back_to_it() -> None:
    index = index_of([record("a", "a > prev(a)")])
    index.match([content({"a": 1, "b": 1}, topic="t")], NOW_S)
    index.add(record("b", "b > prev(b) * 2"))
    assert matched(index, content({"a": 2, "b": 3}, topic="t")) == [{"a"}]
    assert matched(index, content({"a": 2, "b": 7}, topic="t")) == [{"b"}]


def test_what_is_remembered_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is looked back to counts; what is published besides may be as large as it likes."""
    monkeypatch.setattr(previous, "BYTES_MAX", 10_500)
    index = index_of([record("s", "a = prev(a)")])
    for number in range(20):
        index.match([content({"a": 1, "b": "x" * 1_000}, topic=f"t{number}", text="y" * 100_000)], NOW_S)
    assert (index.statistics()["topics_remembered"], index.statistics()["topics_forgotten"]) == (20, 0)
    for number in range(5):
        index.match([content({"a": "x" * 3_000}, topic=f"t{number}")], NOW_S)
    statistics = index.statistics()
    assert statistics["previous_bytes"] <= 10_500
    assert (statistics["topics_remembered"], statistics["topics_forgotten"]) == (3, 21)  # some came again, and went
    assert index.previous_of("t4") == {"a": "x" * 3_000}
    assert index.previous_of("t5") is None
    remove_everything(index)


def test_alternatives_that_are_too_many_are_evaluated() -> None:
    """The negation of thirteen inequalities has 2^13 conjunctions."""
    inequalities = " or ".join(f"a{number} != {number}" for number in range(13))
    index = index_of([record("s", f"not ({inequalities})")])
    equal = {f"a{number}": number for number in range(13)}
    published = [content(equal), content({**equal, "a4": 5}), content({**equal, "a4": "x"}), content()]
    assert matched(index, *published) == [{"s"}, set(), {"s"}, {"s"}]
    remove_everything(index)


def test_explain_says_what_matches_and_what_fails() -> None:
    index = index_of([record("s", "a > 1"), record("t", "a > 5"), record("u", "a > prev(a)", topic="t")])
    explained = index.explain(content({"a": 2}), NOW_S, "t")
    assert explained is not None
    assert explained.ids == ["s"]
    assert explained.explanation is not None
    assert not explained.explanation.matches
    without = index.explain(content({"a": 2}, topic="t"), NOW_S)
    assert without is not None
    assert without.explanation is None
    assert index.previous_of("t") is None
    assert index.explain(b"nonsense", NOW_S) is None
