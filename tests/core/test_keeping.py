"""Who keeps which publication, and what waits until it is kept."""

import pytest

from braid.keeping import keepers_of
from braid.messages import BatchUnderWay, Send, UnderWay
from braid.selector import BroadcastSelector
from braid.topology import Configuration
from services.matcher import keeping as keeping_module
from services.matcher.effects import Keep
from services.matcher.keeping import Keeping
from tests.core.kept_cases import ORIGIN, batch, kept, on_topic, request, topics_kept_by, under_way

NAMES = ("matcher-1", "matcher-2", "matcher-3")
OTHER = "connpoint-2.b"


def selector(*matchers: str) -> BroadcastSelector:
    return BroadcastSelector(Configuration(1, ("accesspoint-1",), matchers or NAMES, ("exitpoint-1",)))


THREE, ONE = selector(), selector("matcher-1")
OWN, FOREIGN = topics_kept_by(THREE, "matcher-1", 1)[0], topics_kept_by(THREE, "matcher-2", 1)[0]


def keeper(sequence: int, content: bytes, origin: str = ORIGIN, *, of: BroadcastSelector = THREE) -> str:
    ((name, places),) = keepers_of(of, origin, sequence, [content]).items()
    assert places == [0]
    return name


# Who keeps it


def test_a_topic_has_one_keeper_whoever_publishes_on_it() -> None:
    for topic in ("a", "a/b", "ä/b"):
        assert len({keeper(number, on_topic(topic, n=number), f"c.{number}") for number in range(50)}) == 1
    assert {keeper(1, on_topic(f"t/{number}")) for number in range(50)} == set(NAMES)


def test_what_has_no_topic_stays_with_its_batch() -> None:
    found = keepers_of(THREE, ORIGIN, 7, [b"{}", b'{"attributes":{"n":1}}', b'{"attributes":{"topic":"a"}}'])
    assert list(found.values()) == [[0, 1, 2]]
    assert {keeper(number, b"{}") for number in range(50)} == set(NAMES)
    assert {keeper(7, b"{}", f"connpoint-{number}.a") for number in range(50)} == set(NAMES)


def test_it_is_the_same_in_every_process() -> None:
    """Written down: what was kept under another map would not be found beside what came before it."""
    contents = [on_topic("ä"), b"{}", on_topic("sports/soccer"), on_topic("ä"), on_topic("air/madrid")]
    assert keepers_of(THREE, ORIGIN, 7, contents) == {"matcher-1": [0, 3], "matcher-3": [1, 4], "matcher-2": [2]}


def test_each_is_kept_once() -> None:
    contents = [on_topic(f"t{number % 7}") if number % 3 else b"{}" for number in range(60)]
    found = keepers_of(THREE, ORIGIN, 7, contents)
    assert sorted(place for places in found.values() for place in places) == list(range(60))
    assert all(places == sorted(places) for places in found.values())


def test_one_matcher_keeps_all() -> None:
    assert keepers_of(ONE, ORIGIN, 7, [on_topic("a"), b"{}", b"\xff"]) == {"matcher-1": [0, 1, 2]}


@pytest.mark.parametrize("content", [b'{"topic":', b'{"topic":3}', b'"topic":', b'{"topic":"\xff"}', b'{"topic":null}'])
def test_what_cannot_be_read_counts_as_without_a_topic(content: bytes) -> None:
    for sequence in range(20):
        assert keeper(sequence, content) == keeper(sequence, b"{}")


def test_a_matcher_that_comes_takes_its_share_and_moves_nothing_else() -> None:
    topics = [on_topic(f"t{number}") for number in range(300)]
    two = selector("matcher-1", "matcher-2")
    moved = [topic for topic in topics if keeper(1, topic, of=two) != keeper(1, topic)]
    assert {keeper(1, topic) for topic in moved} == {"matcher-3"}
    assert 60 < len(moved) < 140


# What a matcher keeps of what it is asked


def of_matcher_1() -> Keeping:
    return Keeping("matcher-1", is_on=True)


