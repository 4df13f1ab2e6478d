"""Which name a slice takes that was started without one."""

from itertools import islice

import pytest

from braid.naming import in_order_of_numbers, names_to_try
from braid.topology import Change, Configuration, Layer, Registration, Target

CONFIGURED = Configuration(1, ("accesspoint-1", "accesspoint-2"), ("matcher-2", "matcher-3"), ("exitpoint-1",))


def registered(*names: str, incarnation: int = 7) -> dict[str, Registration]:
    layer: Layer = "matcher"
    return {name: Registration(name, layer, "h:1", "h:2", 1, incarnation, "0") for name in names}


def first(
    number: int,
    layer: Layer = "matcher",
    here: dict[str, int | None] | None = None,
    there: dict[str, Registration] | None = None,
    configuration: Configuration | None = CONFIGURED,
) -> list[str]:
    return list(islice(names_to_try(layer, here or {}, there or {}, configuration), number))


def test_the_first_slices_of_all_are_numbered() -> None:
    assert first(3, configuration=None) == ["matcher-1", "matcher-2", "matcher-3"]


def test_who_has_data_that_the_configuration_needs_comes_first() -> None:
    here = {"matcher-10": None, "matcher-1": 1, "matcher-3": 1, "matcher-2": 1}
    assert first(4, here=here) == ["matcher-2", "matcher-3", "matcher-1", "matcher-10"]


def test_one_without_data_does_not_take_the_name_of_a_matcher_that_is_missing() -> None:
    assert first(2) == ["matcher-1", "matcher-4"]


@pytest.mark.parametrize("layer", ["accesspoint", "exitpoint"])
def test_one_that_keeps_nothing_takes_the_place_of_one_that_is_missing(layer: Layer) -> None:
    here: dict[str, int | None] = {f"{layer}-9": 1}
    there = registered("accesspoint-1")
    expected = {"accesspoint": ["accesspoint-2", "accesspoint-9"], "exitpoint": ["exitpoint-1", "exitpoint-9"]}
    assert first(2, layer, here, there) == expected[layer]


def test_a_name_that_lives_elsewhere_is_passed_over() -> None:
    assert first(2, here={"matcher-2": 6, "matcher-3": None}, there=registered("matcher-2", "matcher-3")) == [
        "matcher-1",
        "matcher-4",
    ]


def test_the_registration_of_the_one_that_held_it_last_is_no_obstacle() -> None:
    """The lock decides whether that one is gone."""
    assert first(1, here={"matcher-2": 7}, there=registered("matcher-2")) == ["matcher-2"]


def test_those_that_a_change_takes_in_count_as_configured() -> None:
    to = Target(2, CONFIGURED.accesspoints, ("matcher-2", "matcher-3", "matcher-4"), CONFIGURED.exitpoints)
    changing = Configuration(1, (), ("matcher-2",), (), change=Change("scaling-1", "copying", to, {}))
    assert first(2, here={"matcher-1": 1, "matcher-4": 1}, configuration=changing) == ["matcher-4", "matcher-1"]


def test_order_is_that_of_numbers_and_then_of_letters() -> None:
    assert in_order_of_numbers(["matcher-10", "matcher", "matcher-2", "b-2"]) == [
        "b-2",
        "matcher-2",
        "matcher-10",
        "matcher",
    ]
