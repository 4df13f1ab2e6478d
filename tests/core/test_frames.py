"""What connections publish in a measurement: in which order, with which marks, and how much of it must arrive."""

import json
from typing import Any

import pytest

from benchmarks.arrivals import UNWANTED, first_mark
from benchmarks.frames import Frames, Prepared, PreparedFrames, SensorFrames, Taken, prepared

A, B, C = (prepared(b'{"topic":"%b"}' % name.encode(), is_wanted=name != "b") for name in "abc")


@pytest.fixture(autouse=True)
def _noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.frames.time.time", lambda: 12.5)


def published(source: Frames, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(source.take(count).frame)["publications"]
    return found


def test_sensors_take_turns_and_all_of_them_are_wanted() -> None:
    source = SensorFrames(1, 2, "x")
    mark = first_mark(1)
    first = f'{{"attributes":{{"sensor":"x0","value":{mark},"at":12.5}}}}'
    second = f'{{"attributes":{{"sensor":"x1","value":{mark + 1},"at":12.5}}}}'
    assert source.take(2) == Taken(f'{{"op":"publish","ref":0,"publications":[{first},{second}]}}'.encode(), 2)
    third = f'{{"attributes":{{"sensor":"x0","value":{mark + 2},"at":12.5}}}}'
    assert source.take(1) == Taken(f'{{"op":"publish","ref":2,"publications":[{third}]}}'.encode(), 1)


def test_what_was_prepared_is_published_in_order_and_again() -> None:
    source = PreparedFrames(0, 1, [A, B, C])
    a, b, c = (
        f'{{"topic":"{topic}","data":{{"value":{mark},"at":12.5}}}}'
        for topic, mark in (("a", 0), ("b", UNWANTED), ("c", 1))
    )
    assert source.take(3) == Taken(f'{{"op":"publish","ref":0,"publications":[{a},{b},{c}]}}'.encode(), 2)
    again = a.replace('"value":0', '"value":2')
    assert source.take(2) == Taken(f'{{"op":"publish","ref":3,"publications":[{again},{b}]}}'.encode(), 1)


@pytest.mark.parametrize(("stored", "rounds"), [(1, 1), (2, 1), (3, 4), (4, 1), (6, 2)])
def test_connections_together_go_through_it_in_order_again_and_again(stored: int, rounds: int) -> None:
    texts = [prepared(b'{"topic":"%d"}' % number, is_wanted=True) for number in range(stored)]
    taken = [published(PreparedFrames(place, 4, texts), 3 * rounds) for place in range(4)]
    in_turn = [int(each["topic"]) for turn in zip(*taken, strict=True) for each in turn]
    assert in_turn == [number % stored for number in range(12 * rounds)]


def test_each_connection_has_marks_of_its_own() -> None:
    source = PreparedFrames(1, 2, [B, A, C])
    values = [each["data"]["value"] for each in published(source, 4)]
    assert values == [first_mark(1), UNWANTED, first_mark(1) + 1, first_mark(1) + 2]


def test_any_publication_has_room_for_a_mark() -> None:
    assert prepared(b"{}", is_wanted=True) == Prepared('{"data":{"value":', True)
    source = PreparedFrames(0, 1, [prepared('{"text":"niño"}'.encode(), is_wanted=True)])
    assert published(source, 1) == [{"text": "niño", "data": {"value": 0, "at": 12.5}}]
