"""The coordinator's decisions, with exact effects."""

import pytest

from braid.config import Slices
from braid.coordination_events import Deposed, Elected, ReportsChanged, ScalingChanged, SlicesChanged
from braid.machine import IllegalEvent
from braid.topology import Configuration, Layer, Registration
from braid.znodes import NO_VERSION
from coordinator.core import MACHINE, REMIND_S, RETRY_S, Coordinator, State
from coordinator.events import (
    AttemptFailed,
    ConfigurationRead,
    ConfigurationWritten,
    Effects,
    Event,
    Inform,
    ReadConfiguration,
    Sweep,
    Tick,
    WriteConfiguration,
)

DESIRED = Slices(connpoint=1, accesspoint=1, matcher=2, exitpoint=1)
ALL = ("accesspoint-1", "matcher-1", "matcher-2", "exitpoint-1")
FIRST = Configuration(1, ("accesspoint-1",), ("matcher-1", "matcher-2"), ("exitpoint-1",))
LEADING = Inform("leading", {})
IN_FORCE = Inform("configuration in force", {"epoch": 1})


def slices(*names: str) -> SlicesChanged:
    found = {}
    for name in names:
        layer: Layer = name.rpartition("-")[0]  # type: ignore[assignment]  # a layer by its name
        found[name] = Registration(name, layer, "h:1", "h:2", 1, 1, "0")
    return SlicesChanged(found)


def feed(core: Coordinator, *events: Event, now: float = 0.0) -> Effects:
    """The effects of the last one."""
    effects: Effects = []
    for event in events:
        effects = core.on_event(event, now)
    return effects


def test_the_first_configuration_is_written_when_every_desired_slice_is_there() -> None:
    core = Coordinator(DESIRED)
    assert feed(core, Elected()) == [LEADING, ReadConfiguration(1)]
    waiting = Inform("waiting for slices", {"missing": ALL})
    assert feed(core, ConfigurationRead(1, None, NO_VERSION)) == [waiting]
    assert feed(core, slices(*ALL[:3])) == []
    assert feed(core, slices(*ALL)) == [WriteConfiguration(2, FIRST, NO_VERSION)]
    assert feed(core, slices()) == []  # it is on its way, once
    assert feed(core, ConfigurationWritten(2, FIRST, 0)) == [IN_FORCE, Sweep(None)]
    assert core.state is State.IDLE


def test_slices_that_were_there_before_the_election_count() -> None:
    core = Coordinator(DESIRED)
    assert feed(core, slices(*ALL), Elected(), ConfigurationRead(1, None, NO_VERSION)) == [
        WriteConfiguration(2, FIRST, NO_VERSION)
    ]


def test_connection_points_are_not_waited_for_and_not_configured() -> None:
    core = Coordinator(Slices(connpoint=3))
    effects = feed(
        core,
        slices("accesspoint-1", "matcher-1", "exitpoint-1", "connpoint-7", "matcher-9"),
        Elected(),
        ConfigurationRead(1, None, NO_VERSION),
    )
    first = Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))
    assert effects == [WriteConfiguration(2, first, NO_VERSION)]


def test_whatever_is_registered_is_taken_in_the_desired_number() -> None:
    """Under an orchestrator nobody says which numbers slices have."""
    core = Coordinator(DESIRED)
    feed(core, Elected(), ConfigurationRead(1, None, NO_VERSION))
    some = ("accesspoint-3", "matcher-10", "exitpoint-2")
    assert feed(core, slices(*some), now=REMIND_S) == [
        Inform("waiting for slices", {"missing": ("matcher-1",)}),
    ]
    first = Configuration(1, ("accesspoint-3",), ("matcher-4", "matcher-10"), ("exitpoint-2",))
    assert feed(core, slices(*some, "matcher-4", "matcher-11")) == [WriteConfiguration(2, first, NO_VERSION)]


def test_a_configuration_of_other_names_is_no_reason_to_warn() -> None:
    core = Coordinator(DESIRED)
    others = Configuration(1, ("accesspoint-2",), ("matcher-5", "matcher-1"), ("exitpoint-9",))
    assert feed(core, Elected(), ConfigurationRead(1, others, 4)) == [IN_FORCE, Sweep(None)]


