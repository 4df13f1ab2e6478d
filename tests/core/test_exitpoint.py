"""The exit point: gathers, holds, releases, awaits, confirms; in order and once."""

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.messages import Confirmed, Hop, Match, Notifications, Partial, Received, Send
from services.exitpoint.core import ExitPointCore

ORIGIN = "connpoint-1.a"
PUBLISHER = 8
CONNPOINTS = {"connpoint-1": 1, "connpoint-2": 1}


def exitpoint(gathers_max: int = 100, connpoints: dict[str, int] = CONNPOINTS) -> ExitPointCore:
    core = ExitPointCore("exitpoint-1", lambda: 999, gathers_max, gather_s_max=60.0)
    core.on_connpoints(connpoints)
    return core


def matches(*ids: str, place: int = 0) -> list[Match]:
    return [(place, list(ids), b"{}")]


def partial(
    sequence: int,
    matched: list[tuple[str, list[Match]]] | None = None,
    *,
    matcher: int = 1,
    of: int = 1,
    previous: int = 0,
    watermark: int = 0,
    epoch: int = 1,
    origin: str = ORIGIN,
    hops: list[Hop] | None = None,
) -> Partial:
    """By default the only one, with one match for connpoint-2."""
    if matched is None:
        matched = [("connpoint-2", matches("s-1"))]
    return Partial(epoch, origin, sequence, previous, watermark, PUBLISHER, of, f"matcher-{matcher}", matched, hops)


def notified(sends: list[Send]) -> list[tuple[str, int]]:
    """Connection point and sequence of every notification, in order."""
    return [(send.to, m.sequence) for send in sends for m in send.messages if isinstance(m, Notifications)]


def confirmed(sends: list[Send]) -> list[int]:
    return [s for send in sends for m in send.messages if isinstance(m, Confirmed) for s in m.sequences]


def feed(core: ExitPointCore, *partials: Partial, now_s: float = 100.0) -> list[Send]:
    return core.on_partials(list(partials), now_s, 0)


def receive(core: ExitPointCore, connpoint: str, *sequences: int, origin: str = ORIGIN) -> list[Send]:
    return core.on_received(connpoint, [Received(1, origin, list(sequences))])


# Gathering


@pytest.mark.parametrize("matchers", [1, 2, 3, 4])
def test_the_last_partial_in_any_order_releases(matchers: int) -> None:
    for order in permutations(range(1, matchers + 1)):
        core = exitpoint()
        for matcher in order[:-1]:
            assert feed(core, partial(1, matcher=matcher, of=matchers)) == []
        assert notified(feed(core, partial(1, matcher=order[-1], of=matchers))) == [("connpoint-2", 1)]


def test_the_exact_effects_of_one_batch() -> None:
    core = exitpoint()
    first = partial(
        1, [("connpoint-2", [(0, ["s-1"], b"a"), (2, ["s-2"], b"c")])], matcher=1, of=2, watermark=0, previous=0
    )
    second = partial(
        1,
        [("connpoint-2", [(1, ["s-3"], b"b"), (2, ["s-4"], b"c")]), ("connpoint-1", [(0, ["s-5"], b"a")])],
        matcher=2,
        of=2,
    )
    assert feed(core, first) == []
    assert feed(core, second) == [
        Send(
            "connpoint-2",
            [
                Notifications(
                    1,
                    ORIGIN,
                    1,
                    0,
                    PUBLISHER,
                    [(0, ["s-1"], b"a"), (1, ["s-3"], b"b"), (2, ["s-2", "s-4"], b"c")],
                    None,
                )
            ],
        ),
        Send("connpoint-1", [Notifications(1, ORIGIN, 1, 0, PUBLISHER, [(0, ["s-5"], b"a")], None)]),
    ]
    assert receive(core, "connpoint-1", 1) == []
    assert core.gathers == 1
    assert receive(core, "connpoint-2", 1) == [Send("connpoint-1", [Confirmed(1, ORIGIN, [1], [])])]
    assert core.gathers == 0


def test_what_matches_nobody_is_confirmed_at_once() -> None:
    core = exitpoint()
    assert feed(core, partial(1, [], matcher=1, of=2)) == []
    assert feed(core, partial(1, [], matcher=2, of=2)) == [Send("connpoint-1", [Confirmed(1, ORIGIN, [1], [])])]
    assert core.gathers == 0


def test_a_matcher_heard_twice_counts_once() -> None:
    core = exitpoint()
    assert feed(core, partial(1, of=2), partial(1, of=2), partial(1, of=2)) == []
    (send,) = feed(core, partial(1, [], matcher=2, of=2))
    assert send.messages[0].matches == matches("s-1")


