"""Maps of anchors: what they say, what they are as bytes, and that a map means the same in every process."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from braid import znodes
from braid.anchor_map import ANCHORS_MAX, PARTS_MAX, AnchorMap
from braid.anchors import place_of, placed
from braid.selector import AnchoredSelector, MappedSelector, selector_of
from braid.subscription import SubscriptionRecord
from braid.topology import Change, Configuration, Target

MAP = AnchorMap(3, {7: 0, 2**32 - 1: 2, 100: 1})

places = st.integers(0, 2**32 - 1)
ids = st.one_of(places.map("s-0123456789abcdef{:08x}".format), st.text())


@st.composite
def maps(draw: st.DrawFn) -> AnchorMap:
    parts = draw(st.integers(1, PARTS_MAX))
    return AnchorMap(parts, draw(st.dictionaries(places, st.integers(0, parts - 1), min_size=1, max_size=50)))


def configuration(map: AnchorMap | None, matchers: int = 3, **changes: Any) -> Configuration:
    names = tuple(f"matcher-{number + 1}" for number in range(matchers))
    return replace(Configuration(4, ("accesspoint-1",), names, ("exitpoint-1",), "anchored", map), **changes)


# As bytes


def test_a_map_says_where_the_anchors_lie_that_it_names() -> None:
    assert [MAP.part_of(place) for place in (7, 100, 2**32 - 1)] == [0, 1, 2]
    assert [MAP.part_of(place) for place in (0, 6, 8, 101, 2**32, -1)] == [None] * 6
    assert (MAP.parts, len(MAP)) == (3, 3)


def test_the_bytes_never_change() -> None:
    """Another form would be another version: what stands in ZooKeeper could not be read."""
    head, places, parts = "62726169646d6170 0300 03000000", "07000000 64000000 ffffffff", "00 01 02"
    assert MAP.encode() == bytes.fromhex(head + places + parts)
    assert MAP.version == "6163d475ab54"


@pytest.mark.parametrize(
    ("parts", "part_of", "why"),
    [
        (0, {1: 0}, "numbered from 0 to -1"),
        (257, {1: 0}, "from 1 to 256 parts"),
        (2, {}, "from 1 to 100000 anchors"),
        (2, {1: 2}, "numbered from 0 to 1"),
        (2, {1: -1}, "numbered from 0 to 1"),
        (2, {-1: 0}, "32 bits"),
        (2, {2**32: 0}, "32 bits"),
    ],
)
def test_what_is_no_map(parts: int, part_of: dict[int, int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        AnchorMap(parts, part_of)


def test_the_largest_map_fits_into_a_znode() -> None:
    largest = AnchorMap(PARTS_MAX, {place * 40_000: place % PARTS_MAX for place in range(ANCHORS_MAX)})
    assert len(largest.encode()) < 1024 * 1024 // 2
    assert AnchorMap.decode(largest.encode()) == largest
    with pytest.raises(ValueError, match="this one 100001"):
        AnchorMap(2, dict.fromkeys(range(ANCHORS_MAX + 1), 0))


@given(maps())
def test_a_map_is_read_as_it_was_written(map: AnchorMap) -> None:
    read = AnchorMap.decode(map.encode())
    assert (read, read.version, read.parts, len(read)) == (map, map.version, map.parts, len(map))
    assert hash(read) == hash(map)


@given(maps(), st.data())
def test_damage_is_noticed(map: AnchorMap, data: st.DataObject) -> None:
    """What can still be read as a map is another one, and its version says so."""
    payload = bytearray(map.encode())
    if data.draw(st.booleans()):
        payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    else:
        del payload[data.draw(st.integers(0, len(payload) - 1)) :]
    with contextlib.suppress(ValueError):
        assert AnchorMap.decode(bytes(payload)).version != map.version


# As a selector


@given(maps(), st.integers(1, 6), st.lists(ids, max_size=20))
def test_every_id_has_one_matcher_and_the_same_in_every_process(map: AnchorMap, matchers: int, ids: list[str]) -> None:
    here = configuration(map, matchers)
    there = znodes.decode_configuration(znodes.encode(here), {map.version: AnchorMap.decode(map.encode())})
    assert there == here
    for id in ids:
        assert selector_of(here).matcher_of(id) in here.matchers
        assert selector_of(here).matcher_of(id) == selector_of(there).matcher_of(id)


@given(maps(), st.integers(1, 6), places)
def test_what_a_map_does_not_name_lies_where_it_hashes_to(map: AnchorMap, matchers: int, other: int) -> None:
    mapped, hashed = selector_of(configuration(map, matchers)), selector_of(configuration(None, matchers))
    id = f"s-0123456789abcdef{other:08x}"
    part = map.part_of(other)
    expected = hashed.matcher_of(id) if part is None else f"matcher-{part % matchers + 1}"
    assert mapped.matcher_of(id) == expected
    assert mapped.keeper_of(other << 32) == hashed.keeper_of(other << 32)  # publications lie by the ring, as ever


def test_subscriptions_of_an_anchor_follow_the_map() -> None:
    city = placed(SubscriptionRecord("", "anna", "connpoint-1", "city = 'Madrid'", 0.0)).id
    house = placed(SubscriptionRecord("", "anna", "connpoint-1", "", 0.0, words=("Houses",))).id
    for part in range(3):
        map = AnchorMap(3, {place_of("words:hous"): part, place_of("filter:city = 'Madrid'"): (part + 1) % 3})
        selector = selector_of(configuration(map))
        assert selector.matcher_of(house) == f"matcher-{part + 1}"
        assert selector.matcher_of(city) == f"matcher-{(part + 1) % 3 + 1}"


def test_only_anchored_subscriptions_lie_by_a_map() -> None:
    assert type(selector_of(configuration(MAP))) is MappedSelector
    assert type(selector_of(configuration(None))) is AnchoredSelector
    broadcast = selector_of(configuration(MAP, routing="broadcast"))
    assert broadcast.matcher_of("s-1") == selector_of(configuration(None, routing="broadcast")).matcher_of("s-1")


@pytest.mark.parametrize(
    ("other", "places_like", "keeps_like"),
    [
        (configuration(MAP), True, True),
        (configuration(MAP, epoch=9, exitpoints=("exitpoint-2",)), True, True),
        (configuration(AnchorMap(3, {7: 0, 2**32 - 1: 2, 100: 1})), True, True),
        (configuration(AnchorMap(3, {7: 1})), False, True),
        (configuration(None), False, True),
        (configuration(MAP, routing="broadcast"), False, True),
        (configuration(MAP, 4), False, False),
        (replace(configuration(MAP), matchers=("matcher-2", "matcher-1", "matcher-3")), False, True),
    ],
)
def test_whether_everything_stays_where_it_is(other: Configuration, places_like: bool, keeps_like: bool) -> None:
    selector = selector_of(configuration(MAP))
    assert (selector.places_like(selector_of(other)), selector_of(other).places_like(selector)) == (places_like,) * 2
    assert selector.keeps_like(selector_of(other)) is keeps_like


# In a configuration


def test_a_configuration_names_its_maps_and_is_whole_only_with_them() -> None:
    other = AnchorMap(2, {5: 1})
    to = Target(5, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",), "anchored", other)
    changing = configuration(MAP, change=Change("scaling-1", "moving", to, {}))
    payload = znodes.encode(changing)
    assert znodes.maps_named_in(payload) == [MAP.version, other.version]
    assert znodes.decode_configuration(payload, {MAP.version: MAP, other.version: other}) == changing
    assert changing.target() == replace(configuration(other, 1), epoch=5, epochs=5)
    for known in ({}, {MAP.version: MAP}, None):
        with pytest.raises(msgspec.ValidationError, match=r"is missing, or damaged"):
            znodes.decode_configuration(payload, known)


def test_a_configuration_without_maps_needs_none() -> None:
    """So does one that was written before there were maps."""
    old = configuration(None)
    assert znodes.maps_named_in(znodes.encode(old)) == []
    assert znodes.decode_configuration(znodes.encode(old)) == old
    before = b'{"epoch":4,"accesspoints":["accesspoint-1"],"matchers":["matcher-1"],"exitpoints":["exitpoint-1"],'
    assert znodes.decode_configuration(before + b'"routing":"anchored","epochs":4,"change":null}').map is None


def test_a_name_that_would_lead_elsewhere_is_no_version() -> None:
    payload = znodes.encode(configuration(MAP)).replace(MAP.version.encode(), b"../configuration")
    assert znodes.maps_named_in(payload) == []
    with pytest.raises(msgspec.ValidationError):
        znodes.decode_configuration(payload, {MAP.version: MAP})
