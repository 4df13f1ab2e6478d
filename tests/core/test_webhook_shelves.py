"""The outbox on disk: requests are made once and stay, bounds hold, and what comes again is recognised."""

import math
import tracemalloc

import pytest

from services.connpoint.webhooks.events import Bury, BuryWaiting
from services.connpoint.webhooks.records import ARRIVED, ENDPOINT, body_of, decode_dead_letter
from services.connpoint.webhooks.shelf import FULL, Counts, Taken
from services.connpoint.webhooks.shelves import RECENT_S, Shelves
from tests.core.webhook_cases import FACTS, MemoryPages, addressed, shelves

NOW = 1000.0


class Stage:
    def __init__(self, *ids: str, **settings: int) -> None:
        self.disk: dict[bytes, bytes] = {}
        self.settings = settings
        self.shelves, self.pages = shelves(self.disk, **settings)
        for id in ids or ("a-1",):
            self.shelves.note(self.pages, id, FACTS)

    def restart(self) -> None:
        self.shelves, self.pages = shelves(self.disk, **self.settings)

    def append(self, *numbers: int, id: str = "a-1", at_s: float = NOW, size: int = 0) -> None:
        self.shelves.append(self.pages, [addressed(number, id, size) for number in numbers], at_s)

    def take(self, id: str = "a-1") -> Taken:
        taken = self.shelves.take(self.pages, id)
        assert taken is not None
        return taken

    def settle(self, taken: Taken, at_s: float = NOW) -> None:
        self.shelves.settle(self.pages, "a-1", taken.number, FACTS, at_s)

    def bury(self, taken: Taken) -> None:
        self.shelves.bury(self.pages, "a-1", Bury(taken.number, 5, "failed"), FACTS, NOW)

    def counts(self, id: str = "a-1") -> Counts:
        return self.shelves.counts(id)

    def reasons(self, id: str = "a-1") -> list[tuple[str, list[int]]]:
        letters = self.shelves.dead_letters(self.pages, id, 100)
        return [(letter.reason, [n.key[1] for n in letter.request.notifications]) for letter in letters]


def numbers(taken: Taken) -> list[int]:
    return [notification.key[1] for notification in taken.request.notifications]


def test_what_waits_goes_together_in_order_up_to_the_bounds() -> None:
    stage = Stage(batch_notifications_max=2)
    stage.append(1, 2, 3)
    first = stage.take()
    assert numbers(first) == [1, 2]
    assert stage.take() == first
    stage.settle(first)
    assert numbers(stage.take()) == [3]
    assert stage.counts().waiting == 1


def test_bytes_bound_a_request_and_a_large_one_goes_alone() -> None:
    stage = Stage(batch_bytes_max=50)
    stage.append(1, size=500)
    stage.append(2, 3)
    stage.append(4, size=40)
    for expected in ([1], [2, 3], [4]):
        taken = stage.take()
        assert numbers(taken) == expected
        stage.settle(taken)
    assert stage.shelves.take(stage.pages, "a-1") is None
    assert stage.counts() == Counts()


def test_a_request_stays_as_it_is_whatever_arrives_and_whoever_dies() -> None:
    stage = Stage()
    stage.append(1, 2)
    first = stage.take()
    stage.append(3)
    stage.restart()
    assert stage.take() == first
    assert stage.counts().waiting == 3
    stage.settle(first)
    stage.restart()
    assert numbers(stage.take()) == [3]


def test_the_id_follows_from_subscription_and_publications() -> None:
    first, second, other = Stage(), Stage(), Stage("a-2")
    first.append(1, 2)
    second.append(1, 2)
    other.append(1, 2, id="a-2")
    assert first.take().request.id == second.take().request.id
    assert first.take().request.id != other.take("a-2").request.id
    second.settle(second.take())
    second.append(2)
    assert second.take().request.id != first.take().request.id
    assert first.take().request.id.startswith("msg_")


