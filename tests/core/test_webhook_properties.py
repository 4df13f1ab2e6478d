"""One endpoint with its shelf, a receiver with moods, and crashes between any two steps: what arrives, and how."""

from typing import Literal

from hypothesis import example, given
from hypothesis import strategies as st

from services.connpoint.webhooks import events
from services.connpoint.webhooks.answers import answered
from services.connpoint.webhooks.endpoint import Endpoint, State
from services.connpoint.webhooks.records import body_of
from services.connpoint.webhooks.schedule import Schedule
from tests.core.webhook_cases import FACTS, addressed, schedule, shelves

Mood = Literal["fine", "busy", "refuses", "dies before", "dies behind"]
MOODS = st.sampled_from(["fine", "fine", "busy", "refuses", "dies before", "dies behind"])
STATUS = {"fine": 200, "busy": 503, "refuses": 400, "dies behind": 200}
BATCH = 3


class World:
    """Effects are performed at once. A crash forgets everything but the disk; then exit points send again what they
    have no receipt of, which is `unreceipted`.
    """

    def __init__(self) -> None:
        self.disk: dict[bytes, bytes] = {}
        self.shelves, self.pages = shelves(self.disk, batch_notifications_max=BATCH)
        self.shelves.note(self.pages, "a-1", FACTS)
        self.endpoint = Endpoint("a-1", FACTS, schedule())
        self.now_s = 1000.0
        self.wants_attempt = False
        self.wake_s: float | None = None
        self.posted: list[tuple[str, bytes, list[int], bool]] = []  # id, body, numbers, and whether it was taken
        self.sent = 0
        self.crashed = False

    def arrive(self, count: int, unreceipted: int) -> None:
        # Only behind a crash are notifications sent here again; whoever delivers drops other repetitions.
        first = max(1, self.sent + 1 - (unreceipted if self.crashed else 0))
        self.sent += count
        self.crashed = False
        self.shelves.append(self.pages, [addressed(number) for number in range(first, self.sent + 1)], self.now_s)
        self.tell(events.Arrived())

    def tell(self, event: events.Event) -> None:
        for effect in self.endpoint.on_event(event, self.now_s):
            self.perform(effect)

    def perform(self, effect: events.Effect) -> None:
        match effect:
            case events.Attempt():
                self.wants_attempt, self.wake_s = True, None
            case events.Wake(at_s):
                self.wake_s = at_s
            case events.Settle(number):
                self.shelves.settle(self.pages, "a-1", number, self.endpoint.facts, self.now_s)
            case events.Bury():
                self.shelves.bury(self.pages, "a-1", effect, self.endpoint.facts, self.now_s)
            case events.BuryWaiting():
                self.shelves.bury_waiting(self.pages, "a-1", effect, self.now_s)
            case events.Note():
                self.shelves.note(self.pages, "a-1", self.endpoint.facts)
            case events.Remove():
                raise AssertionError("nobody ended it")

    def crash(self) -> None:
        self.crashed = True
        self.shelves, self.pages = shelves(self.disk, batch_notifications_max=BATCH)
        self.endpoint = Endpoint("a-1", self.shelves.facts["a-1"], schedule())
        self.wants_attempt, self.wake_s = False, None
        if self.shelves.counts("a-1").waiting:
            for effect in self.endpoint.on_found(self.now_s):
                self.perform(effect)

    def step(self, mood: Mood) -> bool:
        """Whether there was something to do."""
        if self.wake_s is not None:
            self.now_s, self.wake_s = max(self.now_s, self.wake_s), None
            self.tell(events.Due())
        if not self.wants_attempt:
            return False
        self.wants_attempt = False
        taken = self.shelves.take(self.pages, "a-1")
        if taken is None:
            self.tell(events.NothingLeft())
            return True
        if mood == "dies before":
            self.crash()
            return True
        numbers = [notification.key[1] for notification in taken.request.notifications]
        status = STATUS[mood]
        self.posted.append((taken.request.id, body_of(taken.request, "a-1", "anna"), numbers, status == 200))
        if mood == "dies behind":
            self.crash()
            return True
        tried = events.Tried(taken.number, len(numbers), taken.request.notifications[0].received_s)
        self.tell(answered(tried, status))
        return True

    def drain(self) -> None:
        for _ in range(1000):
            if not self.step("fine"):
                return
        raise AssertionError("it goes on for ever")

    def dead(self) -> list[int]:
        letters = self.shelves.dead_letters(self.pages, "a-1", 1000)
        return [notification.key[1] for letter in letters for notification in letter.request.notifications]


