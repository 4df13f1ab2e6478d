"""Virtual time, and FIFO links that delay, break and come back, all from one seed."""

import heapq
import random
from collections.abc import Callable, Collection
from typing import Any

_DIAL_DEAD_WITHIN_S = 0.6

Stalls = Callable[[list[Any]], float]  # how long these messages take on average; 0 for as usual


class Scheduler:
    """Runs callbacks in the order of virtual time; equal times in the order they were asked for."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now_s = 0.0
        self.tick_s = 0.1  # how often processes look at the time
        self.transcript: list[str] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._asked = 0

    def at(self, delay_s: float, call: Callable[[], None]) -> None:
        self._asked += 1
        heapq.heappush(self._queue, (self.now_s + delay_s, self._asked, call))

    def run_until(self, end_s: float) -> None:
        while self._queue and self._queue[0][0] <= end_s:
            self.now_s, _, call = heapq.heappop(self._queue)
            call()
        self.now_s = end_s

    def note(self, text: str) -> None:
        self.transcript.append(f"{self.now_s:9.3f}  {text}")


class Node:
    """A simulated process: what the shells of the layers do, without sockets."""

    name: str
    layer: str
    incarnation = 0
    alive = False
    answers = False  # whoever links to it

    def on_messages(self, sender: "Node", batch: list[Any]) -> None:
        raise NotImplementedError

    def on_peer_up(self, peer: "Node") -> None: ...
    def on_peer_down(self, peer: "Node") -> None: ...


class Network:
    """One link per pair of nodes that talk. The dialler's incarnation and the target's make a link what it is."""

    def __init__(self, scheduler: Scheduler, held_messages_max: int, stalls: Stalls) -> None:
        self._scheduler = scheduler
        self._held_messages_max = held_messages_max
        self._stalls = stalls
        self._links: dict[frozenset[str], Link] = {}

    def keep_linked(self, dialler: Node, target: Node, hold: bool) -> None:
        key = frozenset((dialler.name, target.name))
        if key not in self._links:
            held_max = self._held_messages_max if hold else 0
            self._links[key] = Link(self._scheduler, dialler, target, held_max, self._stalls)
        self._links[key].dial()

    def send(self, sender: Node, to: str, messages: list[Any]) -> None:
        link = self._links.get(frozenset((sender.name, to)))
        if link is not None:
            link.send(sender, messages)

    def lose(self, node: Node) -> None:
        for link in self._links.values():
            if node in (link.dialler, link.target):
                link.break_now()

    def drop(self, dialler: Node, layer: str, kept: Collection[str]) -> None:
        """The dialler does not need the others of this layer any more."""
        for link in self._links.values():
            if link.dialler is dialler and link.target.layer == layer and link.target.name not in kept:
                link.break_now()

    def break_any(self, layer: str = "", *, among: str = "") -> None:
        """Any link, or any to or from a layer, or any among the slices of one."""
        links = [link for link in self._links.values() if layer in link.label and link.is_among(among)]
        if not links:
            return
        link = self._scheduler.random.choice(sorted(links, key=lambda link: link.label))
        self._scheduler.note(f"link breaks: {link.label}")
        link.break_now()


class Link:
    def __init__(
        self, scheduler: Scheduler, dialler: Node, target: Node, held_messages_max: int, stalls: Stalls
    ) -> None:
        self._scheduler = scheduler
        self._stalls = stalls
        self._held_messages_max = held_messages_max
        self._held: list[Any] = []
        self._connection = 0  # which connection; what was sent on an older one never arrives
        self._is_up = False
        self._dialling = False
        self._arrives_s: dict[str, float] = {}
        self.dialler = dialler
        self.target = target
        self.label = f"{dialler.name} - {target.name}"

    def is_among(self, layer: str) -> bool:
        return not layer or self.dialler.layer == self.target.layer == layer

    def dial(self, within_s: float = 0.2) -> None:
        if self._is_up or self._dialling:
            return
        self._dialling = True
        self._scheduler.at(self._scheduler.random.uniform(0.01, within_s), self._connect)

    def _connect(self) -> None:
        self._dialling = False
        if self._is_up:
            return
        if not all(node.alive and node.answers for node in (self.dialler, self.target)):
            self.dial(_DIAL_DEAD_WITHIN_S)
            return
        self._is_up = True
        self._connection += 1
        self._arrives_s = {self.dialler.name: 0.0, self.target.name: 0.0}
        held, self._held = self._held, []
        if held:
            self.send(self.dialler, held)  # before anything that is sent because the peer is there
        self.target.on_peer_up(self.dialler)
        self.dialler.on_peer_up(self.target)

    def break_now(self) -> None:
        was_up, self._is_up = self._is_up, False
        if not self.dialler.alive:
            self._held = []
        if was_up:
            self.target.on_peer_down(self.dialler)
            self.dialler.on_peer_down(self.target)
        self.dial()

    def send(self, sender: Node, messages: list[Any]) -> None:
        if not self._is_up:
            if sender is self.dialler and len(self._held) + len(messages) <= self._held_messages_max:
                self._held += messages
            return
        receiver = self.target if sender is self.dialler else self.dialler
        random = self._scheduler.random
        mean_s = self._stalls(messages) or 0.01
        arrival_s = self._scheduler.now_s + random.expovariate(1 / mean_s)
        arrival_s = max(arrival_s, self._arrives_s[sender.name])  # FIFO
        self._arrives_s[sender.name] = arrival_s
        connection = self._connection

        def arrive() -> None:
            if self._is_up and self._connection == connection and receiver.alive:
                receiver.on_messages(sender, messages)

        self._scheduler.at(arrival_s - self._scheduler.now_s, arrive)
