"""The access point loads the matching engine when the first anchors come, and forgets none of them meanwhile."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from braid.codec import PROTOCOL, PROTOCOL_VERSION, Hello
from braid.config import Settings
from braid.coordination_events import CorruptConfiguration
from braid.messages import Anchors, AnchorsKnown, Send
from braid.topology import Configuration
from services.accesspoint import shell
from services.accesspoint.shell import AccessPoint

FIRST, SECOND = (Hello(PROTOCOL, PROTOCOL_VERSION, "braid", f"matcher-{n}", "matcher", 1) for n in (1, 2))


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The engine is loaded when this is set."""
    event = threading.Event()
    monkeypatch.setattr(shell, "warm", lambda: event.wait(10))
    yield event
    event.set()


class Watched(AccessPoint):
    """Keeps what it would send."""

    def __init__(self) -> None:
        super().__init__("accesspoint-1", Settings(), 0)
        self.sent: list[Any] = []

    def perform(self, effects: Any) -> None:
        self.sent += effects

    def hear(self, peer: Hello, part: int, *, begins: bool) -> None:
        self.handle(peer, Anchors, [Anchors(0, part, begins, True, ["filter:n = 1"], [])])

    async def warmed(self) -> None:
        assert self._warming is not None
        await asyncio.wait_for(asyncio.shield(self._warming), 10)


def known(peer: Hello, part: int) -> Send:
    return Send(peer.name, [AnchorsKnown(0, part)])


async def test_anchors_wait_for_the_engine_and_are_known_in_order(loaded: threading.Event) -> None:
    accesspoint = Watched()
    accesspoint.hear(FIRST, 1, begins=True)
    accesspoint.hear(SECOND, 1, begins=True)
    accesspoint.hear(FIRST, 2, begins=False)
    assert accesspoint.sent == []
    loaded.set()
    await accesspoint.warmed()
    assert accesspoint.sent == [known(FIRST, 1), known(SECOND, 1), known(FIRST, 2)]
    accesspoint.hear(SECOND, 2, begins=False)
    assert accesspoint.sent[3:] == [known(SECOND, 2)]


async def test_what_came_over_a_link_that_is_gone_does_not_count(loaded: threading.Event) -> None:
    accesspoint = Watched()
    accesspoint.hear(FIRST, 1, begins=True)
    accesspoint.hear(SECOND, 1, begins=True)
    accesspoint.on_peer_up(FIRST)
    accesspoint.hear(FIRST, 2, begins=True)
    loaded.set()
    await accesspoint.warmed()
    assert accesspoint.sent == [known(SECOND, 1), known(FIRST, 2)]


async def test_anchors_are_known_also_when_none_were_left_at_the_end_of_loading(loaded: threading.Event) -> None:
    """The link of the only matcher was lost meanwhile, and its new list comes a moment later."""
    accesspoint = Watched()
    accesspoint.hear(FIRST, 1, begins=True)
    accesspoint.on_peer_up(FIRST)
    loaded.set()
    await accesspoint.warmed()
    assert accesspoint.sent == []
    accesspoint.hear(FIRST, 2, begins=True)
    assert accesspoint.sent == [known(FIRST, 2)]


class Stored:
    """What stands in ZooKeeper; an error is raised."""

    def __init__(self, configuration: Configuration | Exception | None) -> None:
        self._configuration = configuration

    async def read_configuration(self) -> tuple[Configuration | None, int]:
        if isinstance(self._configuration, Exception):
            raise self._configuration
        return self._configuration, 1

    async def read_running_scaling(self) -> None:
        return None


@pytest.mark.parametrize(
    ("stored", "is_loaded"),
    [
        (None, False),
        (Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",)), False),
        (Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",), "anchored"), True),
        (CorruptConfiguration("its map is missing"), False),  # waits for one that can be read, instead of ending
    ],
)
async def test_the_engine_is_loaded_before_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, stored: Configuration | Exception | None, is_loaded: bool
) -> None:
    loads: list[bool] = []
    monkeypatch.setattr(shell, "warm", lambda: loads.append(True))
    accesspoint = Watched()
    accesspoint.coordination = Stored(stored)  # type: ignore[assignment]  # as much of it as is needed
    await accesspoint.prepare()
    assert loads == [True] * is_loaded
