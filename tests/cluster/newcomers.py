"""Subscriptions that are made all the time while publications flow, each with a ledger of its own.

From its acknowledgement on, a subscription must get every publication that it matches. What was published before may
come or not.
"""

import asyncio
import json
import time

from websockets.asyncio.client import ClientConnection

from tests.cluster.clients import SLOTS, Address, Publisher, socket

UNAVAILABLE = 503


class Newcomer:
    """One connection that makes one subscription after the other; waits for each acknowledgement."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.acknowledged: dict[str, tuple[int, float]] = {}  # id -> slot, when
        self.waits_s: list[float] = []
        self.received: dict[str, list[str]] = {}  # id of the subscription -> ids of publications
        self._answers: asyncio.Queue[str] = asyncio.Queue()

    async def run(self, address: Address, stop: asyncio.Event, pause_s: float) -> None:
        async with socket(address(), subscriber=self.name, temporary="true") as connection:
            asking = asyncio.create_task(self._subscribe(connection, stop, pause_s))
            try:
                async for text in connection:
                    frame = json.loads(text)
                    if frame["op"] == "subscribed":
                        self._answers.put_nowait(frame["id"])
                        continue
                    if frame["op"] == "error" and frame["problem"]["status"] == UNAVAILABLE:
                        # Nothing was promised: the matcher that would keep it was away for longer than a call waits.
                        self._answers.put_nowait("")
                        continue
                    assert frame["op"] == "notify", frame
                    for notification in frame["notifications"]:
                        for id in notification["subscriptions"]:
                            self.received.setdefault(id, []).append(notification["publication"]["id"])
            finally:
                asking.cancel()

    async def _subscribe(self, connection: ClientConnection, stop: asyncio.Event, pause_s: float) -> None:
        number = 0
        while not stop.is_set():
            slot = number % SLOTS
            number += 1
            asked_s = time.monotonic()
            request = {"op": "subscribe", "ref": number, "subscription": {"filter": f"slot = {slot}"}}
            await connection.send(json.dumps(request))
            id = await self._answers.get()
            if id:
                now_s = time.monotonic()
                self.acknowledged[id] = (slot, now_s)
                self.waits_s.append(now_s - asked_s)
            await asyncio.sleep(pause_s)

    def lost(self, publishers: list[Publisher]) -> list[str]:
        return [
            f"{publication} for {id} of {self.name}"
            for id, (slot, since_s) in self.acknowledged.items()
            for got in [set(self.received.get(id, ()))]
            for publisher in publishers
            for publication in publisher.of_slot(slot, since_s)
            if publication not in got
        ]

    def twice(self) -> list[str]:
        return [f"{len(got) - len(set(got))} to {id}" for id, got in self.received.items() if len(got) != len(set(got))]