def test_partials_of_a_released_batch_are_of_no_interest() -> None:
    core = exitpoint()
    feed(core, partial(1))
    assert feed(core, partial(1), partial(1, matcher=2)) == []
    assert confirmed(receive(core, "connpoint-2", 1)) == [1]


def test_batches_of_one_call_are_one_send_for_each_connection_point() -> None:
    core = exitpoint()
    sends = feed(core, partial(1), partial(2), partial(3, []))
    assert notified(sends) == [("connpoint-2", 1), ("connpoint-2", 2)]
    assert len(sends) == 2
    assert confirmed(sends) == [3]


# Epochs


def test_a_newer_epoch_in_the_middle_starts_the_gather_anew() -> None:
    core = exitpoint()
    feed(core, partial(1, matcher=1, of=2, epoch=1))
    assert feed(core, partial(1, [("connpoint-2", matches("s-9"))], matcher=3, of=2, epoch=2)) == []
    assert feed(core, partial(1, matcher=2, of=2, epoch=1)) == []
    assert core.stale == 1
    (send,) = feed(core, partial(1, [], matcher=1, of=2, epoch=2))
    assert send.messages == [Notifications(2, ORIGIN, 1, 0, PUBLISHER, matches("s-9"), None)]
    assert core.gathers == 1


def test_a_complete_batch_that_is_held_takes_nothing_from_a_newer_epoch() -> None:
    """A subscription that moved to another matcher would be in it twice."""
    core = exitpoint()
    feed(core, partial(2, previous=1, epoch=1))
    feed(core, partial(2, previous=1, epoch=2, matcher=7))
    (send,) = feed(core, partial(1, [("connpoint-2", matches("s-1"))]))
    assert [m.matches for m in send.messages] == [matches("s-1"), matches("s-1")]


# Order


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


# Done


def test_a_repetition_of_a_done_batch_is_confirmed_again_and_delivered_to_nobody() -> None:
    core = exitpoint()
    feed(core, partial(1))
    receive(core, "connpoint-2", 1)
    sends = feed(core, partial(1))
    assert (notified(sends), confirmed(sends)) == ([], [1])
    assert confirmed(feed(core, partial(2, [], watermark=1), partial(1))) == [2, 1]
    assert core.gathers == 0


def test_receipts_of_others_repeated_ones_and_unknown_ones_change_nothing() -> None:
    core = exitpoint()
    feed(core, partial(1))
    assert receive(core, "connpoint-1", 1) == []
    assert receive(core, "connpoint-2", 99) == []
    assert receive(core, "connpoint-2", 1, origin="connpoint-7.f") == []
    assert confirmed(receive(core, "connpoint-2", 1, 1)) == [1]
    assert receive(core, "connpoint-2", 1) == []


def test_a_batch_that_was_confirmed_elsewhere_is_let_go() -> None:
    core = exitpoint()
    feed(core, partial(3, of=2), partial(4, of=2), partial(7, of=2))
    feed(core, partial(9, [], watermark=5))
    assert core.gathers == 1


def test_whatever_the_watermark_passed_is_let_go_in_whatever_order_it_came() -> None:
    core = exitpoint()
    feed(core, partial(7, of=2), partial(3, of=2))
    feed(core, partial(9, [], watermark=5))
    assert core.gathers == 1
    assert confirmed(feed(core, partial(3, of=2))) == [3]


# Connection points


def test_a_connection_point_that_is_not_there_is_not_waited_for() -> None:
    core = exitpoint(connpoints={"connpoint-1": 1})
    sends = feed(core, partial(1))
    assert (notified(sends), confirmed(sends)) == ([], [1])
    assert core.undeliverable == 1


def test_a_connection_point_that_goes_is_waited_for_no_longer() -> None:
    core = exitpoint()
    feed(core, partial(1), partial(2, [("connpoint-1", matches("s-1")), ("connpoint-2", matches("s-2"))]))
    assert confirmed(core.on_connpoints({"connpoint-1": 1})) == [1]
    assert confirmed(receive(core, "connpoint-1", 2)) == [2]
    assert core.undeliverable == 2


def test_a_new_incarnation_is_another_connection_point() -> None:
    core = exitpoint()
    feed(core, partial(1))
    assert confirmed(core.on_connpoints({"connpoint-1": 1, "connpoint-2": 2})) == [1]
    assert core.on_connpoint_up("connpoint-2", 2) == []
    assert notified(feed(core, partial(2))) == [("connpoint-2", 2)]


def test_a_new_incarnation_that_links_before_it_is_known_to_be_registered() -> None:
    core = exitpoint()
    feed(core, partial(1))
    assert confirmed(core.on_connpoint_up("connpoint-2", 2)) == [1]
    assert core.on_connpoints({"connpoint-1": 1, "connpoint-2": 2}) == []