def test_the_body_is_a_frame() -> None:
    stage = Stage()
    stage.append(1, 2)
    assert body_of(stage.take().request, "a-1", 'an"na') == (
        b'{"op":"notify","subscriber":"an\\"na","notifications":[{"subscriptions":["a-1"],"publication":{"id":"p1"}},'
        b'{"subscriptions":["a-1"],"publication":{"id":"p2"}}]}'
    )


@pytest.mark.parametrize("fate", ["waits", "taken", "buried", "arrived"])
def test_what_is_sent_here_again_behind_a_crash_is_recognised(fate: str) -> None:
    stage = Stage()
    stage.append(1)
    if fate != "waits":
        taken = stage.take()
        if fate == "buried":
            stage.bury(taken)
        elif fate == "arrived":
            stage.settle(taken)
    before = stage.counts()
    stage.restart()
    stage.append(1, at_s=NOW + 5)
    assert stage.counts().waiting == before.waiting
    stage.append(2, at_s=NOW + 5)
    assert stage.counts().waiting == before.waiting + 1


def test_without_a_crash_nothing_is_looked_up_and_the_memory_of_one_ends() -> None:
    stage = Stage()
    stage.append(1)
    stage.append(1)
    assert stage.counts().waiting == 2  # whoever delivers drops repetitions itself
    stage.restart()
    stage.append(2, at_s=NOW + 10)
    stage.append(1, at_s=NOW + 11 + 2 * RECENT_S)
    assert stage.counts().waiting == 4


def test_what_has_arrived_is_noted_for_a_while() -> None:
    stage = Stage()
    stage.append(1)
    stage.settle(stage.take())
    stage.shelves.forget_arrived(stage.pages, NOW + RECENT_S)
    assert len(list(stage.pages.scan(ARRIVED))) == 1
    stage.shelves.forget_arrived(stage.pages, NOW + RECENT_S + 1)
    assert list(stage.pages.scan(ARRIVED)) == []


def test_the_oldest_that_are_too_many_are_dead_letters_but_not_the_request_that_is_tried() -> None:
    stage = Stage(queue_notifications_max=3, batch_notifications_max=2)
    stage.append(1, 2)
    stage.take()
    stage.append(3, 4, 5)
    assert stage.reasons() == [(FULL, [3, 4])]
    assert numbers(stage.take()) == [1, 2]
    assert stage.counts() == Counts(3, 3 * 11, 2, 2 * 11, 2, 0)
    stage.settle(stage.take())
    assert numbers(stage.take()) == [5]


def test_bytes_bound_the_queue_too() -> None:
    stage = Stage(queue_bytes_max=25)
    stage.append(1, 2, 3)
    assert stage.reasons() == [(FULL, [1])]


def test_the_oldest_dead_letters_are_dropped() -> None:
    stage = Stage(dead_letters_max=2, batch_notifications_max=1)
    for number in (1, 2, 3):
        stage.append(number)
        stage.bury(stage.take())
    assert stage.reasons() == [("failed", [2]), ("failed", [3])]
    assert (stage.counts().buried, stage.counts().dropped) == (3, 1)


def test_none_are_kept_where_none_may_be() -> None:
    stage = Stage(dead_letters_max=0)
    stage.append(1)
    stage.bury(stage.take())
    assert stage.reasons() == []
    assert stage.counts() == Counts(buried=1, dropped=1)


def test_what_is_old_is_buried_requests_too() -> None:
    stage = Stage(batch_notifications_max=1)
    stage.append(1, at_s=10)
    stage.append(2, at_s=20)
    stage.append(3, at_s=30)
    stage.take()
    stage.shelves.bury_waiting(stage.pages, "a-1", BuryWaiting(30, "old"), NOW)
    assert stage.reasons() == [("old", [1]), ("old", [2])]
    assert numbers(stage.take()) == [3]
    stage.shelves.bury_waiting(stage.pages, "a-1", BuryWaiting(math.inf, "gone"), NOW)
    assert stage.reasons()[2:] == [("gone", [3])]
    assert stage.counts().waiting == 0


