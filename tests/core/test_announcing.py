"""What a matcher tells access points of its anchors: the whole list, then what changes, and who knows what."""

import random
from collections.abc import Callable, Iterator

import pytest

from braid.messages import Anchors, AnchorsKnown, Send
from braid.subscription import SubscriptionRecord
from services.matcher import anchor_counts
from services.matcher import announcing as module
from services.matcher.announcing import Announcing
from services.matcher.holdings import Holdings
from tests.core.announcing_cases import ACCESSPOINTS, Linked, anchor, numbered

FIRST, SECOND = ACCESSPOINTS[:2]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_MAX", 3)
    monkeypatch.setattr(module, "PARTS_UNDER_WAY_MAX", 2)
    monkeypatch.setattr(module, "LOOKS_AT_ONCE", 4)
    monkeypatch.setattr(anchor_counts, "PAGE_MAX", 5)


def anchors(*numbers: int) -> list[str]:
    return [anchor(number) for number in numbers]


def announcing(*numbers: int, accesspoints: tuple[str, ...] = (FIRST,)) -> tuple[Holdings, Announcing]:
    """Anchored from the start, with a subscription under each of these."""
    holdings = Holdings()
    holdings.announcing.on_configured(is_on=True, accesspoints=accesspoints)
    while holdings.announcing.wants_to_go_on:
        holdings.announcing.on_continue()
    for number in numbers:
        holdings.put(numbered(f"s-{number}", number))
    return holdings, holdings.announcing


def told(*numbers: int) -> tuple[Holdings, Announcing]:
    """The same, and the access point knows all of them."""
    holdings, made = announcing(*numbers)
    sends = made.on_accesspoint_up(FIRST)
    while sends:
        (send,) = sends
        sends = [more for message in send.messages for more in known(made, message.part)]
    assert made.is_told
    return holdings, made


def known(made: Announcing, part: int, accesspoint: str = FIRST) -> list[Send]:
    return made.on_known(accesspoint, AnchorsKnown(0, part))[0]


def part(
    number: int, added: tuple[int, ...] = (), removed: tuple[int, ...] = (), *, begins: bool = False, whole: bool = True
) -> Anchors:
    return Anchors(0, number, begins, whole, anchors(*added), anchors(*removed))


# The whole list


def test_an_empty_list_is_told_too() -> None:
    _, made = announcing()
    assert not made.is_told
    assert made.on_accesspoint_up(FIRST) == [Send(FIRST, [part(1, begins=True)])]
    assert not made.is_told
    assert known(made, 1) == []
    assert made.is_told


def test_a_list_that_fits_is_one_part() -> None:
    _, made = announcing(1, 2, 3)
    assert made.on_accesspoint_up(FIRST) == [Send(FIRST, [part(1, (1, 2, 3), begins=True)])]


def test_a_long_list_goes_in_parts_of_which_few_are_under_way() -> None:
    _, made = announcing(*range(10))
    assert made.anchors == 10
    assert made.on_accesspoint_up(FIRST) == [
        Send(FIRST, [part(1, (0, 1, 2), begins=True, whole=False), part(2, (3, 4, 5), whole=False)])
    ]
    assert made.changes() == []
    assert made.on_known(FIRST, AnchorsKnown(0, 1)) == (
        [Send(FIRST, [part(3, (6, 7, 8), whole=False)])],
        dict.fromkeys(anchors(0, 1, 2), True),
    )
    assert [made.is_known(anchor(number)) for number in (0, 3, 6, 9)] == [True, False, False, False]
    assert known(made, 2) == [Send(FIRST, [part(4, (9,))])]
    assert known(made, 3) == []
    assert not made.is_told
    assert known(made, 4) == []
    assert made.is_told


def test_several_subscriptions_of_one_anchor_are_told_once() -> None:
    holdings, made = told(1)
    holdings.put(numbered("s-other", 1))
    assert made.changes() == []
    holdings.remove("s-1", [])
    assert made.changes() == []
    assert made.is_known(anchor(1))
    holdings.remove("s-other", [])
    assert made.changes() == [Send(FIRST, [part(2, removed=(1,))])]
    assert made.anchors == 0


def test_every_access_point_gets_its_own_parts() -> None:
    _, made = announcing(1, accesspoints=(FIRST, SECOND))
    assert made.on_accesspoint_up(FIRST) == [Send(FIRST, [part(1, (1,), begins=True)])]
    known(made, 1)
    assert (made.is_known(anchor(1)), made.is_told) == (False, False)  # the second one has no link yet
    assert made.on_accesspoint_up(SECOND) == [Send(SECOND, [part(1, (1,), begins=True)])]
    assert not made.is_known(anchor(1))
    known(made, 1, SECOND)
    assert (made.is_known(anchor(1)), made.is_told) == (True, True)


