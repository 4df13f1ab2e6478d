"""The protocol core of the client, effect by effect."""

from typing import Any

import msgspec
import pytest

from braid.client.effects import Answered, CallFailed, Deliver, DropConnection, Effect, Report, Send, StreamFailed
from braid.client.errors import ConnectionLost
from braid.client.frames import (
    Error,
    Gap,
    Notification,
    Notify,
    Publication,
    Published,
    Subscribed,
    Unknown,
    Unsubscribed,
    decode_frame,
)
from braid.client.session import CALL_ATTEMPTS_MAX, Session

NOW = 1_000_000.0
NOBODY: frozenset[str] = frozenset()


def new_session(*, temporary: bool = True, window: int = 100) -> Session:
    return Session(temporary=temporary, delivered_window=window)


def connected(**options: Any) -> Session:
    session = new_session(**options)
    assert session.on_connected(NOBODY, NOW) == []
    return session


def notification(id: str, *subscriptions: str) -> Notification:
    return Notification(subscriptions=list(subscriptions), publication=Publication(id=id))


def sent(effects: list[Effect]) -> list[dict[str, Any]]:
    return [msgspec.json.decode(effect.frame) for effect in effects if isinstance(effect, Send)]


def delivered(effects: list[Effect]) -> list[tuple[int, str]]:
    return [(effect.stream, effect.notification.publication.id) for effect in effects if isinstance(effect, Deliver)]


def with_stream(session: Session, id: str = "s1", **parts: Any) -> int:
    stream, _ = session.subscribe(parts or {"filter": "n > 1"}, keep=False, now=NOW)
    session.on_frame(Subscribed(stream, id))
    return stream


def test_a_publish_is_sent_and_answered_once() -> None:
    session = connected()
    ref, effects = session.publish([{"id": "a", "attributes": {"n": 1}}])
    assert sent(effects) == [{"op": "publish", "ref": ref, "publications": [{"id": "a", "attributes": {"n": 1}}]}]
    assert session.on_frame(Published(ref, ["a"])) == [Answered(ref, ["a"])]
    assert session.on_frame(Published(ref, ["a"])) == []


def test_nothing_is_sent_before_there_is_a_connection() -> None:
    session = new_session()
    first, effects = session.publish([{"id": "a"}])
    second, more = session.subscribe({"filter": "n = 1"}, keep=False, now=NOW)
    assert (effects, more) == ([], [])
    assert not session.must_list
    assert [frame["ref"] for frame in sent(session.on_connected(NOBODY, NOW))] == [first, second]


def test_unanswered_calls_are_sent_again_in_their_order() -> None:
    session = connected()
    refs = [session.publish([{"id": id}])[0] for id in "abc"]
    session.on_frame(Published(refs[1], ["b"]))
    assert session.on_disconnected() == []
    again = sent(session.on_connected(NOBODY, NOW))
    assert [frame["publications"] for frame in again] == [[{"id": "a"}], [{"id": "c"}]]


def test_a_call_is_not_sent_again_without_end() -> None:
    session = new_session()
    ref, _ = session.publish([{"id": "a"}])
    for _ in range(CALL_ATTEMPTS_MAX - 1):
        assert len(sent(session.on_connected(NOBODY, NOW))) == 1
        assert session.on_disconnected() == []
    session.on_connected(NOBODY, NOW)
    [effect] = session.on_disconnected()
    assert isinstance(effect, CallFailed)
    assert effect.ref == ref
    assert isinstance(effect.error, ConnectionLost)
    assert session.on_connected(NOBODY, NOW) == []


def test_a_message_that_is_too_big_is_not_sent_again() -> None:
    session = connected()
    session.publish([{"id": "small"}])
    big, _ = session.publish([{"id": "b" * 1000}])
    [effect] = session.on_too_big()
    assert isinstance(effect, CallFailed)
    assert (effect.ref, "too big" in str(effect.error)) == (big, True)
    session.on_disconnected()
    assert [frame["publications"] for frame in sent(session.on_connected(NOBODY, NOW))] == [[{"id": "small"}]]


def test_notifications_go_to_the_streams_they_are_for() -> None:
    session = connected()
    first, second = with_stream(session, "s1"), with_stream(session, "s2")
    frame = Notify([notification("a", "s1"), notification("b", "s2", "s1"), notification("c", "foreign")], event="e-3")
    assert delivered(session.on_frame(frame)) == [(first, "a"), (second, "b"), (first, "b")]
    assert session.last_event_id == "e-3"