def test_a_replay_is_the_same_request_before_everything_else() -> None:
    stage = Stage(batch_notifications_max=2)
    stage.append(1, 2, 3)
    first = stage.take()
    stage.bury(first)
    second = stage.take()
    stage.bury(second)
    stage.append(4)
    assert stage.shelves.replay(stage.pages, "a-1", {"msg_unknown"}) == (0, 0)
    assert stage.shelves.replay(stage.pages, "a-1", {second.request.id}) == (1, 1)
    assert stage.take().request == second.request
    assert stage.shelves.replay(stage.pages, "a-1", None) == (1, 2)
    stage.settle(stage.take())
    assert stage.take().request == first.request
    stage.settle(stage.take())
    assert numbers(stage.take()) == [4]
    assert stage.counts().dead == 0


def test_beyond_the_disk_the_largest_loses_its_oldest_dead_letters_first() -> None:
    stage = Stage("a-1", "a-2", disk_bytes_max=150, batch_notifications_max=1)
    stage.append(1, id="a-2")
    stage.append(2)
    stage.bury(stage.take())
    stage.append(3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
    for number in (13, 14, 15, 16, 17, 18, 19, 20):
        stage.append(number)
    assert stage.reasons() == []
    assert stage.shelves.totals.size <= 150
    assert stage.counts("a-2").waiting == 1
    assert stage.counts().dropped == stage.shelves.totals.dropped > 1
    stage.settle(stage.take())
    assert numbers(stage.take())[0] > 3


def test_one_that_is_removed_leaves_nothing() -> None:
    stage = Stage("a-1", "a-2")
    stage.append(1, 2)
    stage.bury(stage.take())
    stage.append(3)
    stage.take()
    stage.append(4)
    stage.shelves.remove(stage.pages, "a-1")
    assert [key for key in stage.disk if b"a-1" in key] == []
    assert stage.shelves.totals.size == 0
    stage.append(5)
    assert stage.shelves.take(stage.pages, "a-1") is None
    assert stage.shelves.replay(stage.pages, "a-1", None) == (0, 0)
    assert stage.reasons() == []


def test_everything_is_counted_again_at_the_start() -> None:
    stage = Stage("a-1", "a-2", batch_notifications_max=1)
    stage.append(1, 2, 3)
    stage.bury(stage.take())
    stage.take()
    stage.append(4, id="a-2")
    before, totals = stage.counts(), stage.shelves.totals
    stage.restart()
    assert stage.counts() == Counts(before.waiting, before.waiting_bytes, before.dead, before.dead_bytes)
    assert (stage.shelves.totals.waiting, stage.shelves.totals.size) == (totals.waiting, totals.size)
    assert stage.shelves.facts == {"a-1": FACTS, "a-2": FACTS}
    assert stage.disk[ENDPOINT + b"a-1"]


def test_numbers_go_on_behind_a_start() -> None:
    stage = Stage(batch_notifications_max=1)
    stage.append(1)
    stage.bury(stage.take())
    stage.restart()
    stage.append(2)
    stage.bury(stage.take())
    letters = [decode_dead_letter(value) for _, value in stage.pages.scan(b"d/")]
    assert [letter.request.notifications[0].key[1] for letter in letters] == [1, 2]


def test_shelves_of_an_empty_disk() -> None:
    made, pages = shelves({})
    assert isinstance(made, Shelves)
    assert isinstance(pages, MemoryPages)
    assert (made.facts, made.totals) == ({}, Counts())


def test_what_waits_is_not_read_into_memory_at_once() -> None:
    """Ten megabytes of an hour wait; only what came in the last minute is remembered, and of that no contents."""
    stage = Stage()
    for number in range(1000):
        stage.append(number, at_s=NOW + 3.6 * number, size=10_000)
    tracemalloc.start()
    try:
        stage.restart()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stage.counts().waiting == 1000
    assert peak < 1_000_000
    last_s = NOW + 3.6 * 999
    stage.append(*range(1000), at_s=last_s + 1)
    repeated = [number for number in range(1000) if last_s - (NOW + 3.6 * number) < RECENT_S]
    assert len(repeated) == 17
    assert stage.counts().waiting == 2000 - len(repeated)