def test_the_same_incarnation_gets_again_what_it_has_not_received() -> None:
    core = exitpoint()
    feed(core, partial(2), partial(1), partial(3, [("connpoint-1", matches("s-1"))]))
    receive(core, "connpoint-2", 99)
    sends = core.on_connpoint_up("connpoint-2", 1)
    assert notified(sends) == [("connpoint-2", 1), ("connpoint-2", 2)]
    receive(core, "connpoint-2", 1)
    assert notified(core.on_connpoint_up("connpoint-2", 1)) == [("connpoint-2", 2)]


def test_nothing_held_is_sent_to_a_connection_point_that_links() -> None:
    core = exitpoint()
    feed(core, partial(2, previous=1), partial(5, of=2))
    assert core.on_connpoint_up("connpoint-2", 1) == []


# Bounds


def test_beyond_the_bound_partials_are_dropped_and_counted() -> None:
    core = exitpoint(gathers_max=2)
    feed(core, partial(1, of=2), partial(2, of=2), partial(3, of=2), partial(3, of=2, matcher=2))
    assert (core.gathers, core.dropped) == (2, 2)
    feed(core, partial(1, [], of=2, matcher=2))
    receive(core, "connpoint-2", 1)
    assert notified(feed(core, partial(3, of=2), partial(3, of=2, matcher=2))) == [("connpoint-2", 3)]


def test_at_the_bound_a_batch_that_others_wait_for_is_let_in() -> None:
    """Otherwise held batches would fill the exit point for ever."""
    core = exitpoint(gathers_max=2)
    feed(core, partial(3, previous=2), partial(4, previous=3))
    assert feed(core, partial(9)) == []
    assert feed(core, partial(2, previous=1)) == []
    assert notified(feed(core, partial(1))) == [("connpoint-2", n) for n in (1, 2, 3, 4)]
    assert core.gathers == 4
    assert core.dropped == 1


def test_what_nobody_completes_is_let_go_when_its_origin_is_silent() -> None:
    core = exitpoint()
    feed(core, partial(1, of=2), partial(3, previous=2), partial(4), now_s=100.0)
    assert core.on_tick(160.0) == []
    assert core.gathers == 3
    assert core.on_tick(160.1) == []
    assert (core.gathers, core.dropped) == (1, 2)  # what was released is still awaited
    assert notified(feed(core, partial(2), partial(3, previous=2))) == [("connpoint-2", 2), ("connpoint-2", 3)]


def test_an_origin_that_is_heard_keeps_what_is_incomplete() -> None:
    core = exitpoint()
    feed(core, partial(1, of=2), now_s=100.0)
    feed(core, partial(2, []), now_s=150.0)
    core.on_tick(200.0)
    assert core.gathers == 1


def test_an_origin_is_forgotten_when_its_incarnation_is_over_and_silent() -> None:
    core = exitpoint(connpoints={"connpoint-1": 10, "connpoint-2": 1})  # 0xa
    feed(core, partial(1, []), partial(1, [], origin="connpoint-1.9"), now_s=100.0)
    core.on_tick(161.0)
    assert confirmed(feed(core, partial(1), now_s=161.0)) == [1]  # of the running incarnation: still known
    assert notified(feed(core, partial(1, origin="connpoint-1.9"), now_s=161.0)) == [("connpoint-2", 1)]
    core.on_connpoints({"connpoint-2": 1})
    core.on_tick(300.0)
    assert notified(feed(core, partial(1), now_s=300.0)) == [("connpoint-2", 1)]


# Traces


def test_a_trace_goes_along_and_comes_back_with_the_receipt() -> None:
    core = exitpoint()
    hops = [("connpoint-1", 1, 2), ("accesspoint-1", 3, 4), ("matcher-1", 5, 6)]
    (send,) = core.on_partials([partial(1, hops=hops)], 100.0, 7)
    assert send.messages[0].hops == [*hops, ("exitpoint-1", 7, 999)]
    delivered = [*send.messages[0].hops, ("connpoint-2", 1000, 1001)]
    (send,) = core.on_received("connpoint-2", [Received(1, ORIGIN, [1], [(1, delivered)])])
    assert send.messages == [Confirmed(1, ORIGIN, [1], [(1, delivered)])]


def test_the_trace_of_what_matched_nobody_ends_here() -> None:
    core = exitpoint()
    (send,) = core.on_partials([partial(1, [], hops=[("matcher-1", 5, 6)])], 100.0, 7)
    assert send.messages == [Confirmed(1, ORIGIN, [1], [(1, [("matcher-1", 5, 6), ("exitpoint-1", 7, 999)])])]


# Any interleaving


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
