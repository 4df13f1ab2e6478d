"""The retry loop: accepted, logged, sent, sent again, confirmed, forgotten; and never more than the window."""

import msgspec
import pytest

from braid.messages import Confirmed, Publications, Send
from braid.topology import Change, Configuration, Phase, Target
from services.connpoint.ingress import IngressCore
from tests.core.ingress_cases import CONFIGURATION, EVEN, ODD, ORIGIN, SETTINGS, configured, confirm, publish, sent

# Accepting, logging, sending


def test_a_batch_is_sent_when_it_is_logged_and_not_before() -> None:
    core = configured()
    batch = core.accept(EVEN, [b"one", b"three"], 100.0)
    assert (core.window_publications, core.window_bytes) == (2, 8)
    assert core.on_tick(1000.0) == []
    assert core.on_logged(batch, 100.0, 0) == [
        Send("accesspoint-1", [Publications(1, ORIGIN, 1, 0, 0, EVEN, 100.0, [b"one", b"three"], None)])
    ]


def test_sequences_grow_by_one_and_publishers_choose_the_access_point() -> None:
    core = configured()
    assert [sent(publish(core, publisher)) for publisher in (EVEN, ODD, EVEN, EVEN)] == [
        [("accesspoint-1", 1, 0, 0)],
        [("accesspoint-2", 2, 0, 0)],
        [("accesspoint-1", 3, 1, 0)],
        [("accesspoint-1", 4, 3, 0)],
    ]


def test_a_traced_batch_carries_when_it_came_and_when_it_was_logged() -> None:
    core = configured()
    batch = core.accept(EVEN, [b"x"], 100.0, [("connpoint-1", 5, 0)])
    (send,) = core.on_logged(batch, 100.0, 9)
    assert send.messages[0].hops == [("connpoint-1", 5, 9)]


def test_without_a_configuration_a_logged_batch_waits() -> None:
    core = IngressCore(ORIGIN, SETTINGS)
    assert publish(core, EVEN) == []
    assert core.on_tick(200.0) == []
    core.on_configuration(CONFIGURATION)
    assert sent(core.on_tick(200.0)) == [("accesspoint-1", 1, 0, 0)]


# Confirmations


def test_a_confirmed_batch_leaves_the_window_and_the_log() -> None:
    core = configured()
    publish(core, EVEN, b"abc")
    (batch,) = core.on_confirmed(Confirmed(1, ORIGIN, [1]))
    assert (batch.origin, batch.sequence) == (ORIGIN, 1)
    assert (core.window_publications, core.window_bytes) == (0, 0)
    assert core.is_drained
    assert core.on_tick(1000.0) == []


def test_a_repeated_or_unknown_confirmation_changes_nothing() -> None:
    core = configured()
    publish(core, EVEN)
    assert confirm(core, 1, 1) == [1]
    assert confirm(core, 1, 99) == []
    assert confirm(core, 1, origin="connpoint-9.z") == []
    assert core.window_publications == 0


def test_the_watermark_stops_at_the_first_gap() -> None:
    core = configured()
    for _ in range(4):
        publish(core, EVEN)
    assert confirm(core, 2, 3) == [2, 3]
    assert sent(publish(core, ODD))[0][3] == 0
    assert confirm(core, 1) == [1]
    assert sent(publish(core, ODD))[0][3] == 3
    assert confirm(core, 6, 5, 4) == [6, 5, 4]
    assert sent(publish(core, ODD))[0][3] == 6


def test_previous_is_the_latest_unconfirmed_one_of_the_same_publisher() -> None:
    core = configured()
    publish(core, EVEN)
    publish(core, ODD)
    publish(core, EVEN)
    confirm(core, 3)
    assert sent(publish(core, EVEN)) == [("accesspoint-1", 4, 1, 0)]
    confirm(core, 1)
    assert sent(publish(core, EVEN)) == [("accesspoint-1", 5, 4, 1)]
    confirm(core, 2, 4, 5)
    assert sent(publish(core, EVEN)) == [("accesspoint-1", 6, 0, 5)]


def test_previous_when_it_is_confirmed_between_acceptance_and_log() -> None:
    core = configured()
    publish(core, EVEN)
    second = core.accept(EVEN, [b"x"], 100.0)
    confirm(core, 1)
    assert sent(core.on_logged(second, 100.0, 0)) == [("accesspoint-1", 2, 0, 1)]


# Sending again


def test_retries_back_off_up_to_the_longest_pause() -> None:
    core = configured()
    publish(core, EVEN, now_s=100.0)
    times = [tenth / 10 for tenth in range(1000, 1500) if core.on_tick(tenth / 10)]
    assert times == [102.0, 106.0, 114.0, 122.0, 130.0, 138.0, 146.0]
    assert core.sent_again == 7


