"""What a connection point tells its ingress log of the registered ones, as ZooKeeper tells it."""

from collections.abc import Collection
from pathlib import Path

import pytest

from braid.config import Settings
from braid.coordination_events import Registered, SessionExpired, SlicesChanged
from braid.topology import Layer, Registration
from services.connpoint.shell import ConnPoint


def registration(name: str, incarnation: int, layer: Layer = "connpoint") -> Registration:
    return Registration(name, layer, "127.0.0.1:1", "127.0.0.1:2", 1, incarnation, "0")


async def test_who_is_registered_while_this_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[list[str]] = []

    def on_connpoints(registered: Collection[str]) -> None:
        told.append(sorted(registered))

    point = ConnPoint("connpoint-1", Settings.model_validate({"cluster": {"data": tmp_path}}), 0)
    monkeypatch.setattr(point._log, "on_connpoints", on_connpoints)
    own, other = registration("connpoint-1", point.incarnation), registration("connpoint-2", 5)
    predecessor = registration("connpoint-1", point.incarnation - 1)
    matcher = registration("matcher-1", 5, "matcher")
    both = {one.name: one for one in (own, other, matcher)}
    for event in (
        SlicesChanged({one.name: one for one in (predecessor, other)}),
        Registered(own),
        SlicesChanged(both),
        SessionExpired(),
        Registered(own),  # nobody came or went meanwhile, so nothing else is told
        SlicesChanged({"connpoint-1": own}),
    ):
        point._on_event(event)
    names = ["connpoint-1", "connpoint-2"]
    assert told == [[], [], names, [], names, ["connpoint-1"]]
    await point.links.close()
