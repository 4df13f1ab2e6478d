"""All links of one slice: the ones it accepts from upstream, and the ones it keeps open to downstream slices.

A downstream slice that is gone is dialled again with backoff. Messages for it are held meanwhile, up to a bound that
a link that comes can take at once; what does not fit is dropped and counted, and the retry loop brings it again. So it
does with what is held for a slice that registers at another address, which is a new target.

A slice may hear of a configuration before it hears who has registered. What it sends to a new slice is held then, too,
but not for long: whoever registers much later is another process than the one that was meant.
"""

import asyncio
import random
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Protocol

import structlog

from braid import metrics
from braid.codec import Hello, encode_frames
from braid.config import Links
from braid.link import Link
from braid.messages import AnyMessage

log = structlog.get_logger()

AWAITED_S_MAX = 2.0  # how long messages for a slice are held when nobody knows where it is


class LinksOwner(Protocol):
    """The slice. Called on the event loop; must not block."""

    def on_peer_up(self, peer: Hello) -> None: ...
    def on_peer_down(self, peer: Hello) -> None: ...
    def on_messages(self, peer: Hello, messages: list[AnyMessage]) -> None: ...


class _Target:
    """A downstream slice that should be linked."""

    def __init__(self) -> None:
        self.address = ""  # where it is, once that is known
        self.giving_up: asyncio.TimerHandle | None = None  # until then
        self.link: Link | None = None  # also while it is being made
        self.task: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()
        self.held: list[bytes] = []
        self.held_messages = 0
        self.held_bytes = 0

    def stop_waiting(self) -> None:
        if self.giving_up is not None:
            self.giving_up.cancel()
            self.giving_up = None


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
        self._gone: set[str] = set()  # those that were targets, and whose address is not known, or not any more
        self._accepted: dict[str, Link] = {}  # by the peer's name
        self._current: dict[str, Link] = {}  # by the peer's name: the link its owner was told of last
        self._all: set[Link] = set()
        self._congested: set[Link] = set()
        self._beating: asyncio.Task[None] | None = None
        self._answering = asyncio.Event()
        self._answering.set()

    async def listen(self, host: str, port: int) -> int:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._new_link, host, port)
        self._beating = asyncio.create_task(self._beat())
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def _new_link(self, target: _Target | None = None) -> Link:
        link = Link(self, self._hello, self._limits)
        if target is not None:
            target.link = link
        return link

    # Targets

    def retarget(self, addresses: Mapping[str, str], awaited: Collection[str] = ()) -> None:
        """From now on, keep links to exactly these slices, and to the awaited ones once it is known where they are.

        For these messages are held until then, for a short time, unless it was known before: then they are gone.
        """
        loop = asyncio.get_running_loop()
        for name, target in list(self._targets.items()):
            is_awaited = not target.address and (name in awaited or name in addresses)
            if not is_awaited and addresses.get(name) != target.address:
                self._drop_target(name)
                self._gone.add(name)
        self._gone.intersection_update(awaited)
        for name in (*addresses, *(name for name in awaited if name not in self._gone)):
            if name not in self._targets:
                if name in self._accepted:
                    self._accepted[name].resume_reading()  # from now on both sides send
                target = self._targets[name] = _Target()
                target.giving_up = loop.call_later(AWAITED_S_MAX, self._give_up, name, target)
        for name, address in addresses.items():
            target = self._targets[name]
            if not target.address:
                target.address = address
                target.stop_waiting()
                target.task = asyncio.create_task(self._keep_linked(name, target))

    def _give_up(self, name: str, target: _Target) -> None:
        """From now on what is sent to it is dropped, as for one that is gone, until it registers."""
        log.info("not registered; what was held for it is dropped", peer=name, messages=target.held_messages)
        metrics.MESSAGES_DROPPED.labels(self._hello.layer, "not linked").inc(target.held_messages)
        self._drop_target(name)
        self._gone.add(name)

    def _drop_target(self, name: str) -> None:
        target = self._targets.pop(name)
        target.stop_waiting()
        if target.task is not None:
            target.task.cancel()
        if target.link is not None:
            target.link.finish("no longer needed")

    async def _keep_linked(self, name: str, target: _Target) -> None:
        host, _, port = target.address.rpartition(":")
        backoff_s = self._limits.backoff_s_min
        loop = asyncio.get_running_loop()
        while True:
            await self._answering.wait()
            target.lost.clear()
            try:
                await loop.create_connection(partial(self._new_link, target), host, int(port))
            except OSError as error:
                log.debug("not linked", peer=name, address=target.address, reason=str(error))
            else:
                started = loop.time()
                await target.lost.wait()
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
            link.send(self._encode(to, messages))
        elif target is None or not self._hold(to, target, messages):
            metrics.MESSAGES_DROPPED.labels(self._hello.layer, "not linked").inc(len(messages))

    def _hold(self, to: str, target: _Target, messages: list[Any]) -> bool:
        """Whether there is room for them until the link is there."""
        if target.held_messages + len(messages) > self._held_messages_max:
            return False
        frames = self._encode(to, messages)
        size = sum(map(len, frames))
        if target.held_bytes + size > self._limits.buffer_bytes_max:
            return False
        target.held += frames
        target.held_messages += len(messages)
        target.held_bytes += size
        return True

    def _encode(self, to: str, messages: list[Any]) -> list[bytes]:
        try:
            return encode_frames(messages, self._limits.frame_bytes_max)
        except ValueError as error:
            if len(messages) > 1:
                return [frame for message in messages for frame in self._encode(to, [message])]
            log.error("a message is too long", peer=to, reason=str(error))
            metrics.MESSAGES_DROPPED.labels(self._hello.layer, "too long").inc()
            return []

    # Owner of the links

    def on_connected(self, link: Link) -> None:
        self._all.add(link)

    def on_link_up(self, link: Link) -> None:
        peer = link.peer
        assert peer is not None
        target = self._target_of(link)
        if not self._answering.is_set():
            link.close("this slice is not registered")
            return
        if target is not None and target is not self._targets.get(peer.name):
            link.close(f"expected another slice at this address than {peer.name}")
            return
        if target is None:
            before = self._accepted.get(peer.name)
            self._accepted[peer.name] = link
            if before is not None:
                before.close("replaced by a newer link of the same slice")
            if self._congested and self._pause_upstream and peer.name not in self._targets:
                link.pause_reading()
        log.info("linked", peer=peer.name, remote=link.remote)
        self._current[peer.name] = link
        if target is not None and target.held:
            held, target.held, target.held_messages, target.held_bytes = target.held, [], 0, 0
            link.send(held)  # before anything that the owner sends because the peer is there
        self._owner.on_peer_up(peer)

    def _target_of(self, link: Link) -> _Target | None:
        return next((target for target in self._targets.values() if target.link is link), None)

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
        target = self._target_of(link)
        if target is not None:
            target.lost.set()
        peer = link.peer
        if peer is None:
            log.warning("link refused", remote=link.remote, reason=reason)
            return
        log.info("link lost", peer=peer.name, remote=link.remote, reason=reason)
        metrics.LINKS_LOST.labels(self._hello.layer).inc()
        if self._accepted.get(peer.name) is link:
            del self._accepted[peer.name]
        if self._current.get(peer.name) is link:
            # Not the end of a link that was refused, or that a newer one of the same peer has replaced.
            del self._current[peer.name]
            self._owner.on_peer_down(peer)

    def on_congestion(self, link: Link, congested: bool) -> None:
        """Backpressure: while a downstream link is full, upstream is not read.

        But for peers that are targets too, as matchers are for each other: two that do not read each other because
        what they send is not read would never go on. What these send is bounded by what they have under way.
        """
        if congested and self._pause_upstream and self._target_of(link) is not None:
            if not self._congested:
                metrics.BACKPRESSURE.labels(self._hello.layer).inc()
                for name, upstream in self._accepted.items():
                    if name not in self._targets:
                        upstream.pause_reading()
            self._congested.add(link)
        elif link in self._congested:
            # Also when it is no target any more, or upstream would never be read again.
            self._congested.discard(link)
            if not self._congested:
                for upstream in self._accepted.values():
                    upstream.resume_reading()

    # Life

    def stop_answering(self, reason: str) -> None:
        """Without a registration this slice is not part of the cluster: no link, no answer."""
        self._answering.clear()
        for link in list(self._all):
            link.close(reason)

    def answer_again(self) -> None:
        self._answering.set()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._limits.heartbeat_s)
            for link in list(self._all):
                link.beat()
            metrics.LINK_UNSENT_BYTES.labels(self._hello.layer).set(self.unsent_bytes)

    @property
    def unsent_bytes(self) -> int:
        """Queued on all links."""
        return sum(link.unsent_bytes for link in self._all)

    async def close(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
        for name in list(self._targets):
            self._drop_target(name)
        if self._server is not None:
            self._server.close()
        for link in list(self._all):
            link.close("this slice is stopping")