# What changes


def test_a_replacement_adds_one_and_removes_the_other() -> None:
    holdings, made = told(1)
    holdings.put(numbered("s-1", 2))
    assert made.changes() == [Send(FIRST, [part(2, (2,), (1,))])]
    assert (made.is_known(anchor(2)), made.is_told) == (False, False)
    known(made, 2)
    assert (made.is_known(anchor(2)), made.is_told) == (True, True)
    holdings.put(numbered("s-1", 2))
    assert made.changes() == []


def test_what_comes_and_goes_before_it_is_sent_is_sent_once() -> None:
    holdings, made = told()
    for number in (1, 2, 3, 4):
        holdings.put(numbered(f"s-{number}", number))
        made.changes()  # two parts are under way, nothing else goes
    holdings.put(numbered("s-5", 5))
    holdings.remove("s-4", [])
    holdings.remove("s-5", [])
    holdings.put(numbered("s-6", 5))
    holdings.remove("s-1", [])
    assert made.changes() == []
    assert known(made, 2) == [Send(FIRST, [part(4, (3, 5), (4,))])]
    assert known(made, 3) == [Send(FIRST, [part(5, (), (1,))])]


def test_one_that_comes_back_is_known_only_when_that_is_known() -> None:
    holdings, made = told(1)
    holdings.remove("s-1", [])
    assert made.changes() == [Send(FIRST, [part(2, removed=(1,))])]
    holdings.put(numbered("s-2", 1))
    assert made.changes() == [Send(FIRST, [part(3, (1,))])]
    assert not made.is_known(anchor(1))
    known(made, 2)
    assert not made.is_known(anchor(1))
    known(made, 3)
    assert made.is_known(anchor(1))


# Links and access points


def test_a_link_that_comes_up_again_begins_with_the_list() -> None:
    holdings, made = told(1, 2)
    holdings.put(numbered("s-3", 3))
    assert made.changes() == [Send(FIRST, [part(2, (3,))])]
    holdings.remove("s-1", [])
    assert made.changes() == [Send(FIRST, [part(3, removed=(1,))])]
    assert made.on_accesspoint_up(FIRST) == [Send(FIRST, [part(4, (2, 3), begins=True)])]
    assert not any(map(made.is_known, anchors(2, 3)))
    assert known(made, 2) == known(made, 3) == []  # of the link before
    assert not made.is_known(anchor(3))
    known(made, 4)
    assert (made.is_known(anchor(3)), made.is_told) == (True, True)


def test_only_those_that_take_part_are_told_and_awaited() -> None:
    _, made = announcing(1)
    assert made.on_accesspoint_up(SECOND) == []
    assert known(made, 1, SECOND) == []
    assert not made.is_told
    assert made.on_configured(is_on=True, accesspoints=[SECOND]) == [Send(SECOND, [part(1, (1,), begins=True)])]
    assert made.on_configured(is_on=True, accesspoints=[SECOND]) == []
    known(made, 1, SECOND)
    assert made.is_told  # the first one never had a link, but does not count any more


def test_one_that_left_and_comes_back_is_told_from_the_beginning() -> None:
    holdings, made = told(1)
    made.on_configured(is_on=True, accesspoints=[])
    assert made.is_told
    holdings.put(numbered("s-2", 2))
    assert made.changes() == []
    assert made.is_known(anchor(2))
    assert made.on_configured(is_on=True, accesspoints=[FIRST]) == [Send(FIRST, [part(2, (1, 2), begins=True)])]
    assert not made.is_known(anchor(2))


# Several at once


def test_of_several_that_come_at_once_those_count_that_could_be_kept() -> None:
    """One that cannot be read stops the others; what is there nevertheless is removed later, and must have counted."""
    holdings, made = told(1, 2)
    unreadable = SubscriptionRecord("s-5", "anna", "connpoint-1", "n =", 0.0)
    with pytest.raises(ValueError, match="expected"):
        holdings.put_arrived([numbered("s-1", 3), unreadable, numbered("s-4", 4)])
    assert sorted(holdings.index.ids()) == ["s-1", "s-2", "s-4"]
    assert made.changes() == [Send(FIRST, [part(2, (3, 4), (1,))])]
    for id in ("s-1", "s-2", "s-4"):
        assert holdings.remove(id, []) is not None
    assert made.anchors == 0


# On and off


def test_while_it_is_off_nothing_is_counted_and_everything_is_known() -> None:
    holdings = Holdings()
    made = holdings.announcing
    assert made.on_configured(is_on=False, accesspoints=[FIRST]) == []
    assert made.on_accesspoint_up(FIRST) == []
    holdings.put(numbered("s-1", 1))
    holdings.remove("s-1", [])
    assert (made.changes(), made.anchors) == ([], 0)
    assert (made.is_told, made.is_known(anchor(1)), made.wants_to_go_on) == (True, True, False)


