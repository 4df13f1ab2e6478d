"""What a batch matched, with some of the subscriptions left out."""

from collections.abc import Iterable

import pytest

from braid.matching.index import MatchIndex
from braid.matching.matches import Matches
from braid.subscription import SubscriptionRecord


@pytest.mark.parametrize("homes", [("c-1", "c-1"), ("c-1", "c-2")])
def test_matches_without_some_ids_are_those_of_an_index_without_them(homes: tuple[str, str]) -> None:
    def found(ids: Iterable[int]) -> Matches:
        index = MatchIndex()
        for number in ids:
            index.add(SubscriptionRecord(f"s-{number}", "anna", homes[number % 2], f"n < {number}", 0.0))
        return index.match([b'{"attributes":{"n":%d}}' % n for n in (5, 2, 9, 0)] + [b"?"], 0.0)

    every = found(range(8))
    for hidden in ([], [{"s-3"}], [{"s-3", "s-7"}, {"s-0", "s-99"}], [{f"s-{number}" for number in range(8)}]):
        left = every.without(hidden)
        expected = found(number for number in range(8) if not any(f"s-{number}" in ids for ids in hidden))
        assert [sorted(ids) for ids in left.ids()] == [sorted(ids) for ids in expected.ids()]
        for part in ((0, None), (1, 3)):
            as_sets = [
                {(home, place, content): sorted(ids) for home, own in m.by_home(*part) for place, ids, content in own}
                for m in (left, expected)
            ]
            assert as_sets[0] == as_sets[1]
        assert (len(left), left.unreadable) == (len(expected), 1)
    assert every.ids() == found(range(8)).ids()  # it is left as it was