def test_sent_again_is_the_same_batch_under_the_current_epoch_and_watermark() -> None:
    core = configured()
    publish(core, ODD)
    publish(core, EVEN, b"same")
    confirm(core, 1)
    core.on_configuration(Configuration(2, ("accesspoint-9",), ("matcher-1",), ("exitpoint-1",)))
    assert core.on_tick(102.0) == [
        Send("accesspoint-9", [Publications(2, ORIGIN, 2, 0, 1, EVEN, 100.0, [b"same"], None, attempt=1)])
    ]


def test_previous_of_a_retry_skips_what_was_confirmed() -> None:
    core = configured()
    for _ in range(4):
        publish(core, EVEN)
    confirm(core, 2, 3)
    assert sent(core.on_tick(102.0)) == [("accesspoint-1", 1, 0, 0), ("accesspoint-1", 4, 1, 0)]


def test_one_tick_sends_a_bounded_number_again_and_the_next_goes_on() -> None:
    core = configured()
    for _ in range(5):
        publish(core, EVEN, b"x", b"y")
    assert [sequence for _, sequence, _, _ in sent(core.on_tick(102.0))] == [1, 2]
    assert [sequence for _, sequence, _, _ in sent(core.on_tick(102.1))] == [3, 4]
    assert sent(core.on_tick(102.2)) == [("accesspoint-1", 5, 4, 0)]
    assert core.on_tick(102.3) == []
    assert core.sent_again == 10


def test_nothing_behind_an_unlogged_batch_is_sent() -> None:
    core = configured()
    publish(core, EVEN)
    core.accept(EVEN, [b"x"], 100.0)
    assert [sequence for _, sequence, _, _ in sent(core.on_tick(500.0))] == [1]


def test_a_slice_that_returned_brings_the_retry_forward() -> None:
    core = configured()
    publish(core, EVEN, now_s=100.0)
    unlogged = core.accept(EVEN, [b"x"], 100.0)
    core.on_slice_returned(100.5)
    assert core.on_tick(100.7) == []
    assert [sequence for _, sequence, _, _ in sent(core.on_tick(100.9))] == [1]
    assert sent(core.on_logged(unlogged, 101.0, 0)) == [("accesspoint-1", 2, 1, 0)]


def leaving(phase: Phase) -> Configuration:
    """The second access point is left out."""
    target = Target(2, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))
    return msgspec.structs.replace(CONFIGURATION, change=Change("scaling-1", phase, target, {}))


