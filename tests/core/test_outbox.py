"""The outbox: numbers, bounds, what is kept for a subscriber that comes back, and what it is told."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.config import Delivery
from services.connpoint.outbox import Outbox


def outbox(attached: bool = True, **settings: Any) -> Outbox:
    given: dict[str, Any] = {"outbox_notifications_max": 5, "replay_notifications_max": 4}
    box = Outbox("anna", "a.1", Delivery(**given | settings), temporary=False)
    box.attached = attached
    return box


def numbers(items: list[Any]) -> list[int]:
    return [item.number for item in items]


def payloads(count: int) -> list[bytes]:
    return [b"x"] * count


def test_numbers_grow_by_one_from_one() -> None:
    box = outbox()
    assert box.push([b"a", b"b"]) == "kept"
    assert box.push([b"c"]) == "kept"
    taken = box.take(2)
    assert [(item.number, item.payload) for item in taken] == [(1, b"a"), (2, b"b")]
    assert numbers(box.take(9)) == [3]
    assert box.take(9) == []
    assert box.event_id(3) == "a.1-3"


def test_too_many_while_attached_ends_the_connection() -> None:
    box = outbox()
    assert box.push(payloads(5)) == "kept"
    assert box.push(payloads(2)) == "slow"
    assert (len(box), box.lost) == (5, 2)
    assert numbers(box.take(9)) == [3, 4, 5, 6, 7]


def test_too_many_while_attached_drops_the_oldest_when_the_policy_says_so() -> None:
    box = outbox(slow_subscriber="drop-oldest")
    assert box.push(payloads(8)) == "dropped"
    assert (len(box), box.lost) == (5, 3)


def test_too_many_while_away_drops_the_oldest_under_either_policy() -> None:
    box = outbox(attached=False)
    assert box.push(payloads(8)) == "dropped"
    assert box.lost == 3
    assert numbers(box.take(9)) == [4, 5, 6, 7, 8]


def test_the_bound_of_bytes() -> None:
    box = outbox(attached=False, outbox_bytes_max=1024)
    assert box.push([b"x" * 600]) == "kept"
    assert box.push([b"y" * 500]) == "dropped"
    assert (box.held_bytes, box.lost) == (500, 1)
    assert box.push([b"z" * 2000]) == "dropped"
    assert (box.held_bytes, len(box), box.lost) == (0, 0, 3)


def test_while_dormant_everything_is_lost_and_counted() -> None:
    box = outbox(attached=False)
    box.push(payloads(3))
    box.take(1)
    box.fall_dormant()
    assert (len(box), box.held_bytes, box.lost) == (0, 0, 2)
    assert box.push(payloads(4)) == "dropped"
    assert box.resume(None) == "6 notifications were dropped while nobody took them"
    assert not box.dormant
    assert box.push(payloads(1)) == "kept"
    assert numbers(box.take(9)) == [8]


# Coming back


def test_without_an_event_id_what_waits_follows() -> None:
    box = outbox()
    box.push(payloads(4))
    box.take(2)
    assert box.resume(None) == ""
    assert numbers(box.take(9)) == [3, 4]


def test_after_an_event_id_what_was_sent_since_follows_again() -> None:
    box = outbox()
    box.push(payloads(4))
    box.take(3)
    assert box.resume("a.1-1") == ""
    assert numbers(box.take(9)) == [2, 3, 4]


def test_after_the_last_event_nothing_follows_again() -> None:
    box = outbox()
    box.push(payloads(3))
    box.take(3)
    assert box.resume("a.1-3") == ""
    assert box.take(9) == []
    assert box.resume("a.1-0") == ""
    assert numbers(box.take(9)) == [1, 2, 3]


def test_what_is_no_longer_kept_is_told() -> None:
    box = outbox()
    for _ in range(6):
        box.push(payloads(1))
        box.take(1)
    assert box.resume("a.1-1") == "1 notifications after that event are gone"
    assert numbers(box.take(9)) == [3, 4, 5, 6]


def test_what_was_dropped_between_sent_and_waiting_is_told() -> None:
    """Sent up to 2; 3 and 4 were dropped while it was away; 5 to 9 wait."""
    box = outbox()
    box.push(payloads(2))
    box.take(2)
    box.attached = False
    box.push(payloads(7))
    assert box.lost == 2
    assert box.resume("a.1-1") == "2 notifications after that event are gone"
    assert numbers(box.take(9)) == [2, 5, 6, 7, 8, 9]


def test_what_was_seen_is_not_sent_again_although_it_waits() -> None:
    """A connection asked for more than it needed and was gone before it took anything."""
    box = outbox()
    box.push(payloads(4))
    box.take(4)
    assert box.resume("a.1-1") == ""
    assert box.resume("a.1-3") == ""
    assert numbers(box.take(9)) == [4]


@pytest.mark.parametrize(
    "unknown", ["", "x", "a.2-1", "a.1-4", "a.1-", "a.1-x", "a.1--1", "a.1-²", "-1", "a.1-" + "9" * 5000]
)
def test_an_event_that_is_not_known_here(unknown: str) -> None:
    box = outbox()
    box.push(payloads(3))
    box.take(2)
    assert box.resume(unknown) == "notifications after that event are gone: the event is not known here"
    assert numbers(box.take(9)) == [3]


def test_what_was_lost_is_told_once() -> None:
    box = outbox(attached=False)
    box.push(payloads(7))
    assert box.resume(None) == "2 notifications were dropped while nobody took them"
    assert box.resume(None) == ""


def test_what_is_kept_of_the_sent_ones_is_bounded() -> None:
    box = outbox(outbox_notifications_max=1000, replay_notifications_max=1000)
    box.push([b"x" * (100 * 1024)] * 30)
    box.take(30)
    assert box.held_bytes == 10 * 100 * 1024
    box.drop_replay()
    assert box.held_bytes == 0
    assert box.resume("a.1-29") == "1 notifications after that event are gone"


def test_nothing_is_kept_when_the_setting_says_so() -> None:
    box = outbox(replay_notifications_max=0)
    box.push(payloads(2))
    assert len(box.take(2)) == 2
    assert box.held_bytes == 0
    assert box.resume("a.1-2") == ""


steps = st.lists(
    st.tuples(st.sampled_from(["push", "push", "take", "take", "resume", "away", "dormant"]), st.integers(0, 7)),
    min_size=6,
    max_size=30,
)


@settings(derandomize=True, deadline=None, max_examples=300, database=None)
@given(steps)
def test_after_a_resumption_nothing_is_missing_unless_it_is_told(steps: list[tuple[str, int]]) -> None:
    """A subscriber that remembers the number of the last item it saw, and a box that does anything."""
    box, pushed, last = outbox(), 0, 0
    for step, count in steps:
        if step == "push":
            box.push(payloads(count))
            pushed += count
        elif step == "take":
            taken = numbers(box.take(count))
            assert taken == sorted(set(taken))
            last = max([last, *taken[: count // 2]])  # the connection broke, it saw only half of them
        elif step == "dormant":
            box.fall_dormant()
        elif step == "away":
            box.attached = not box.attached
        else:
            gap = box.resume(f"a.1-{last}")
            follows = numbers(box.take(1000))
            missing = pushed - last - len(follows)
            assert follows == sorted(set(follows) - set(range(last + 1)))
            assert gap == (f"{missing} notifications after that event are gone" if missing else "")
            last = pushed
        assert box.held_bytes == sum(len(item.payload) for item in [*box._waiting, *box._sent])
