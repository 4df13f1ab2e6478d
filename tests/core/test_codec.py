"""Frames: what goes in comes out, however the bytes are cut; what is not ours is refused with a reason."""

import math
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from braid.codec import (
    FRAME_MESSAGES_MAX,
    HEARTBEAT,
    PROTOCOL,
    PROTOCOL_VERSION,
    FrameError,
    FrameReader,
    Hello,
    decode_hello,
    decode_messages,
    encode_frames,
    encode_hello,
)
from braid.messages import (
    AddMatcherState,
    Anchors,
    AnchorsKnown,
    AnyMessage,
    BatchUnderWay,
    Calls,
    ChangeMatcher,
    ChangeMatcherOnExitPoint,
    Confirmed,
    ConfirmedElsewhere,
    ExitPointScaling,
    Explain,
    Explained,
    FindPublications,
    FindSubscriptions,
    GoesElsewhere,
    HandOverPrevious,
    HandOverPublications,
    Kept,
    KeptBatch,
    MatcherStateStored,
    MatchRequest,
    Notifications,
    Partial,
    PreviousHandedOver,
    Publications,
    PublicationsFound,
    PublicationsHandedOver,
    Received,
    ScaleEnd,
    StartScale,
    Subscribe,
    SubscriptionGone,
    SubscriptionRemoved,
    SubscriptionsFound,
    SubscriptionStored,
    UnderWay,
    Unsubscribe,
)
from braid.subscription import SubscriptionRecord

FRAME_MAX = 1 << 20
RECORD = SubscriptionRecord("s-1", "anna", "connpoint-1", "n = 1", 12.5, None, 99.0, True)
HOPS = [("connpoint-1", 1_700_000_000_000_000_000, 1_700_000_000_000_000_001)]

EVERY_MESSAGE: list[Any] = [
    Publications(1, "connpoint-1.a", 7, 6, 5, 2**64 - 1, 1.5, [b"{}", b"\x00\xff"], HOPS),
    Publications(1, "connpoint-1.a", 8, 0, 5, 0, 0.0, []),
    Publications(1, "connpoint-1.a", 8, 0, 5, 0, 0.0, [], None, 1_700_000_000),
    MatchRequest(1, "connpoint-1.a", 7, 6, 5, 2**63, 1.5, 3, [b"{}"], HOPS),
    MatchRequest(1, "connpoint-1.a", 7, 6, 5, 2**63, 1.5, 1, [], None, [], ["matcher-1"]),
    MatchRequest(1, "connpoint-1.a", 7, 6, 5, 2**63, 1.5, 2, [b"{}"], HOPS, [4], ["matcher-1", "matcher-3"], 2, 5),
    Partial(1, "connpoint-1.a", 7, 6, 5, 2**63, 3, "matcher-1", [("connpoint-2", [(0, ["s-1", "s-2"], b"{}")])], HOPS),
    Partial(1, "connpoint-1.a", 7, 6, 5, 2**63, 3, "matcher-1", []),
    Partial(1, "connpoint-1.a", 7, 6, 5, 2**63, 1, "matcher-1", [], None, ["matcher-1"], 2),
    Notifications(1, "connpoint-1.a", 7, 5, 2**63, [(4, ["s-1"], b"{}")], HOPS),
    Received(1, "connpoint-1.a", [7, 8], [(7, HOPS)]),
    Confirmed(1, "connpoint-1.a", [7, 8]),
    Subscribe(1, 3, "connpoint-1", RECORD),
    Subscribe(1, 3, "connpoint-1", msgspec.structs.replace(RECORD, anchor="f0:5")),
    Unsubscribe(1, 4, "connpoint-1", "s-1"),
    FindSubscriptions(1, 5, "connpoint-1", subscriber="ännå", after="s-0", limit=10, asked=3),
    FindSubscriptions(1, 5, "connpoint-1", subscriber="ännå", ended=True),
    SubscriptionStored(1, 3, "connpoint-1", "s-1"),
    SubscriptionRemoved(1, 4, "connpoint-1", "s-1", False),
    SubscriptionsFound(1, 5, "connpoint-1", "matcher-1", [RECORD], "s-1", 3),
    SubscriptionGone(1, "connpoint-3", "s-1"),
    Explain(1, 5, "connpoint-1", b"{}", "s-1", 10, 3),
    Explained(1, 5, "connpoint-1", "matcher-1", ["s-1"], 1, b"{}", 3),
    ConfirmedElsewhere(1, "connpoint-1.a", [7, 8]),
    FindPublications(1, 6, "connpoint-1", RECORD, -math.inf, math.inf, 10),
    FindPublications(
        1, 6, "connpoint-1", RECORD, 1.5, 2.5, 10, [RECORD], ["accesspoint-1"], ["matcher-1", "matcher-3"]
    ),
    PublicationsFound(
        1,
        6,
        "connpoint-1",
        "matcher-1",
        [Kept(1.5, "connpoint-1.a", 7, 4, b"{}", 6, True), Kept(1.5, "connpoint-1.a", 8, 0, b"\x00\xff")],
        {"connpoint-1.a": UnderWay(5, {7: BatchUnderWay(6, 1.5, 3), 8: BatchUnderWay(0, 1.5, 4, [0, 3])})},
        0.5,
        ["matcher-1", "matcher-3"],
    ),
    PublicationsFound(1, 6, "connpoint-1", "matcher-1", [], {}, None),
    StartScale(2),
    AddMatcherState(2, 1, [RECORD], ["s-2"], {"s-1": Calls("connpoint-1", {"connpoint-1": 2**53, "x": 0})}, ""),
    AddMatcherState(2, 2, [], [], {}, "copy"),
    AddMatcherState(2, 3, [], [], {"s-2": Calls("", {})}, "state"),
    MatcherStateStored(2, 1),
    HandOverPublications(2, 1, [KeptBatch("connpoint-1.a", 7, 6, 1.5, [0, 4], [b"{}", b"\x00\xff"])]),
    HandOverPublications(2, 1, [KeptBatch("connpoint-1.a", 7, 6, 1.5, [0], [b"{}"], 3601.5)]),
    HandOverPublications(2, 2, [], [RECORD]),
    PublicationsHandedOver(2, 1),
    HandOverPrevious(2, 7, 4, {"a/b": b"\x91\xff"}, False),
    PreviousHandedOver(2, 1),
    ChangeMatcherOnExitPoint(2, "accesspoint-1", 3),
    ExitPointScaling(2),
    ChangeMatcher(2),
    GoesElsewhere(2),
    ScaleEnd(2),
    Anchors(0, 1, True, False, ["*", "words:hous", "filter:n = 1"], []),
    Anchors(0, 2, False, True, [], ["topic:both:ä/b"]),
    AnchorsKnown(0, 2),
]


