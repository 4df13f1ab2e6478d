"""What a slice that is told to stop does first: each row of the table in docs/deployment.md."""

import pytest
from msgspec.structs import replace

from braid.leaving import RECONNECT_S, Known, Leave, Stop, Wait, next_step
from braid.scaling import Ask
from braid.topology import Change, Configuration, Layer, Registration, Target

CONFIGURATION = Configuration(4, ("accesspoint-1",), ("matcher-1", "matcher-2"), ("exitpoint-1",))
NAMES = ("connpoint-1", "accesspoint-1", "matcher-1", "matcher-2", "exitpoint-1")
CHANGE = Change("scaling-1", "moving", Target(5, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",)), {})


def slices(*names: str) -> dict[str, Registration]:
    found = {}
    for name in names:
        layer: Layer = name.rpartition("-")[0]  # type: ignore[assignment]  # a layer by its name
        found[name] = Registration(name, layer, "h:1", "h:2", 1, 1, "0")
    return found


KNOWN = Known(CONFIGURATION, slices(*NAMES))


def test_one_of_several_asks_for_one_fewer_without_itself() -> None:
    assert next_step("matcher-1", "matcher", KNOWN) == Leave(Ask({"matcher": 1}, replace=("matcher-1",)))


@pytest.mark.parametrize("name", ["matcher-2", "accesspoint-1", "exitpoint-1"])
def test_where_an_idle_one_is_there_it_asks_to_be_replaced(name: str) -> None:
    layer: Layer = name.rpartition("-")[0]  # type: ignore[assignment]  # a layer by its name
    known = Known(CONFIGURATION, slices(*NAMES, f"{layer}-9"))
    assert next_step(name, layer, known) == Leave(Ask(replace=(name,)))


def test_an_idle_one_of_another_layer_is_of_no_use() -> None:
    known = Known(CONFIGURATION, slices(*NAMES, "matcher-3"))
    assert isinstance(next_step("exitpoint-1", "exitpoint", known), Stop)


@pytest.mark.parametrize("name", ["accesspoint-1", "exitpoint-1"])
def test_the_only_one_of_its_layer_stops(name: str) -> None:
    layer: Layer = name.rpartition("-")[0]  # type: ignore[assignment]  # a layer by its name
    assert next_step(name, layer, KNOWN) == Stop("it is the only one of its layer, so what comes waits for it")


def test_one_that_takes_no_part_stops_also_while_a_scaling_runs() -> None:
    for configuration in (CONFIGURATION, replace(CONFIGURATION, change=CHANGE)):
        assert next_step("matcher-3", "matcher", Known(configuration, slices(*NAMES))) == Stop("it takes no part")


def test_one_that_takes_part_in_a_scaling_waits_for_its_end() -> None:
    known = Known(replace(CONFIGURATION, change=CHANGE), slices(*NAMES))
    assert next_step("matcher-2", "matcher", known) == Wait("for the end of scaling-1")


def test_one_that_a_scaling_takes_in_waits_too() -> None:
    to = replace(CHANGE.to, matchers=("matcher-1", "matcher-2", "matcher-3"))
    known = Known(replace(CONFIGURATION, change=replace(CHANGE, to=to)), slices(*NAMES))
    assert isinstance(next_step("matcher-3", "matcher", known), Wait)


def test_without_connection_points_the_whole_cluster_stops() -> None:
    without = slices(*NAMES[1:], "matcher-9")
    for configuration in (CONFIGURATION, replace(CONFIGURATION, change=CHANGE)):
        assert isinstance(next_step("matcher-1", "matcher", Known(configuration, without)), Stop)


def test_no_scaling_can_begin_while_a_configured_one_is_away() -> None:
    known = Known(CONFIGURATION, slices(*NAMES[:-1]))
    assert next_step("matcher-1", "matcher", known) == Wait("for exitpoint-1, without which no scaling can begin")


def test_without_a_configuration_it_stops() -> None:
    assert isinstance(next_step("matcher-1", "matcher", Known(None, slices(*NAMES))), Stop)


def test_without_zookeeper_it_stops_but_not_for_a_moment() -> None:
    away = Known(CONFIGURATION, KNOWN.slices, disconnected_s=RECONNECT_S / 2)
    assert next_step("matcher-1", "matcher", away) == Wait("for ZooKeeper")
    for configuration in (None, CONFIGURATION):
        gone = Known(configuration, KNOWN.slices, disconnected_s=RECONNECT_S)
        assert next_step("matcher-1", "matcher", gone) == Stop("ZooKeeper cannot be reached")