def test_it_keeps_what_is_its_own() -> None:
    own, other = on_topic(OWN, n=1), on_topic(FOREIGN)
    requests = [request(7, other, own, previous=6), request(8, other), request(9, own)]
    assert of_matcher_1().keep(THREE, requests) == [
        Keep(1, [batch(7, own, previous=6, places=[1]), batch(9, own)]),
    ]


def test_places_count_in_the_whole_batch() -> None:
    own, other = on_topic(OWN), on_topic(FOREIGN)
    (keep,) = of_matcher_1().keep(THREE, [request(7, own, other, own, places=[2, 5, 9])])
    assert keep.batches == [batch(7, own, own, places=[2, 9])]
    (keep,) = of_matcher_1().keep(THREE, [request(7, own, places=[3])])
    assert keep.batches == [batch(7, own, places=[3])]


def test_where_nothing_is_its_own_there_is_nothing_to_keep() -> None:
    keeping = of_matcher_1()
    assert keeping.keep(THREE, [request(7, on_topic(FOREIGN)), request(8)]) == []
    assert keeping.behind(SENDS[0]) == SENDS[0]
    assert keeping.under_way() == {}


def test_one_that_is_not_to_keep_keeps_nothing() -> None:
    keeping = Keeping("matcher-1", is_on=False)
    assert keeping.keep(ONE, [request(7, b"{}")]) == []
    assert keeping.behind(SENDS[0]) == SENDS[0]
    assert (keeping.under_way(), keeping.marked([kept(7)])) == ({}, [kept(7)])


# What waits for it

SENDS: list[list[Send]] = [[Send(f"exitpoint-{number}", [])] for number in range(6)]


def test_what_is_sent_behind_a_keep_waits_for_it() -> None:
    keeping = of_matcher_1()
    keeping.keep(ONE, [request(7, b"{}")])
    assert keeping.behind(SENDS[0]) == keeping.behind(SENDS[1]) == []
    assert keeping.on_kept(1) == SENDS[0] + SENDS[1]
    assert keeping.behind(SENDS[2]) == SENDS[2]
    assert keeping.on_kept(1) == []


def test_tickets_are_counted_and_each_lets_go_what_is_behind_it() -> None:
    keeping = of_matcher_1()
    tickets = []
    for number in range(3):
        (keep,) = keeping.keep(ONE, [request(number, b"{}")])
        tickets.append(keep.ticket)
        assert keeping.behind(SENDS[2 * number]) == []
        assert keeping.behind(SENDS[2 * number + 1]) == []  # of a request with nothing to keep
    assert tickets == [1, 2, 3]
    assert keeping.on_kept(1) == SENDS[0] + SENDS[1]
    assert keeping.behind(SENDS[0]) == []  # two are still to be kept
    assert keeping.on_kept(3) == SENDS[2] + SENDS[3] + SENDS[4] + SENDS[5] + SENDS[0]


def test_a_ticket_with_nothing_behind_it_holds_up_what_comes() -> None:
    keeping = of_matcher_1()
    keeping.keep(ONE, [request(7, b"{}")])
    keeping.keep(ONE, [request(8, b"{}")])
    assert keeping.on_kept(1) == []
    assert keeping.behind(SENDS[0]) == []
    assert keeping.on_kept(2) == SENDS[0]


# What is known to be confirmed


def test_batches_are_under_way_until_the_watermark_passes_them() -> None:
    keeping = of_matcher_1()
    keeping.keep(ONE, [request(7, b"{}", previous=6, watermark=4), request(5, b"{}", watermark=4)])
    assert keeping.under_way() == {ORIGIN: under_way(4, {7: 6, 5: 0})}
    keeping.keep(ONE, [request(9, b"{}", previous=7, watermark=5)])
    assert keeping.under_way() == {ORIGIN: under_way(5, {7: 6, 9: 7})}


def test_the_watermark_is_heard_also_with_what_others_keep() -> None:
    keeping = of_matcher_1()
    keeping.keep(THREE, [request(7, on_topic(OWN), watermark=4)])
    keeping.keep(THREE, [request(8, on_topic(FOREIGN), watermark=7)])
    assert keeping.under_way() == {}
    assert keeping.marked([kept(7)]) == [kept(7, is_confirmed=True)]


