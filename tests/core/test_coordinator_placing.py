"""Which slices a scaling leads to."""

from hypothesis import given
from hypothesis import strategies as st

from braid.scaling import Ask
from braid.scaling_checks import refusal
from braid.topology import CONFIGURED_LAYERS, Configuration, Layer, Registration
from coordinator.placing import Placement, place
from tests.core.coordinator_stage import OLD, registered

THREE = Configuration(1, ("accesspoint-1",), ("matcher-1", "matcher-2", "matcher-3"), ("exitpoint-1", "exitpoint-2"))


def placed(ask: Ask, configuration: Configuration = OLD, *spares: str) -> Placement:
    configured = [name for layer in CONFIGURED_LAYERS for name in configuration.of_layer(layer)]
    return place(ask, configuration, registered(*configured, *spares).slices)


def matchers(ask: Ask, configuration: Configuration = OLD, *spares: str) -> tuple[str, ...]:
    return placed(ask, configuration, *spares).layers["matcher"]


def test_more_are_started_under_the_lowest_free_names() -> None:
    placement = placed(Ask({"matcher": 4}))
    assert placement.layers == {
        "accesspoint": ("accesspoint-1",),
        "matcher": ("matcher-1", "matcher-2", "matcher-3", "matcher-4"),
        "exitpoint": ("exitpoint-1",),
    }
    assert placement.wants == ("matcher-3", "matcher-4")


def test_registered_spares_come_first_in_order_of_their_numbers() -> None:
    placement = placed(Ask({"matcher": 5}), OLD, "matcher-10", "matcher-9", "exitpoint-3")
    assert placement.layers["matcher"] == ("matcher-1", "matcher-2", "matcher-9", "matcher-10", "matcher-3")
    assert placement.wants == ("matcher-3",)


def test_of_fewer_the_last_ones_leave() -> None:
    assert matchers(Ask({"matcher": 1}), THREE) == ("matcher-1",)
    assert placed(Ask({"matcher": 1}), THREE).wants == ()


def test_a_replacement_takes_the_place_of_the_one_that_goes() -> None:
    assert matchers(Ask(replace=("matcher-1",))) == ("matcher-3", "matcher-2")
    assert matchers(Ask(replace=("matcher-1",)), OLD, "matcher-8") == ("matcher-8", "matcher-2")


def test_of_fewer_those_to_be_replaced_leave_first_and_nobody_is_started_for_them() -> None:
    assert matchers(Ask({"matcher": 2}, ("matcher-1",)), THREE) == ("matcher-2", "matcher-3")
    assert matchers(Ask({"matcher": 1}, ("matcher-1",)), THREE) == ("matcher-2",)
    assert matchers(Ask({"matcher": 2}, ("matcher-1", "matcher-2")), THREE) == ("matcher-4", "matcher-3")


def test_several_layers_at_once() -> None:
    placement = placed(Ask({"accesspoint": 2, "exitpoint": 1}, ("matcher-2",)), THREE)
    assert placement.layers == {
        "accesspoint": ("accesspoint-1", "accesspoint-2"),
        "matcher": ("matcher-1", "matcher-4", "matcher-3"),
        "exitpoint": ("exitpoint-1",),
    }
    assert placement.wants == ("accesspoint-2", "matcher-4")


def test_what_is_there_differs_in_nothing() -> None:
    assert not placed(Ask({"matcher": 2, "exitpoint": 1})).differs_from(OLD)
    assert placed(Ask(replace=("exitpoint-1",))).differs_from(OLD)


def test_a_request_that_can_be_done_is_not_refused() -> None:
    assert refusal(Ask({"matcher": 64, "accesspoint": 1}, ("exitpoint-1",)), OLD) is None


def names(layer: Layer) -> st.SearchStrategy[list[str]]:
    return st.lists(st.integers(1, 12).map(lambda n: f"{layer}-{n}"), min_size=1, max_size=6, unique=True)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Ask, Configuration, dict[str, Registration]]:
    layers = {layer: tuple(draw(names(layer))) for layer in CONFIGURED_LAYERS}
    configuration = Configuration(3, layers["accesspoint"], layers["matcher"], layers["exitpoint"])
    configured = [name for each in layers.values() for name in each]
    everybody = [f"{layer}-{n}" for layer in CONFIGURED_LAYERS for n in range(1, 13)]
    there = draw(st.lists(st.sampled_from(everybody), unique=True))
    numbers = draw(st.dictionaries(st.sampled_from(CONFIGURED_LAYERS), st.integers(1, 8)))
    replaced = tuple(draw(st.lists(st.sampled_from(configured), unique=True, max_size=4)))
    return Ask(numbers, replaced), configuration, dict(registered(*there).slices)


@given(cases())
def test_any_placement_is_what_was_asked_for_with_as_few_changes_as_possible(
    case: tuple[Ask, Configuration, dict[str, Registration]],
) -> None:
    ask, configuration, slices = case
    placement = place(ask, configuration, slices)
    for layer in CONFIGURED_LAYERS:
        old, new = configuration.of_layer(layer), placement.layers[layer]
        assert len(new) == ask.layers.get(layer, len(old))
        assert len(set(new)) == len(new)
        assert not set(new) & set(ask.replace)
        stay = [name for name in old if name in new]
        assert stay == [name for name in new if name in old]
        # Whoever need not leave stays, and nobody comes who is not needed.
        may_stay = [name for name in old if name not in ask.replace]
        assert len(stay) == min(len(may_stay), len(new))
        # A name is wanted only when no spare is left.
        spares = {name for name, each in slices.items() if each.layer == layer and name not in old}
        wanted = [name for name in new if name in placement.wants]
        assert not wanted or spares <= set(new)
        assert set(wanted) == {name for name in new if name not in old and name not in slices}
    assert place(ask, configuration, slices) == placement


@given(cases())
def test_when_everybody_who_is_wanted_registers_the_placement_stays_the_same_set(
    case: tuple[Ask, Configuration, dict[str, Registration]],
) -> None:
    ask, configuration, slices = case
    before = place(ask, configuration, slices)
    after = place(ask, configuration, {**slices, **registered(*before.wants).slices})
    assert after.wants == ()
    for layer in CONFIGURED_LAYERS:
        assert set(after.layers[layer]) == set(before.layers[layer])