def hello(**changes: Any) -> Hello:
    given: dict[str, Any] = {
        "protocol": PROTOCOL,
        "version": PROTOCOL_VERSION,
        "cluster": "blue",
        "name": "matcher-1",
        "layer": "matcher",
        "incarnation": 42,
    }
    return Hello(**given | changes)


def bodies_of(frames: list[bytes]) -> list[bytes]:
    return FrameReader(FRAME_MAX).feed(b"".join(frames))


def test_every_message_type_has_an_example() -> None:
    assert {type(message) for message in EVERY_MESSAGE} == set(get_args(AnyMessage))


@pytest.mark.parametrize("message", EVERY_MESSAGE, ids=lambda message: type(message).__name__)
def test_round_trip(message: AnyMessage) -> None:
    (body,) = bodies_of(encode_frames([message], FRAME_MAX))
    assert decode_messages(body) == [message]


def test_a_batch_is_one_frame_and_keeps_its_order() -> None:
    (body,) = bodies_of(encode_frames(EVERY_MESSAGE, FRAME_MAX))
    assert decode_messages(body) == EVERY_MESSAGE


def test_frames_cut_at_every_byte() -> None:
    stream = b"".join([*encode_frames(EVERY_MESSAGE[:3], FRAME_MAX), HEARTBEAT, *encode_frames(EVERY_MESSAGE[3:5], 99)])
    whole = FrameReader(FRAME_MAX).feed(stream)
    assert b"" in whole
    for cut in range(len(stream) + 1):
        reader = FrameReader(FRAME_MAX)
        assert reader.feed(stream[:cut]) + reader.feed(stream[cut:]) == whole
    reader = FrameReader(FRAME_MAX)
    byte_by_byte = [body for i in range(len(stream)) for body in reader.feed(stream[i : i + 1])]
    assert byte_by_byte == whole


def test_several_frames_in_one_read_and_half_of_the_next() -> None:
    frames = [encode_frames([message], FRAME_MAX)[0] for message in EVERY_MESSAGE[:3]]
    reader = FrameReader(FRAME_MAX)
    assert [decode_messages(body) for body in reader.feed(b"".join(frames[:2]) + frames[2][:9])] == [
        [EVERY_MESSAGE[0]],
        [EVERY_MESSAGE[1]],
    ]
    assert [decode_messages(body) for body in reader.feed(frames[2][9:])] == [[EVERY_MESSAGE[2]]]
    assert reader.feed(b"") == []


def test_a_heartbeat_is_an_empty_frame() -> None:
    assert FrameReader(FRAME_MAX).feed(HEARTBEAT + HEARTBEAT) == [b"", b""]


def test_a_frame_of_exactly_the_longest_length_is_read() -> None:
    assert FrameReader(5).feed(b"\x00\x00\x00\x05hello") == [b"hello"]


def test_a_frame_too_long_is_refused_before_its_body_is_there() -> None:
    with pytest.raises(FrameError, match="a frame of 6 bytes; at most 5 are allowed"):
        FrameReader(5).feed(b"\x00\x00\x00\x06")


def test_a_frame_that_goes_on_brings_something() -> None:
    """Otherwise a peer could fill the memory with frames of nothing."""
    with pytest.raises(FrameError, match="an empty frame that goes on"):
        FrameReader(5).feed(b"\x80\x00\x00\x00")