def test_a_configuration_that_exists_is_kept_without_waiting() -> None:
    core = Coordinator(DESIRED)
    assert feed(core, Elected(), ConfigurationRead(1, FIRST, 4)) == [IN_FORCE, Sweep(None)]
    assert feed(core, slices(*ALL)) == []
    assert core.state is State.IDLE


def test_a_configuration_of_other_slices_is_kept_too_with_a_warning() -> None:
    core = Coordinator(Slices(accesspoint=1, matcher=3, exitpoint=1))
    in_force, warning, sweep = feed(core, Elected(), ConfigurationRead(1, FIRST, 4))
    assert in_force == IN_FORCE
    assert isinstance(warning, Inform)
    assert warning.warning
    assert "braid scale" in warning.message
    assert warning.fields == {
        "layer": "matcher",
        "configured": ("matcher-1", "matcher-2"),
        "desired": 3,
    }
    assert sweep == Sweep(None)


def test_a_failed_write_reads_again_after_a_pause() -> None:
    core = Coordinator(DESIRED)
    feed(core, slices(*ALL), Elected(), ConfigurationRead(1, None, NO_VERSION))
    (inform,) = feed(core, AttemptFailed(2, "stale"))
    assert inform == Inform("will read the configuration again", {"reason": "stale"}, warning=True)
    assert feed(core, Tick(), now=RETRY_S / 2) == []
    assert feed(core, Tick(), now=RETRY_S) == [ReadConfiguration(3)]
    assert feed(core, Tick(), now=RETRY_S * 2) == []
    assert feed(core, ConfigurationRead(3, FIRST, 0)) == [IN_FORCE, Sweep(None)]


def test_missing_slices_are_mentioned_from_time_to_time() -> None:
    core = Coordinator(DESIRED)
    feed(core, Elected(), ConfigurationRead(1, None, NO_VERSION), slices(*ALL[:3]))
    assert feed(core, Tick(), now=REMIND_S - 1) == []
    assert feed(core, Tick(), now=REMIND_S) == [Inform("waiting for slices", {"missing": ("exitpoint-1",)})]
    assert feed(core, Tick(), now=REMIND_S + 1) == []


def test_a_deposed_coordinator_does_nothing_until_it_is_elected_again() -> None:
    core = Coordinator(DESIRED)
    feed(core, Elected(), ConfigurationRead(1, None, NO_VERSION), Deposed())
    assert core.state is State.STANDBY
    assert feed(core, slices(*ALL)) == []
    assert feed(core, Tick(), now=99) == []
    assert feed(core, Elected()) == [LEADING, ReadConfiguration(3)]


def test_answers_from_before_a_deposition_are_not_listened_to() -> None:
    core = Coordinator(DESIRED)
    feed(core, slices(*ALL), Elected(), Deposed(), Elected())
    assert feed(core, ConfigurationRead(1, None, NO_VERSION)) == []
    assert core.state is State.READING
    feed(core, ConfigurationRead(3, None, NO_VERSION))
    assert feed(core, ConfigurationWritten(2, FIRST, 0)) == []
    assert core.state.value == "waiting"


def test_what_cannot_happen_is_rejected_loudly_and_changes_nothing() -> None:
    core = Coordinator(DESIRED)
    for illegal in (Deposed(), ConfigurationRead(0, FIRST, 1), ConfigurationWritten(0, FIRST, 0)):
        with pytest.raises(IllegalEvent, match="standby"):
            core.on_event(illegal, 0.0)
    assert core.state is State.STANDBY


def test_an_answer_that_comes_twice_is_rejected() -> None:
    core = Coordinator(DESIRED)
    feed(core, slices(*ALL), Elected(), ConfigurationRead(1, None, NO_VERSION), ConfigurationWritten(2, FIRST, 0))
    with pytest.raises(IllegalEvent, match="while idle"):
        feed(core, ConfigurationWritten(2, FIRST, 0))


def test_every_state_listens_to_news_and_time() -> None:
    for state in State:
        for event in (SlicesChanged, ScalingChanged, ReportsChanged, Tick):
            assert MACHINE.handles(state, event)
