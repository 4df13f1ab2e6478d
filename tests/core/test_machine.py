"""A table of transitions: what it lets happen, what it rejects, and how it is drawn."""

import enum

import pytest

from braid.machine import IllegalEvent, Machine, Transition, UndeclaredState, in_each, mermaid


class State(enum.Enum):
    CLOSED = "closed"
    WIDE_OPEN = "wide open"
    LOCKED = "locked"


class Push:
    def __init__(self, strength: int) -> None:
        self.strength = strength


class Lock:
    pass


class Slam:
    pass


class Door:
    def __init__(self) -> None:
        self.state = State.CLOSED

    def on_push(self, event: Push, needed: int) -> str:
        if event.strength >= needed:
            self.state = State.WIDE_OPEN
        return "pushed"

    def on_lock(self, _event: Lock, _needed: int) -> str:
        self.state = State.LOCKED
        return "locked"

    def on_slam(self, _event: Slam, _needed: int) -> str:
        return "slammed, but nothing moved"


MACHINE: Machine[State, str] = Machine(
    State.CLOSED,
    [
        Transition(State.CLOSED, Push, (State.CLOSED, State.WIDE_OPEN), "opens if the push is strong", Door.on_push),
        Transition(State.LOCKED, Push, (), "nothing moves", Door.on_push),
        Transition(State.WIDE_OPEN, Slam, (State.CLOSED,), "closes", Door.on_slam),
        *in_each((State.CLOSED, State.WIDE_OPEN), Lock, (State.LOCKED,), "locks", Door.on_lock),
    ],
)


def test_a_listed_event_is_handled_and_may_stay_where_that_is_declared() -> None:
    door = Door()
    assert MACHINE.step(door, Push(1), 2) == "pushed"
    assert door.state.value == "closed"
    MACHINE.step(door, Push(2), 2)
    assert door.state.value == "wide open"


def test_an_event_that_is_not_listed_is_rejected_and_changes_nothing() -> None:
    door = Door()
    with pytest.raises(IllegalEvent, match="while closed"):
        MACHINE.step(door, Slam(), 2)
    assert door.state is State.CLOSED


def test_a_handler_that_leads_elsewhere_than_declared_is_rejected() -> None:
    door = Door()
    MACHINE.step(door, Lock(), 0)
    with pytest.raises(UndeclaredState, match="while locked led to wide open"):
        MACHINE.step(door, Push(9), 1)  # a locked door must not open
    door.state = State.WIDE_OPEN
    with pytest.raises(UndeclaredState, match="while wide open led to wide open"):
        MACHINE.step(door, Slam(), 0)


def test_two_lines_for_the_same_state_and_event_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="Lock while closed stands there twice"):
        Machine(State.CLOSED, in_each((State.CLOSED, State.CLOSED), Lock, (), "locks", Door.on_lock))


def test_a_phrase_that_would_break_the_diagram_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="cannot show"):
        Transition(State.CLOSED, Lock, (), "locks: twice", Door.on_lock)


def test_the_diagram_shows_every_arrow_that_leads_elsewhere() -> None:
    assert mermaid(MACHINE, leave_out=[Lock]).splitlines() == [
        "stateDiagram-v2",
        '    state "wide open" as wide_open',
        "    [*] --> closed",
        "    closed --> wide_open: Push / opens if the push is strong",
        "    wide_open --> closed: Slam / closes",
    ]
    assert "    locked --> locked: Push / nothing moves" in mermaid(MACHINE, stays=True).splitlines()