def test_a_foreign_protocol_is_a_frame_too_long() -> None:
    with pytest.raises(FrameError, match="a frame of 1195725856 bytes"):
        FrameReader(FRAME_MAX).feed(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")


@pytest.mark.parametrize(
    "body",
    [
        b"\xc1",  # no msgpack at all
        b"\x01",  # a number
        b"\x91\x01",  # a list of numbers
        b"\x91\x92\x63\x01",  # an unknown tag
        b"\x91\x92\x01\x01",  # a known tag without its fields
        b"\x91\xa2\xff\xff",  # a string that is not UTF-8
        b"\x91" * 100_000,  # nested without end
        msgspec.msgpack.encode(EVERY_MESSAGE[:1]) + b"\x00",  # something behind it
        msgspec.msgpack.encode(EVERY_MESSAGE[:1])[:-1],  # cut
    ],
    ids=["nothing", "number", "numbers", "unknown tag", "fields missing", "not UTF-8", "nested", "longer", "cut"],
)
def test_garbage_in_a_frame(body: bytes) -> None:
    with pytest.raises(FrameError, match="a frame that is not a list of messages"):
        decode_messages(body)


def test_the_handshake() -> None:
    (body,) = FrameReader(FRAME_MAX).feed(encode_hello(hello()))
    assert decode_hello(body, "blue") == hello()


def test_the_handshake_is_the_one_of_the_documents() -> None:
    document = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```hello-hex\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)
    frame = b"".join(bytes.fromhex(re.split(r" {3,}", line)[0]) for line in example.splitlines())
    shown = hello(cluster="braid", name="matcher-2", incarnation=0x1A1E2452DB0)
    assert encode_hello(shown) == frame
    assert f"| `version` | integer | `{PROTOCOL_VERSION}` |" in document
    assert f"| version | what is new |\n|---|---|\n| {PROTOCOL_VERSION} | " in document


@pytest.mark.parametrize(
    ("foreign", "reason"),
    [
        (hello(protocol="amqp"), "the peer speaks 'amqp', not 'braid'"),
        (hello(version=PROTOCOL_VERSION + 1), f"the peer speaks version {PROTOCOL_VERSION + 1}, this slice"),
        (hello(cluster="green"), "the peer belongs to cluster 'green', this slice to 'blue'"),
    ],
)
def test_a_foreign_handshake(foreign: Hello, reason: str) -> None:
    (body,) = bodies_of([encode_hello(foreign)])
    with pytest.raises(FrameError, match=reason):
        decode_hello(body, "blue")


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x80", b"\x91" * 100_000, msgspec.msgpack.encode(EVERY_MESSAGE[:1])])
def test_no_handshake_at_all(body: bytes) -> None:
    with pytest.raises(FrameError, match="no handshake"):
        decode_hello(body, "blue")


@pytest.mark.parametrize("frame_max", [40, 60, 100, 150, 1000])
def test_what_would_be_too_long_for_one_frame_is_split_in_order(frame_max: int) -> None:
    messages: list[Any] = [Unsubscribe(1, ref, "connpoint-1", f"s-{ref}") for ref in range(20)]
    frames = encode_frames(messages, frame_max)
    assert len(frames) > 1 or frame_max == 1000
    assert all(len(frame) <= frame_max + 4 for frame in frames)
    assert [message for body in bodies_of(frames) for message in decode_messages(body)] == messages


@pytest.mark.parametrize("frame_max", [1, 7, 100, 117, 118])
def test_one_message_that_does_not_fit_goes_on_in_the_next_frame(frame_max: int) -> None:
    messages: list[Any] = [Unsubscribe(1, 1, "connpoint-1", "s" * 99), Unsubscribe(1, 2, "connpoint-1", "s")]
    frames = encode_frames(messages, frame_max)
    assert all(len(frame) <= frame_max + 4 for frame in frames)
    for size in (1, 3, 50, 10_000):
        stream, reader, bodies = b"".join(frames), FrameReader(frame_max), []
        for start in range(0, len(stream), size):
            bodies += reader.feed(stream[start : start + size])
        assert [message for body in bodies for message in decode_messages(body)] == messages


def test_a_message_beyond_all_bounds_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braid.codec.MESSAGE_BYTES_MAX", 100)
    with pytest.raises(ValueError, match="a Unsubscribe of 118 bytes; at most 100 are sent"):
        encode_frames([Unsubscribe(1, 1, "connpoint-1", "s" * 99)], 50)
    with pytest.raises(FrameError, match="a message of more than 100 bytes"):
        FrameReader(60).feed((b"\x80\x00\x00\x3c" + b"x" * 60) * 2)


def test_very_many_messages_are_several_frames() -> None:
    """Nobody decodes all of them in one go."""
    messages = [Unsubscribe(1, number, "connpoint-1", "s") for number in range(2 * FRAME_MESSAGES_MAX + 1)]
    bodies = bodies_of(encode_frames(messages, FRAME_MAX))
    assert [len(decode_messages(body)) for body in bodies] == [FRAME_MESSAGES_MAX, FRAME_MESSAGES_MAX, 1]
    assert [message for body in bodies for message in decode_messages(body)] == messages