def test_what_went_to_an_access_point_that_has_left_is_sent_again_soon() -> None:
    """It came there behind its last word, or before it: then it is confirmed in a moment."""
    core = configured()
    publish(core, EVEN)
    publish(core, ODD)
    core.on_configuration(leaving("ending"))
    assert core.on_tick(100.1) == []
    assert sent(core.on_tick(100.41)) == [("accesspoint-1", 2, 0, 0)]
    core.on_configuration(Configuration(2, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",)))
    assert core.on_tick(101.0) == []


@pytest.mark.parametrize("seen", [None, "copying", "changing"])
@pytest.mark.parametrize("next_phase", ["copying", "changing"])
def test_one_that_has_left_unheard_and_is_taken_in_again_has_what_went_to_it_sent_again_soon(
    seen: Phase | None, next_phase: Phase
) -> None:
    """The end of the scaling with which it left is missed here."""
    core = configured()
    publish(core, ODD)
    if seen is not None:
        core.on_configuration(leaving(seen))
    in_force = Configuration(2, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))
    both = Target(3, ("accesspoint-1", "accesspoint-2"), ("matcher-1",), ("exitpoint-1",))
    core.on_configuration(msgspec.structs.replace(in_force, change=Change("scaling-2", next_phase, both, {})))
    core.on_tick(100.1)
    assert [sequence for _, sequence, *_ in sent(core.on_tick(100.41))] == [1]


@pytest.mark.parametrize("phase", ["copying", "moving", "changing", "flushing"])
def test_before_its_last_word_an_access_point_that_leaves_sends_on_what_it_has(phase: Phase) -> None:
    core = configured()
    publish(core, ODD)
    core.on_configuration(leaving(phase))
    assert core.on_tick(100.1) == core.on_tick(101.9) == []


def test_what_is_not_logged_is_not_sent_when_an_access_point_leaves() -> None:
    core = configured()
    core.accept(ODD, [b"x"], 100.0)
    core.on_configuration(leaving("ending"))
    assert core.on_tick(100.1) == core.on_tick(101.0) == []


def test_a_slice_that_returned_does_not_put_a_retry_off() -> None:
    core = configured()
    publish(core, EVEN, now_s=100.0)
    core.on_slice_returned(101.9)
    assert len(core.on_tick(102.0)) == 1


# The window


@pytest.mark.parametrize(("publications", "size", "room"), [(3, 1, True), (4, 1, False), (1, (1 << 20) - 7, True)])
def test_room_in_the_window(publications: int, size: int, room: bool) -> None:
    core = configured()
    publish(core, EVEN, *[b"x"] * 7)
    assert core.has_room(publications, size) is room


def test_the_bytes_of_the_window() -> None:
    core = configured()
    publish(core, EVEN, b"x" * 100)
    assert core.has_room(1, (1 << 20) - 100)
    assert not core.has_room(1, (1 << 20) - 99)


def test_what_is_larger_than_the_window_enters_when_it_is_empty() -> None:
    core = configured()
    assert core.has_room(1000, 1 << 30)
    publish(core, EVEN, *[b"x"] * 1000)
    assert not core.has_room(1, 1)
    confirm(core, 1)
    assert core.has_room(1000, 1 << 30)


# The log


def test_a_failed_write_is_as_if_nothing_had_been_accepted() -> None:
    core = configured()
    publish(core, EVEN)
    core.on_log_failed(core.accept(EVEN, [b"abc"], 100.0))
    assert (core.window_publications, core.window_bytes) == (1, 1)
    assert sent(publish(core, EVEN)) == [("accesspoint-1", 3, 1, 0)]
    confirm(core, 1)
    assert sent(publish(core, EVEN)) == [("accesspoint-1", 4, 3, 2)]


def test_a_batch_behind_a_failed_one_follows_the_one_before_it() -> None:
    core = configured()
    publish(core, EVEN)
    failing, behind = core.accept(EVEN, [b"x"], 100.0), core.accept(EVEN, [b"x"], 100.0)
    core.on_log_failed(failing)
    assert sent(core.on_logged(behind, 100.0, 0)) == [("accesspoint-1", 3, 1, 0)]


def test_recovered_batches_of_older_origins_are_sent_at_once_in_their_order() -> None:
    core = IngressCore(ORIGIN, SETTINGS)
    recovered = [
        ("connpoint-1.1", 5, EVEN, [b"a"], 40.0),
        ("connpoint-1.1", 7, ODD, [b"b"], 40.0),
        ("connpoint-1.1", 9, EVEN, [b"c"], 40.0),
        ("connpoint-1.2", 1, EVEN, [b"d"], 40.0),
    ]
    core.on_recovered(recovered, 50.0)
    assert core.window_publications == 4
    core.on_configuration(CONFIGURATION)
    again = [message for send in core.on_tick(50.0) for message in send.messages]
    assert {message.published_s for message in again} == {40.0}
    assert [(m.origin, m.sequence, m.previous, m.watermark, m.contents) for m in again] == [
        ("connpoint-1.1", 5, 0, 4, [b"a"]),
        ("connpoint-1.1", 7, 0, 4, [b"b"]),
        ("connpoint-1.1", 9, 5, 4, [b"c"]),
        ("connpoint-1.2", 1, 0, 0, [b"d"]),
    ]


def test_a_new_origin_starts_beside_the_recovered_ones() -> None:
    core = IngressCore(ORIGIN, SETTINGS)
    core.on_recovered([("connpoint-1.1", 5, EVEN, [b"a"], 40.0)], 50.0)
    core.on_configuration(CONFIGURATION)
    assert core.origin == ORIGIN
    assert sent(publish(core, EVEN)) == [("accesspoint-1", 1, 0, 0)]


def test_the_watermark_of_a_recovered_origin_passes_its_gaps() -> None:
    core = IngressCore(ORIGIN, SETTINGS)
    core.on_recovered([("connpoint-1.1", 5, EVEN, [b"a"], 40.0), ("connpoint-1.1", 9, EVEN, [b"b"], 40.0)], 50.0)
    core.on_configuration(CONFIGURATION)
    assert confirm(core, 5, origin="connpoint-1.1") == [5]
    assert sent(core.on_tick(50.3)) == [("accesspoint-1", 9, 0, 8)]


def test_a_recovered_origin_is_forgotten_with_its_last_batch() -> None:
    core = IngressCore(ORIGIN, SETTINGS)
    core.on_recovered([("connpoint-1.1", 5, EVEN, [b"a"], 40.0)], 50.0)
    assert confirm(core, 5, origin="connpoint-1.1") == [5]
    assert confirm(core, 5, origin="connpoint-1.1") == []
    assert core.is_drained
    core.on_configuration(CONFIGURATION)
    assert core.on_tick(1000.0) == []
