"""When and where the client connects again; the ids it makes; addresses."""

import pytest

from braid.client.backoff import Backoff, verdict_on
from braid.client.ids import make_id, time_of
from braid.client.options import checked_publisher, checked_url, is_loopback, socket_url


def backoff(*urls: str, random: float = 1.0) -> Backoff:
    return Backoff(urls or ("a",), first_s=0.1, max_s=0.5, random=lambda: random)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (1000, "same"),
        (1001, "next"),
        (1006, "same"),
        (1008, "refused"),
        (1009, "too-big"),
        (1011, "same"),
        (1012, "next"),
        (1013, "next"),
        (4408, "same"),
        (4409, "replaced"),
        (4400, "refused"),
    ],
)
def test_what_a_close_code_asks_for(code: int, verdict: str) -> None:
    assert verdict_on(code) == verdict


def test_pauses_double_up_to_a_limit_with_jitter() -> None:
    most, least = backoff(random=1.0), backoff(random=0.0)
    assert [most.on_lost(0.0, "same", 60) for _ in range(5)] == pytest.approx([0.1, 0.2, 0.4, 0.5, 0.5])
    assert [least.on_lost(0.0, "same", 60) for _ in range(5)] == pytest.approx([0.05, 0.1, 0.2, 0.25, 0.25])


def test_it_gives_up_when_the_time_is_used_up() -> None:
    pauses = backoff()
    assert pauses.on_lost(100.0, "next", 10) == pytest.approx(0.1)
    assert pauses.on_lost(109.9, "next", 10) == pytest.approx(0.1)  # no longer than what is left
    assert pauses.on_lost(110.0, "next", 10) is None


def test_a_good_connection_starts_the_time_anew() -> None:
    pauses = backoff()
    pauses.on_lost(100.0, "same", 10)
    pauses.on_good()
    assert pauses.on_lost(200.0, "same", 10) == pytest.approx(0.1)
    assert pauses.attempt == 1


def test_the_same_place_is_tried_once_more_unless_it_is_leaving() -> None:
    pauses = backoff("a", "b", "c")
    pauses.on_lost(0.0, "same", 60)
    assert pauses.url == "a"
    pauses.on_lost(0.0, "next", 60)
    assert pauses.url == "b"
    pauses.on_lost(0.0, "same", 60)
    assert pauses.url == "c"
    pauses.on_good()
    pauses.on_lost(0.0, "next", 60)
    assert pauses.url == "a"


def test_without_any_patience_each_place_is_tried_once() -> None:
    pauses = backoff("a", "b")
    assert (pauses.on_lost(0.0, "next", 0), pauses.url) == (0.0, "b")
    assert pauses.on_lost(0.0, "next", 0) is None


def test_ids_are_unique_sortable_uuids_that_know_their_time() -> None:
    now_ns = 1_767_225_600_123_456_789
    id = make_id(now_ns, 0)
    assert id == "019b76da-a87b-774f-8000-000000000000"
    told_ns = time_of(id)
    assert told_ns is not None
    assert 0 <= now_ns - told_ns < 250
    assert make_id(now_ns, (1 << 62) - 1).endswith("bfff-ffffffffffff")
    assert make_id(now_ns, 5) < make_id(now_ns + 1_000, 4)


@pytest.mark.parametrize("id", ["", "reading-1", "7d444840-9dc0-11d1-b245-5ffdce74fad2", "019B76DA"])
def test_other_ids_tell_no_time(id: str) -> None:
    assert time_of(id) is None


def test_addresses() -> None:
    assert checked_url("http://127.0.0.1:8080/") == "http://127.0.0.1:8080"
    assert socket_url("https://braid.example/x", {"subscriber": "a b"}) == (
        "wss://braid.example/x/v1/ws?subscriber=a+b"
    )
    assert [is_loopback(f"http://{host}:1") for host in ("localhost", "127.0.0.2", "[::1]", "10.0.0.1", "db")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    for wrong in ("127.0.0.1:8080", "ws://localhost", "http://", "http://h?x=1", ""):
        with pytest.raises(ValueError, match="expected an address"):
            checked_url(wrong)
    with pytest.raises(ValueError, match="ASCII"):
        checked_publisher("Müller")