def test_an_older_watermark_changes_nothing() -> None:
    keeping = of_matcher_1()
    keeping.keep(ONE, [request(9, b"{}", watermark=8), request(10, b"{}", watermark=3)])
    assert keeping.under_way() == {ORIGIN: under_way(8, {9: 0, 10: 0})}


def test_what_the_watermark_has_passed_is_marked_as_confirmed() -> None:
    keeping = of_matcher_1()
    keeping.keep(ONE, [request(9, b"{}", watermark=8)])
    found = [kept(9), kept(8, 3), kept(1), kept(1, origin=OTHER)]
    assert keeping.marked(found) == [
        kept(9),
        kept(8, 3, is_confirmed=True),
        kept(1, is_confirmed=True),
        kept(1, origin=OTHER),
    ]


def test_what_is_under_way_now_does_not_change_afterwards() -> None:
    keeping = of_matcher_1()
    keeping.keep(ONE, [request(7, b"{}"), request(1, b"{}", origin=OTHER)])
    now = keeping.under_way()
    keeping.keep(ONE, [request(8, b"{}"), request(9, b"{}", watermark=7), request(2, b"{}", origin="connpoint-3.c")])
    assert now == {ORIGIN: under_way(0, {7: 0}), OTHER: under_way(0, {1: 0})}
    assert keeping.under_way()[ORIGIN] == under_way(7, {8: 0, 9: 0})


def test_the_memory_of_origins_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping_module, "_ORIGINS_MAX", 3)
    keeping = of_matcher_1()
    for number in range(5):
        silent = request(1, b"{}", origin=f"connpoint-1.{number}")
        keeping.keep(ONE, [silent, request(number + 2, b"{}", watermark=number + 1)])
    assert list(keeping.under_way()) == ["connpoint-1.3", "connpoint-1.4", ORIGIN]


def test_a_batch_that_is_sent_again_is_kept_again() -> None:
    """Whether the first time reached the disk is not known; the same record is written once more."""
    keeping = of_matcher_1()
    (first,), (again,) = (keeping.keep(ONE, [request(7, b"{}", previous=6)]) for _ in range(2))
    assert (first.batches, again.ticket) == (again.batches, 2)
    assert keeping.under_way() == {ORIGIN: under_way(0, {7: 6})}


def test_of_a_part_it_is_known_which_and_of_how_many() -> None:
    keeping, own, other = of_matcher_1(), on_topic(OWN), on_topic(FOREIGN)
    keeping.keep(THREE, [request(7, other, own, previous=6), request(8, own, other, own, places=[2, 5, 9], whole=12)])
    batches = {7: BatchUnderWay(6, 1.5, 2, [1]), 8: BatchUnderWay(0, 1.5, 12, [2, 9])}
    assert keeping.under_way() == {ORIGIN: UnderWay(0, batches)}


@pytest.mark.parametrize(("again", "places"), [([0, 3], [0, 2, 3]), ([0, 1, 3], None), ([2], [2])])
def test_sent_again_behind_a_scaling_what_was_kept_before_still_is(again: list[int], places: list[int] | None) -> None:
    keeping, own = of_matcher_1(), on_topic(OWN)
    keeping.keep(THREE, [request(7, own, places=[2], whole=4)])
    keeping.keep(THREE, [request(7, *[own] * len(again), places=again, whole=4)])
    assert keeping.under_way() == {ORIGIN: UnderWay(0, {7: BatchUnderWay(0, 1.5, 4, places)})}
    keeping.keep(ONE, [request(7, *[own] * 4)])
    keeping.keep(THREE, [request(7, own, places=[2], whole=4)])
    assert keeping.under_way() == {ORIGIN: under_way(0, {7: 0}, whole=4)}


def test_the_origin_that_was_silent_longest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping_module, "_ORIGINS_MAX", 2)
    keeping = of_matcher_1()
    for origin in ("a.1", "b.1", "a.1", "c.1"):
        keeping.keep(ONE, [request(1, b"{}", origin=origin)])
    assert list(keeping.under_way()) == ["a.1", "c.1"]