ACTIONS = st.lists(st.one_of(st.tuples(st.integers(1, 5), st.integers(0, 4)), MOODS, st.just("crash")), max_size=40)


def played(actions: list[tuple[int, int] | str]) -> World:
    world = World()
    for action in actions:
        if isinstance(action, tuple):
            world.arrive(*action)
        elif action == "crash":
            world.crash()
        else:
            world.step(action)  # type: ignore[arg-type]  # one of the moods
    world.drain()
    return world


@given(ACTIONS)
def test_everything_arrives_or_is_a_dead_letter_and_repetitions_are_the_same_request(
    actions: list[tuple[int, int] | str],
) -> None:
    world = played(actions)
    bodies: dict[str, bytes] = {}
    for id, body, _, _ in world.posted:
        assert bodies.setdefault(id, body) == body
    taken: dict[str, list[int]] = {id: numbers for id, _, numbers, was_taken in world.posted if was_taken}
    arrived = [number for numbers in taken.values() for number in numbers]
    assert len(arrived) == len(set(arrived))  # whatever arrives twice is in a request of the same id
    assert {*arrived, *world.dead()} == set(range(1, world.sent + 1))
    assert world.endpoint.state is State.IDLE
    assert world.shelves.counts("a-1").waiting == 0


@given(ACTIONS)
def test_what_arrives_is_in_order(actions: list[tuple[int, int] | str]) -> None:
    world = played(actions)
    first = dict.fromkeys(number for _, _, numbers, was_taken in world.posted if was_taken for number in numbers)
    assert list(first) == sorted(first)


@given(ACTIONS)
@example([(1, 0), "fine", "dies before", (1, 1)])  # nobody dies where there is nothing to post
def test_without_a_crash_behind_an_answer_nothing_arrives_twice(actions: list[tuple[int, int] | str]) -> None:
    world = played([action for action in actions if action != "dies behind"])
    arrived = [number for _, _, numbers, was_taken in world.posted if was_taken for number in numbers]
    assert len(arrived) == len(set(arrived))


@given(ACTIONS)
def test_dead_letters_that_are_replayed_arrive(actions: list[tuple[int, int] | str]) -> None:
    world = played(actions)
    dead = set(world.dead())
    requests, notifications = world.shelves.replay(world.pages, "a-1", None)
    assert (notifications, requests > 0) == (len(dead), bool(dead))
    if requests:
        world.tell(events.Replayed())
    world.drain()
    assert world.dead() == []
    assert dead <= {number for _, _, numbers, was_taken in world.posted if was_taken for number in numbers}


@given(
    failures=st.integers(1, 10_000),
    chance=st.floats(0, 1),
    retry_after_s=st.floats(0, 1e9),
    retry_s=st.floats(0.001, 100),
    retry_s_max=st.floats(0.001, 1e5),
)
def test_pauses_are_bounded(
    failures: int, chance: float, retry_after_s: float, retry_s: float, retry_s_max: float
) -> None:
    made = Schedule(retry_s, retry_s_max, 5, 2, 1000.0, lambda: chance)
    pause_s = made.pause_s(failures, retry_after_s)
    assert min(retry_s, retry_s_max) / 2 <= pause_s <= retry_s_max
    assert pause_s >= min(retry_after_s, retry_s_max)
    assert made.pause_s(failures + 1, 0.0) >= made.pause_s(failures, 0.0)


@given(st.lists(st.sampled_from([200, 204, 301, 400, 404, 408, 429, 500, 503]), min_size=1, max_size=60))
def test_a_request_is_never_tried_more_often_than_it_may(statuses: list[int]) -> None:
    endpoint = Endpoint("a-1", FACTS, schedule())
    endpoint.on_event(events.Arrived(), 0.0)
    tried = events.Tried(1, 1, 0.0)
    in_a_row = 0
    for status in statuses:
        in_a_row += 1
        effects = endpoint.on_event(answered(tried, status), 1.0)
        if status < 300 or any(isinstance(effect, events.Bury) for effect in effects):
            in_a_row = 0
        assert in_a_row < 5
        if endpoint.state is State.PAUSING:
            endpoint.on_event(events.Due(), 1.0)
