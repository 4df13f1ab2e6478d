"""Publishers between two exit points: who is told what was confirmed elsewhere, and for how long."""

from typing import Any

from msgspec.structs import replace

from braid.messages import Confirmed, ConfirmedElsewhere
from braid.topology import Change, Configuration, Phase, Target
from services.connpoint.ingress import IngressCore
from tests.core.ingress_cases import CONFIGURATION, EVEN, ODD, ORIGIN, SETTINGS, configured, publish


def changing(phase: Phase, exitpoints: tuple[str, ...] = ("exitpoint-2",), matchers: int = 1) -> Configuration:
    target = Target(2, CONFIGURATION.accesspoints, tuple(f"matcher-{n + 1}" for n in range(matchers)), exitpoints)
    return replace(CONFIGURATION, change=Change("scaling-1", phase, target, {}))


def told(core: IngressCore, *sequences: int, by: str = "exitpoint-1", origin: str = ORIGIN) -> list[tuple[str, Any]]:
    confirmed = core.on_confirmed(Confirmed(1, origin, list(sequences)))
    return [(send.to, message) for send in core.confirmed_elsewhere(confirmed, by) for message in send.messages]


def test_without_a_change_of_exit_points_nobody_is_told() -> None:
    core = configured()
    for configuration in (CONFIGURATION, changing("changing", ("exitpoint-1",), matchers=2)):
        core.on_configuration(configuration)
        publish(core, EVEN)
        publish(core, EVEN)
    assert told(core, 1) == told(core, 3) == []


def test_the_other_exit_points_are_told_of_batches_that_others_wait_for() -> None:
    core = configured()
    core.on_configuration(changing("changing", ("exitpoint-1", "exitpoint-2", "exitpoint-3")))
    for publisher in (EVEN, EVEN, ODD, EVEN):
        publish(core, publisher)
    # 3 is the only one of its publisher and 4 the last of its own: nothing can wait for them.
    message = ConfirmedElsewhere(2, ORIGIN, [1, 2])
    assert told(core, 1, 2, 3, 4) == [("exitpoint-2", message), ("exitpoint-3", message)]


def test_a_batch_that_is_confirmed_before_an_earlier_one_is_told_with_that_one() -> None:
    """What follows it would overtake the earlier one, which comes through another exit point."""
    core = configured()
    core.on_configuration(changing("changing", ("exitpoint-1", "exitpoint-2")))
    for _ in range(5):
        publish(core, EVEN)
    assert told(core, 4) == told(core, 3, 2) == []
    assert told(core, 1) == [("exitpoint-2", ConfirmedElsewhere(2, ORIGIN, [1, 2, 3, 4]))]
    assert told(core, 5) == []


def test_each_origin_is_told_of_by_itself() -> None:
    core = IngressCore(ORIGIN, SETTINGS)
    core.on_recovered([("connpoint-1.1", 5, EVEN, [b"a"], 40.0), ("connpoint-1.1", 6, EVEN, [b"b"], 40.0)], 50.0)
    core.on_configuration(changing("moving"))
    assert told(core, 5, by="exitpoint-2", origin="connpoint-1.1") == [
        ("exitpoint-1", ConfirmedElsewhere(1, "connpoint-1.1", [5]))
    ]


def test_it_is_told_until_everything_from_before_the_end_is_confirmed() -> None:
    core = configured()
    core.on_configuration(changing("ending"))
    publish(core, EVEN)
    publish(core, EVEN)
    core.on_configuration(Configuration(2, CONFIGURATION.accesspoints, ("matcher-1",), ("exitpoint-2",)))
    for _ in range(3):
        publish(core, EVEN)
    assert [to for to, _ in told(core, 1, by="exitpoint-2")] == ["exitpoint-1"]
    assert [to for to, _ in told(core, 2, by="exitpoint-2")] == ["exitpoint-1"]
    assert told(core, 3, by="exitpoint-2") == []  # accepted behind the end
    assert told(core, 4, by="exitpoint-2") == []


def test_a_change_that_was_given_up_is_an_end_too() -> None:
    core = configured()
    core.on_configuration(changing("moving"))
    publish(core, EVEN)
    core.on_configuration(CONFIGURATION)
    publish(core, EVEN)
    publish(core, EVEN)
    assert [to for to, _ in told(core, 1)] == ["exitpoint-2"]
    assert told(core, 2) == []