def test_a_listener_gets_everything_of_the_subscriber_once() -> None:
    session = connected(temporary=False)
    everything = session.listen()
    stream = with_stream(session)
    frame = Notify([notification("a", "elsewhere"), notification("b", "s1"), notification("a", "elsewhere")])
    assert delivered(session.on_frame(frame)) == [(everything, "a"), (stream, "b"), (everything, "b")]
    assert session.close_stream(everything) == (None, [])
    assert delivered(session.on_frame(Notify([notification("c", "elsewhere")]))) == []


def test_the_same_publication_is_not_given_twice_to_one_stream() -> None:
    session = connected()
    first, second = with_stream(session, "s1"), with_stream(session, "s2")
    assert delivered(session.on_frame(Notify([notification("a", "s1")]))) == [(first, "a")]
    # Sent again by its publisher, it finds a second subscription, whose stream has not had it.
    assert delivered(session.on_frame(Notify([notification("a", "s1", "s2")]))) == [(second, "a")]
    assert delivered(session.on_frame(Notify([notification("a", "s1", "s2")]))) == []


def test_the_window_against_duplicates_is_bounded() -> None:
    session = connected(window=2)
    stream = with_stream(session)
    for id in ("a", "b", "c"):
        session.on_frame(Notify([notification(id, "s1")]))
    assert delivered(session.on_frame(Notify([notification("c", "s1"), notification("a", "s1")]))) == [(stream, "a")]


def test_a_notification_may_overtake_the_answer_to_its_subscribe() -> None:
    session = connected()
    stream, _ = session.subscribe({}, keep=False, now=NOW)
    assert delivered(session.on_frame(Notify([notification("a", "s1"), notification("b", "foreign")]))) == []
    effects = session.on_frame(Subscribed(stream, "s1"))
    assert (effects[0], delivered(effects)) == (Answered(stream, "s1"), [(stream, "a")])


def test_subscriptions_the_server_still_has_are_left_alone() -> None:
    session = connected()
    stream = with_stream(session, "s1")
    session.on_disconnected()
    assert session.must_list
    assert session.on_connected({"s1"}, NOW) == []
    assert delivered(session.on_frame(Notify([notification("a", "s1")]))) == [(stream, "a")]


def test_subscriptions_the_server_lost_are_made_again_before_anything_is_published() -> None:
    session = connected()
    stream = with_stream(session, "s1", filter="n > 1")
    session.on_disconnected()
    publish, _ = session.publish([{"id": "a"}])
    effects = session.on_connected(NOBODY, NOW)
    subscribe, published = sent(effects)
    assert subscribe == {"op": "subscribe", "ref": subscribe["ref"], "subscription": {"filter": "n > 1"}}
    assert (published["op"], published["ref"]) == ("publish", publish)
    assert any(isinstance(effect, Report) and effect.kind == "resubscribing" for effect in effects)
    session.on_frame(Subscribed(subscribe["ref"], "s2"))
    assert session.id_of(stream) == "s2"
    # What was still on its way under the old id arrives too, and nothing twice.
    frame = Notify([notification("a", "s1"), notification("b", "s2"), notification("b", "s1")])
    assert delivered(session.on_frame(frame)) == [(stream, "a"), (stream, "b")]


def test_a_window_does_not_start_over_when_the_subscription_is_made_again() -> None:
    session = connected()
    with_stream(session, "s1", **{"filter": "n = 1", "from": "-10s", "until": "+60s"})
    session.on_disconnected()
    [subscribe] = sent(session.on_connected(NOBODY, NOW + 10))
    assert subscribe["subscription"] == {"filter": "n = 1", "until": NOW + 60}
    session.on_frame(Subscribed(subscribe["ref"], "s2"))
    session.on_disconnected()
    assert sent(session.on_connected(NOBODY, NOW + 61)) == []


def test_a_repair_the_server_cannot_do_now_is_tried_on_another_connection() -> None:
    session = connected()
    stream = with_stream(session, "s1")
    session.on_disconnected()
    [subscribe] = sent(session.on_connected(NOBODY, NOW))
    unavailable = {"title": "Not available right now", "status": 503, "detail": "no matchers"}
    [effect] = session.on_frame(Error(unavailable, subscribe["ref"]))
    assert isinstance(effect, DropConnection)
    session.on_disconnected()
    [again] = sent(session.on_connected(NOBODY, NOW))
    assert again == subscribe
    [failed] = session.on_frame(Error({"title": "No", "status": 422, "detail": "filter"}, subscribe["ref"]))
    assert isinstance(failed, StreamFailed)
    assert (failed.stream, failed.error.status) == (stream, 422)


