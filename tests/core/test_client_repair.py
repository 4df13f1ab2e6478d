"""The protocol core of the client where the server has lost a subscription: from where it goes on, without a socket."""

from typing import Any

import msgspec

from braid.client.effects import Deliver, DropConnection, Effect, Report, Send
from braid.client.frames import Error, Notification, Notify, Past, Publication, Subscribed
from braid.client.held import OVERLAP_S
from braid.client.session import Session

NOW = 1_000_000.0
NOBODY: frozenset[str] = frozenset()


def with_stream(past: Past | None = None, **parts: Any) -> tuple[Session, int]:
    """A stream that was asked for at `NOW`, and is open; `from_` stands for `from`."""
    session = Session(temporary=True, delivered_window=100)
    session.on_connected(NOBODY, NOW)
    given = {name.rstrip("_"): value for name, value in parts.items()}
    stream, _ = session.subscribe(given, keep=False, now=NOW)
    session.on_frame(Subscribed(stream, "s1", past=past))
    return session, stream


def sent(effects: list[Effect]) -> list[dict[str, Any]]:
    return [msgspec.json.decode(effect.frame) for effect in effects if isinstance(effect, Send)]


def asked_again(session: Session, now: float, heard_s: float | None) -> dict[str, Any]:
    """The subscription that is asked for on a new connection to a server that has lost everything."""
    session.on_disconnected()
    [frame] = sent(session.on_connected(NOBODY, now, heard_s))
    return frame


def delivered(effects: list[Effect]) -> list[str]:
    return [effect.notification.publication.id for effect in effects if isinstance(effect, Deliver)]


def notify(subscription: str, *ids: str) -> Notify:
    return Notify([Notification(subscriptions=[subscription], publication=Publication(id=id)) for id in ids])


def test_the_past_is_not_asked_for_again_but_what_was_missed_is() -> None:
    session, _ = with_stream(filter="n = 1", from_="-10m", until="+1h")
    again = asked_again(session, NOW + 500, heard_s=NOW + 480)
    assert again["subscription"] == {"filter": "n = 1", "from": f"-{20 + OVERLAP_S:.3f}s", "until": NOW + 3600}


def test_a_stream_without_a_past_asks_for_nothing_before_its_beginning() -> None:
    session, _ = with_stream()
    assert asked_again(session, NOW + 30, heard_s=NOW + 1)["subscription"] == {"from": "-30.000s"}


def test_a_stream_that_began_in_the_past_may_go_back_so_far() -> None:
    session, _ = with_stream(from_="-4s")
    assert asked_again(session, NOW + 30, heard_s=NOW)["subscription"] == {"from": "-34.000s"}


def test_a_beginning_that_is_still_to_come_stays() -> None:
    session, _ = with_stream(from_="+60s")
    assert asked_again(session, NOW + 30, heard_s=NOW + 20)["subscription"] == {"from": NOW + 60}
    session, _ = with_stream(from_="+60s")
    assert asked_again(session, NOW + 90, heard_s=NOW + 20)["subscription"] == {"from": "-30.000s"}


def test_a_clock_that_was_set_back_asks_for_no_future() -> None:
    session, _ = with_stream()
    assert asked_again(session, NOW - 3600, heard_s=NOW)["subscription"] == {"from": "-0.000s"}


def test_what_was_missed_grows_while_the_repair_is_not_answered() -> None:
    session, stream = with_stream()
    first = asked_again(session, NOW + 130, heard_s=NOW + 100)
    assert first["subscription"] == {"from": f"-{30 + OVERLAP_S:.3f}s"}
    # Something is heard over the second connection, but the stream has missed more by then.
    second = asked_again(session, NOW + 160, heard_s=NOW + 150)
    assert (second["ref"], second["subscription"]) == (first["ref"], {"from": f"-{60 + OVERLAP_S:.3f}s"})
    session.on_frame(Error({"title": "Not now", "status": 503, "detail": ""}, second["ref"]))
    third = asked_again(session, NOW + 200, heard_s=NOW + 160)
    assert third["subscription"] == {"from": f"-{100 + OVERLAP_S:.3f}s"}
    session.on_frame(Subscribed(third["ref"], "s2"))
    assert asked_again(session, NOW + 300, heard_s=NOW + 290)["subscription"] == {"from": f"-{10 + OVERLAP_S:.3f}s"}
    assert session.id_of(stream) == "s2"


def test_a_server_that_is_too_busy_for_the_past_is_asked_without_it() -> None:
    session, _ = with_stream()
    again = asked_again(session, NOW + 30, heard_s=NOW + 25)
    busy = Error({"title": "Too much", "status": 429, "detail": "ask for less of the past"}, again["ref"])
    report, drop = session.on_frame(busy)
    assert isinstance(report, Report)
    assert report.kind == "gap"
    assert isinstance(drop, DropConnection)
    assert asked_again(session, NOW + 40, heard_s=NOW + 30)["subscription"] == {}
    [only] = session.on_frame(busy)
    assert isinstance(only, DropConnection)  # the gap has been told


def test_what_a_stream_had_is_not_given_again_with_the_past() -> None:
    session, _ = with_stream(from_="-10m")
    assert delivered(session.on_frame(notify("s1", "a", "b"))) == ["a", "b"]
    again = asked_again(session, NOW + 30, heard_s=NOW + 25)
    session.on_frame(Subscribed(again["ref"], "s2", past=Past(publications=2, complete=True)))
    assert delivered(session.on_frame(notify("s2", "b", "c"))) == ["c"]


def test_only_the_first_past_is_the_past_of_the_stream() -> None:
    whole = Past(publications=12, complete=True)
    session, stream = with_stream(past=whole, from_="-10m")
    assert session.past_of(stream) == whole
    again = asked_again(session, NOW + 30, heard_s=NOW + 25)
    effects = session.on_frame(Subscribed(again["ref"], "s2", past=Past(publications=1, complete=True)))
    assert session.past_of(stream) == whole
    assert not any(isinstance(effect, Report) for effect in effects)
    again = asked_again(session, NOW + 60, heard_s=NOW + 55)
    effects = session.on_frame(Subscribed(again["ref"], "s3", past=Past(publications=1, complete=False)))
    assert [effect.kind for effect in effects if isinstance(effect, Report)] == ["gap"]


def test_a_first_past_that_is_not_complete_is_no_gap() -> None:
    session, stream = with_stream(past=Past(publications=1, complete=False), from_="-10m")
    past = session.past_of(stream)
    assert past is not None
    assert not past.complete
