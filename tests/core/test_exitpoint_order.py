"""The exit point releases the batches of a publisher in order, each once."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from braid.messages import Notifications, Send
from tests.core.exitpoint_cases import confirmed, exitpoint, feed, matches, notified, partial, receive


def test_a_batch_waits_for_the_one_before_it() -> None:
    core = exitpoint()
    assert feed(core, partial(2, previous=1)) == []
    assert notified(feed(core, partial(1))) == [("connpoint-2", 1), ("connpoint-2", 2)]


def test_a_chain_is_released_from_its_beginning() -> None:
    core = exitpoint()
    for sequence in (5, 3, 4, 2):
        assert feed(core, partial(sequence, previous=sequence - 1)) == []
    assert notified(feed(core, partial(1))) == [("connpoint-2", n) for n in (1, 2, 3, 4, 5)]


def test_a_chain_stops_at_what_is_not_complete() -> None:
    core = exitpoint()
    feed(core, partial(2, previous=1, of=2), partial(3, previous=2))
    assert notified(feed(core, partial(1))) == [("connpoint-2", 1)]
    assert notified(feed(core, partial(2, previous=1, of=2, matcher=2))) == [("connpoint-2", 2), ("connpoint-2", 3)]


def test_the_one_before_need_only_be_released_not_received() -> None:
    core = exitpoint()
    feed(core, partial(1))
    assert notified(feed(core, partial(2, previous=1))) == [("connpoint-2", 2)]


def test_another_publisher_does_not_wait() -> None:
    core = exitpoint()
    feed(core, partial(2, previous=1))
    assert notified(feed(core, partial(3))) == [("connpoint-2", 3)]


def test_origins_are_apart() -> None:
    core = exitpoint()
    feed(core, partial(2, previous=1))
    assert notified(feed(core, partial(1, origin="connpoint-2.b"))) == [("connpoint-2", 1)]
    assert notified(feed(core, partial(1))) == [("connpoint-2", 1), ("connpoint-2", 2)]


def test_what_is_below_the_watermark_is_not_waited_for() -> None:
    core = exitpoint()
    assert notified(feed(core, partial(6, previous=5, watermark=5))) == [("connpoint-2", 6)]


def test_the_watermark_of_another_batch_releases() -> None:
    core = exitpoint()
    feed(core, partial(6, previous=5), partial(7, previous=6))
    assert notified(feed(core, partial(9, [], watermark=5))) == [("connpoint-2", 6), ("connpoint-2", 7)]


def test_sent_again_without_a_previous_it_need_not_wait_any_more() -> None:
    core = exitpoint()
    assert feed(core, partial(6, previous=5)) == []
    assert notified(feed(core, partial(6, previous=0))) == [("connpoint-2", 6)]
    assert feed(core, partial(5)) != []
    assert confirmed(receive(core, "connpoint-2", 6, 5)) == [6, 5]


def test_an_empty_batch_passes_the_turn_on() -> None:
    core = exitpoint()
    feed(core, partial(2, [], previous=1), partial(3, previous=2))
    sends = feed(core, partial(1, []))
    assert notified(sends) == [("connpoint-2", 3)]
    assert confirmed(sends) == [1, 2]


@settings(derandomize=True, deadline=None, max_examples=150, database=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.lists(st.booleans(), min_size=1, max_size=5)), min_size=1, max_size=3),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_per_publisher_in_order_and_exactly_once(
    publishers: list[tuple[int, list[bool]]], matchers: int, random: Any
) -> None:
    """Batches of several publishers through several matchers; each matcher is FIFO, everything else is chance."""
    core = exitpoint()
    next_sequence = [1, 1]
    of_publisher: dict[int, list[tuple[str, int]]] = {}
    batches: list[tuple[str, int, int, bool]] = []  # origin, sequence, previous, does it match
    turns = [number for number, (_, matching) in enumerate(publishers) for _ in matching]
    random.shuffle(turns)
    for number in turns:
        origin_number, matching = publishers[number]
        origin = f"connpoint-{origin_number + 1}.a"
        own = of_publisher.setdefault(number, [])
        sequence = next_sequence[origin_number]
        next_sequence[origin_number] += 1
        batches.append((origin, sequence, own[-1][1] if own else 0, matching[len(own)]))
        own.append((origin, sequence))

    repeated = [batch for batch in batches if random.random() < 0.2]
    queues = [
        [
            partial(
                sequence,
                [("connpoint-2", matches(f"s-{matcher}"))] if does_match else [],
                matcher=matcher,
                of=matchers,
                previous=previous,
                origin=origin,
            )
            for origin, sequence, previous, does_match in batches + repeated
        ]
        for matcher in range(1, matchers + 1)
    ]
    arrived: list[tuple[str, int]] = []
    confirmations: list[tuple[str, int]] = []
    unreceived: list[Notifications] = []

    def look_at(sends: list[Send]) -> None:
        for send in sends:
            for message in send.messages:
                if isinstance(message, Notifications):
                    assert sorted(message.matches[0][1]) == [f"s-{m}" for m in range(1, matchers + 1)]
                    arrived.append((message.origin, message.sequence))
                    unreceived.append(message)
                else:
                    confirmations.extend((message.origin, sequence) for sequence in message.sequences)

    while any(queues) or unreceived:
        if unreceived and random.random() < 0.3:
            message = unreceived.pop(random.randrange(len(unreceived)))
            look_at(receive(core, "connpoint-2", message.sequence, origin=message.origin))
            continue
        ready = [queue for queue in queues if queue]
        if ready:
            queue = random.choice(ready)
            run = [queue.pop(0) for _ in range(random.randint(1, len(queue)))]
            look_at(feed(core, *run))

    for number, own in of_publisher.items():
        wanted = [batch for batch, does_match in zip(own, publishers[number][1], strict=True) if does_match]
        assert [batch for batch in arrived if batch in own] == wanted
    assert set(confirmations) == {(origin, sequence) for origin, sequence, _, _ in batches}
    assert core.gathers == 0
