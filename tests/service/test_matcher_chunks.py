"""A matcher to which much comes at once from another one goes on with everything else meanwhile."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from braid.codec import PROTOCOL, PROTOCOL_VERSION, Hello
from braid.config import load
from braid.messages import AddMatcherState
from services.matcher.shell import Matcher


async def test_chunks_are_taken_in_their_order_a_few_in_each_turn_of_the_event_loop(tmp_path: Path) -> None:
    settings = load(overrides={"cluster": {"data": tmp_path, "zookeeper": "127.0.0.1:1"}}).settings
    matcher: Any = Matcher("matcher-1", settings, 0)
    taken: list[tuple[str, int]] = []

    def take(sender: str, chunk: AddMatcherState) -> list[Any]:
        taken.append((sender, chunk.chunk))
        return []

    matcher._core = SimpleNamespace(scaling=SimpleNamespace(on_add_matcher_state=take))
    peer = Hello(PROTOCOL, PROTOCOL_VERSION, "braid", "matcher-2", "matcher", 1)
    matcher.handle(peer, AddMatcherState, [AddMatcherState(2, number, [], [], {}, "") for number in range(1, 7)])
    counts = []
    for number in range(7, 10):
        counts.append(len(taken))
        matcher.handle(peer, AddMatcherState, [AddMatcherState(2, number, [], [], {}, "")])
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert counts == [0, 4, 8]
    assert taken == [("matcher-2", number) for number in range(1, 10)]
    await asyncio.to_thread(matcher._store.shutdown)
