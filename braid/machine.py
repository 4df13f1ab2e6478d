"""A state machine as a table: what may happen in which state, what it does, and where it may lead.

The table is the whole machine. An event that it does not list is rejected before anything happens; a handler that
ends in a state that it did not declare is rejected too, so the table and the diagram drawn from it cannot lie.
"""

import enum
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

S = TypeVar("S", bound=enum.Enum)
R = TypeVar("R")


class IllegalEvent(Exception):
    """An event that cannot happen in this state: a mistake of ours. Nothing was changed."""


class UndeclaredState(Exception):
    """A handler led to a state that its transition does not name: a mistake of ours."""


class Stateful(Protocol[S]):
    """Whoever is driven by a machine. Its handlers set the state."""

    state: S


@dataclass(frozen=True)
class Transition(Generic[S, R]):
    """One line of the table."""

    state: S
    event: type
    next_states: tuple[S, ...]  # every state that the handler may end in; empty: it stays
    does: str  # a short phrase for people
    handler: Callable[..., R]  # called with the owner, the event and whatever else the caller hands on

    def __post_init__(self) -> None:
        if any(sign in self.does for sign in ":;\n"):
            raise ValueError(f"a diagram cannot show the phrase {self.does!r}")

    def destinations(self) -> tuple[S, ...]:
        return self.next_states or (self.state,)


class Machine(Generic[S, R]):
    """All transitions, each pair of state and event at most once."""

    def __init__(self, initial: S, transitions: Iterable[Transition[S, R]]) -> None:
        self.initial = initial
        self.transitions = tuple(transitions)
        self._table: dict[tuple[S, type], Transition[S, R]] = {}
        for transition in self.transitions:
            key = transition.state, transition.event
            if key in self._table:
                raise ValueError(f"{transition.event.__name__} while {transition.state.value} stands there twice")
            self._table[key] = transition

    def handles(self, state: S, event: type) -> bool:
        return (state, event) in self._table

    def step(self, owner: Stateful[S], event: object, *arguments: Any) -> R:
        """Lets the owner handle the event, and checks where that led."""
        transition = self._table.get((owner.state, type(event)))
        if transition is None:
            raise IllegalEvent(f"{event} while {owner.state.value}")
        result = transition.handler(owner, event, *arguments)
        if owner.state not in transition.destinations():
            raise UndeclaredState(f"{event} while {transition.state.value} led to {owner.state.value}")
        return result


def in_each(
    states: Iterable[S], event: type, next_states: tuple[S, ...], does: str, handler: Callable[..., R]
) -> list[Transition[S, R]]:
    """The same transition from several states."""
    return [Transition(state, event, next_states, does, handler) for state in states]


def mermaid(machine: Machine[S, R], leave_out: Collection[type] = (), stays: bool = False) -> str:
    """A Mermaid state diagram: one arrow per event and destination; arrows back to the same state only if wanted."""
    states: list[S] = [machine.initial]
    arrows: list[str] = []
    for transition in machine.transitions:
        if transition.event in leave_out:
            continue
        for destination in transition.destinations():
            if destination is transition.state and not stays:
                continue
            states += [state for state in (transition.state, destination) if state not in states]
            label = f"{transition.event.__name__} / {transition.does}"
            arrows.append(f"    {_identifier(transition.state)} --> {_identifier(destination)}: {label}")
    named = [state for state in states if _identifier(state) != state.value]
    names = [f'    state "{state.value}" as {_identifier(state)}' for state in named]
    return "\n".join(["stateDiagram-v2", *names, f"    [*] --> {_identifier(machine.initial)}", *arrows])


def _identifier(state: enum.Enum) -> str:
    return "".join(character if character.isalnum() else "_" for character in str(state.value))
