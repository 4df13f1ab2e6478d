"""All links of one slice: the ones it accepts from upstream, and the ones it keeps open to downstream slices.

A downstream slice that is gone is dialled again with backoff. Messages for it are held meanwhile, up to a bound;
what does not fit is dropped and counted, and the retry loop brings it again.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any, Protocol

import structlog

from braid import metrics
from braid.codec import Hello
from braid.config import Links
from braid.link import Link
from braid.messages import AnyMessage

log = structlog.get_logger()


class LinksOwner(Protocol):
    """The slice. Called on the event loop; must not block."""

    def on_peer_up(self, peer: Hello) -> None: ...
    def on_peer_down(self, peer: Hello) -> None: ...
    def on_messages(self, peer: Hello, messages: list[AnyMessage]) -> None: ...


class _Target:
    """A downstream slice that should be linked."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.link: Link | None = None
        self.task: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()
        self.held: list[list[Any]] = []
        self.held_messages = 0


class LinkPool:
    def __init__(
        self,
        owner: LinksOwner,
        hello: Hello,
        limits: Links,
        *,
        pause_upstream: bool = False,
        held_messages_max: int = 0,
    ) -> None:
        self._owner = owner
        self._hello = hello
        self._limits = limits
        self._pause_upstream = pause_upstream
        self._held_messages_max = held_messages_max
        self._server: asyncio.Server | None = None
        self._targets: dict[str, _Target] = {}
        self._accepted: dict[str, Link] = {}  # by the peer's name
        self._all: set[Link] = set()
        self._congested: set[Link] = set()
        self._beating: asyncio.Task[None] | None = None
        self._accepting = True

    async def listen(self, host: str, port: int) -> int:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._new_link, host, port)
        self._beating = asyncio.create_task(self._beat())
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def _new_link(self) -> Link:
        link = Link(self, self._hello, self._limits)
        self._all.add(link)
        return link

    # Targets

    def retarget(self, addresses: Mapping[str, str]) -> None:
        """From now on, keep links to exactly these slices."""
        for name in [name for name, target in self._targets.items() if addresses.get(name) != target.address]:
            self._drop_target(name)
        for name, address in addresses.items():
            if name not in self._targets:
                target = self._targets[name] = _Target(address)
                target.task = asyncio.create_task(self._keep_linked(name, target))

    def _drop_target(self, name: str) -> None:
        target = self._targets.pop(name)
        if target.task is not None:
            target.task.cancel()
        if target.link is not None:
            target.link.close("no longer needed")

    async def _keep_linked(self, name: str, target: _Target) -> None:
        host, _, port = target.address.rpartition(":")
        backoff_s = self._limits.backoff_s_min
        loop = asyncio.get_running_loop()
        while True:
            target.lost.clear()
            try:
                _, link = await loop.create_connection(self._new_link, host, int(port))
            except OSError as error:
                log.debug("not linked", peer=name, address=target.address, reason=str(error))
            else:
                target.link = link
                started = loop.time()
                await target.lost.wait()
                target.link = None
                if loop.time() - started > self._limits.backoff_s_max:
                    backoff_s = self._limits.backoff_s_min
            await asyncio.sleep(backoff_s * random.uniform(0.5, 1.0))
            backoff_s = min(backoff_s * 2, self._limits.backoff_s_max)

    def is_linked(self, name: str) -> bool:
        target = self._targets.get(name)
        return target is not None and target.link is not None and target.link.is_open

    # Sending

    def send(self, to: str, messages: list[Any]) -> None:
        target = self._targets.get(to)
        link = target.link if target is not None else self._accepted.get(to)
        if link is not None and link.is_open:
            link.send(messages)
        elif target is not None and target.held_messages + len(messages) <= self._held_messages_max:
            target.held.append(messages)
            target.held_messages += len(messages)
        else:
            metrics.MESSAGES_DROPPED.labels(self._hello.layer, "not linked").inc(len(messages))

    # Owner of the links

    def on_link_up(self, link: Link) -> None:
        peer = link.peer
        assert peer is not None
        target = next((t for t in self._targets.values() if t.link is link), None)
        wanted = self._targets.get(peer.name)
        if target is None and wanted is not None and wanted.link is None:
            # The connection is there before create_connection returned to `_keep_linked`.
            target = wanted
            target.link = link
        if target is not None and target is not wanted:
            link.close(f"expected another slice at this address than {peer.name}")
            return
        if target is None:
            if not self._accepting:
                link.close("this slice is not registered")
                return
            before = self._accepted.get(peer.name)
            self._accepted[peer.name] = link
            if before is not None:
                before.close("replaced by a newer link of the same slice")
            if self._congested and self._pause_upstream:
                link.pause_reading()
        log.info("linked", peer=peer.name, remote=link.remote)
        self._owner.on_peer_up(peer)
        if target is not None and target.held:
            held, target.held, target.held_messages = target.held, [], 0
            for messages in held:
                link.send(messages)

    def on_messages(self, link: Link, messages: list[AnyMessage]) -> None:
        assert link.peer is not None
        try:
            self._owner.on_messages(link.peer, messages)
        except Exception:
            # Our own mistake. The rest of the cluster must not suffer from it, and the retry loop sends again.
            log.exception("messages could not be handled", peer=link.peer.name, count=len(messages))
            metrics.MESSAGES_DROPPED.labels(self._hello.layer, "handler failed").inc(len(messages))

    def on_link_down(self, link: Link, reason: str) -> None:
        self._all.discard(link)
        self._congested.discard(link)
        for target in self._targets.values():
            if target.link is link:
                target.lost.set()
        peer = link.peer
        if peer is None:
            log.warning("link refused", remote=link.remote, reason=reason)
            return
        log.info("link lost", peer=peer.name, remote=link.remote, reason=reason)
        metrics.LINKS_LOST.labels(self._hello.layer).inc()
        if self._accepted.get(peer.name) is link:
            del self._accepted[peer.name]
        self._owner.on_peer_down(peer)

    def on_congestion(self, link: Link, congested: bool) -> None:
        """Backpressure: while a downstream link is full, upstream is not read."""
        if not self._pause_upstream or not any(t.link is link for t in self._targets.values()):
            return
        before = bool(self._congested)
        (self._congested.add if congested else self._congested.discard)(link)
        if bool(self._congested) != before:
            metrics.BACKPRESSURE.labels(self._hello.layer).inc(1 if congested else 0)
            for upstream in self._accepted.values():
                (upstream.pause_reading if congested else upstream.resume_reading)()

    # Life

    def stop_answering(self, reason: str) -> None:
        """Without a registration this slice is not part of the cluster: no link, no answer."""
        self._accepting = False
        for link in list(self._all):
            link.close(reason)

    def answer_again(self) -> None:
        self._accepting = True

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._limits.heartbeat_s)
            for link in list(self._all):
                link.beat()
            unsent = sum(link.unsent_bytes for link in self._all)
            metrics.LINK_UNSENT_BYTES.labels(self._hello.layer).set(unsent)

    async def close(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
        for name in list(self._targets):
            self._drop_target(name)
        if self._server is not None:
            self._server.close()
        for link in list(self._all):
            link.close("this slice is stopping")