def test_a_subscription_whose_answer_was_lost_is_taken_back() -> None:
    session = connected()
    ref, _ = session.subscribe({"filter": "n = 1"}, keep=False, now=NOW)
    session.on_disconnected()
    assert session.must_list
    unsubscribe, subscribe = sent(session.on_connected({"stray"}, NOW))
    assert (unsubscribe["op"], unsubscribe["id"]) == ("unsubscribe", "stray")
    assert (subscribe["op"], subscribe["ref"]) == ("subscribe", ref)
    assert session.on_frame(Unsubscribed(unsubscribe["ref"])) == []


def test_subscriptions_that_others_made_for_a_named_subscriber_are_not_touched() -> None:
    session = connected(temporary=False)
    with_stream(session, "s1")
    ref, _ = session.subscribe({"filter": "n = 1"}, keep=False, now=NOW)
    session.on_disconnected()
    assert [frame["ref"] for frame in sent(session.on_connected({"s1", "made-by-rest"}, NOW))] == [ref]


def test_closing_unsubscribes_and_gone_is_gone() -> None:
    session = connected()
    stream = with_stream(session, "s1")
    ref, effects = session.close_stream(stream)
    assert ref is not None
    assert sent(effects) == [{"op": "unsubscribe", "ref": ref, "id": "s1"}]
    assert session.close_stream(stream) == (None, [])
    not_found = {"title": "Not found", "status": 404, "detail": "there is no subscription 's1'"}
    assert session.on_frame(Error(not_found, ref)) == [Answered(ref, "")]
    assert delivered(session.on_frame(Notify([notification("a", "s1")]))) == []
    assert not session.must_list


def test_closing_while_subscribing_unsubscribes_when_the_id_is_known() -> None:
    session = connected()
    ref, _ = session.subscribe({}, keep=False, now=NOW)
    session.forget(ref)
    [unsubscribe] = sent(session.on_frame(Subscribed(ref, "s1")))
    assert (unsubscribe["op"], unsubscribe["id"]) == ("unsubscribe", "s1")


def test_a_kept_subscription_stays_when_its_stream_is_closed() -> None:
    session = connected(temporary=False)
    stream, _ = session.subscribe({}, keep=True, now=NOW)
    session.on_frame(Subscribed(stream, "s1"))
    assert session.close_stream(stream) == (None, [])


def test_a_forgotten_publish_is_not_sent_again() -> None:
    session = connected()
    ref, _ = session.publish([{"id": "a"}])
    session.forget(ref)
    session.on_disconnected()
    assert session.on_connected(NOBODY, NOW) == []
    assert session.on_frame(Published(ref, ["a"])) == []


def test_an_error_is_the_answer_of_its_call() -> None:
    session = connected()
    ref, _ = session.subscribe({"filter": "n >"}, keep=False, now=NOW)
    problem = {"title": "A field is not valid", "status": 422, "detail": "expected a value", "field": "$.filter"}
    [effect] = session.on_frame(Error(problem, ref))
    assert isinstance(effect, CallFailed)
    assert (effect.ref, effect.error.field, effect.error.status) == (ref, "$.filter", 422)
    [report] = session.on_frame(Error(problem, None))
    assert isinstance(report, Report)
    assert report.kind == "error"


def test_a_gap_is_reported_and_what_is_unknown_is_skipped() -> None:
    session = connected()
    assert session.on_frame(Gap("12 are gone")) == [Report("gap", "12 are gone")]
    assert session.on_frame(decode_frame(b'{"op":"weather","sunny":true}')) == []


def test_the_place_to_resume_is_known_before_the_first_notification() -> None:
    session = connected()
    session.subscribe({}, keep=False, now=NOW)
    session.on_frame(Subscribed(1, "s1", event="e-0"))
    assert session.last_event_id == "e-0"
    session.on_frame(Notify([notification("a", "s1")], event="e-1"))
    session.subscribe({}, keep=False, now=NOW)
    session.on_frame(Subscribed(2, "s2", event="e-0"))
    assert session.last_event_id == "e-1"


def test_frames_that_are_broken_are_not_taken_for_newer_ones() -> None:
    assert decode_frame(b'{"op":"weather"}') == Unknown("weather")
    for broken in (b"", b"[]", b'{"op":"published","ref":"x"}', b'{"op":"notify"}', b"{}"):
        with pytest.raises(msgspec.DecodeError):
            decode_frame(broken)