def test_turned_on_it_counts_what_is_there_bit_by_bit_and_tells_it_meanwhile() -> None:
    holdings = Holdings()
    made = holdings.announcing
    for number in range(6):
        holdings.put(numbered(f"s-{number}", number))
    made.on_accesspoint_up(FIRST)
    assert made.on_configured(is_on=True, accesspoints=[FIRST]) == []
    assert (made.wants_to_go_on, made.is_told) == (True, False)
    assert made.on_continue() == [
        Send(FIRST, [part(1, (0, 1, 2), begins=True, whole=False), part(2, (3,), whole=False)])
    ]
    assert known(made, 1) == known(made, 2) == []
    assert (made.wants_to_go_on, made.is_told) == (True, False)  # everything that was sent is known, but is not all
    assert made.on_continue() == [Send(FIRST, [part(3, (4, 5))])]
    assert not made.wants_to_go_on
    known(made, 3)
    assert made.is_told


def test_the_end_is_told_also_when_the_last_look_finds_nothing() -> None:
    holdings = Holdings()
    made = holdings.announcing
    for number in range(4):
        holdings.put(numbered(f"s-{number}", number))
    made.on_configured(is_on=True, accesspoints=[FIRST])
    made.on_continue()
    made.on_accesspoint_up(FIRST)
    known(made, 1)
    known(made, 2)
    assert made.on_continue() == [Send(FIRST, [part(3)])]


def test_turned_off_and_on_again_it_begins_anew() -> None:
    holdings, made = told(1)
    assert made.on_configured(is_on=False, accesspoints=[FIRST]) == []
    holdings.put(numbered("s-1", 2))
    assert made.on_configured(is_on=True, accesspoints=[FIRST]) == []
    assert made.on_continue() == [Send(FIRST, [part(2, (2,), begins=True)])]


# By chance


def step(linked: Linked) -> None:
    chance = linked.chance
    one, id = chance.choice(ACCESSPOINTS), f"s-{chance.randrange(25)}"
    several = [numbered(f"s-{number}", chance.randrange(12)) for number in chance.sample(range(25), 6)]
    some = chance.sample(ACCESSPOINTS, chance.randint(1, 3))
    steps: list[tuple[int, Callable[[], None]]] = [
        (20, lambda: linked.put(numbered(id, chance.randrange(12)))),
        (16, lambda: linked.remove(id)),
        (3, lambda: linked.put_several(several)),
        (12, linked.go_on),
        (40, lambda: linked.deliver_to(one)),
        (40, lambda: linked.deliver_back(one)),
        (3, lambda: linked.link(one)),
        (3, lambda: linked.configure(is_on=True, accesspoints=some)),
        (1, lambda: linked.configure(is_on=False, accesspoints=some)),
        (4, linked.routes[one].clean),
        (1, linked.deliver_all),
    ]
    weights, doing = zip(*steps, strict=True)
    chance.choices(doing, weights)[0]()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_nothing_is_missed_and_all_is_known_in_the_end(seed: int) -> None:
    linked = Linked(random.Random(seed))
    for _ in range(400):
        step(linked)
        linked.check_nothing_is_missed()
    linked.configure(is_on=True, accesspoints=list(ACCESSPOINTS))
    for name in ACCESSPOINTS:
        if name not in linked.up:
            linked.link(name)
    linked.deliver_all()
    linked.check_all_is_known()


def test_a_list_is_walked_as_far_as_there_is_room_to_send() -> None:
    """There may be a million anchors, and messages have their turn meanwhile."""
    holdings, made = announcing(*range(100))
    walked: list[str] = []

    def walk() -> Iterator[tuple[int, str]]:
        for page, text in original():
            walked.append(text)
            yield page, text

    original = made._counts.walk
    made._counts.walk = walk  # type: ignore[method-assign]  # counts how far it is walked
    (send,) = made.on_accesspoint_up(FIRST)
    assert [len(message.added) for message in send.messages] == [3, 3]
    assert len(walked) == 7
    assert not made.is_known(anchor(50))
    assert holdings.index.get("s-50") is not None


def test_of_a_list_that_is_not_whole_what_was_told_is_known() -> None:
    _, made = announcing(*range(20))
    made.on_accesspoint_up(FIRST)
    assert not made.is_known(anchor(0))
    known(made, 1)
    assert [made.is_known(anchor(number)) for number in (0, 2, 3, 19)] == [True, True, False, False]


def test_what_is_on_no_list_any_more_need_not_be_told_with_the_list() -> None:
    """A call about it may wait for an answer since before the link came up."""
    holdings, made = announcing(*range(20))
    holdings.remove("s-19", [])
    made.on_accesspoint_up(FIRST)
    assert made.is_known(anchor(19))
