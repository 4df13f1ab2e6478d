"""What a matcher remembers for `prev`, on its way to those that have some of its subscriptions from the new epoch on.

First all chains, then in passes those that have changed since, and when this matcher has answered the old epoch for the
last time, what is left, with a word that it is the last. Whoever gets it answers nothing of the new epoch before
(`taking_previous.py`), so little must be left then. From then on the chains are as they were at the cut, whatever is
remembered or forgotten here behind it.

A receiver has what it is given in memory until it has the last one, and may lose it in a crash. So when a link comes up
and the last one is not acknowledged, everything is sent once more; when it is, the word alone.

Bounded: a part, the parts under way to each receiver, and by the bounds of what is remembered.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec

from braid.messages import HandOverPrevious, Send

PART_TOPICS_MAX = 500
PART_BYTES_MAX = 256 * 1024
PARTS_UNDER_WAY_MAX = 4


class _Receiver(msgspec.Struct):
    waiting: dict[str, None] = msgspec.field(default_factory=dict)  # topics, in the order in which they go
    under_way: set[int] = msgspec.field(default_factory=set)
    parts: int = 0
    first: int = 1  # since the link came up
    copied_at: int | None = None  # the part that ended the first copy, when it was sent
    last: int = 0  # the part that says so, when it was sent
    is_done: bool = False  # and was acknowledged

    @property
    def has_room(self) -> bool:
        return len(self.under_way) < PARTS_UNDER_WAY_MAX


class HandingPrevious:
    def __init__(
        self, epoch: int, receivers: Iterable[str], topics: Iterator[str], chain_of: Callable[[str], bytes | None]
    ) -> None:
        """`chain_of` says what is remembered now; none when it was forgotten."""
        self._epoch = epoch
        self._receivers = {name: _Receiver() for name in receivers}
        self._chain_of = chain_of
        self._unread: dict[str, None] = dict.fromkeys(topics)  # topics that have changed since they were looked at
        self._chains: dict[str, bytes] = {}  # as they were when they were looked at
        self._in_pass = True
        self._has_copied = False  # everything was looked at once
        self._is_finishing = False

    @property
    def is_copied(self) -> bool:
        """Everybody has everything but what has changed meanwhile."""
        return self._has_copied and all(
            one.copied_at is not None and not any(part <= one.copied_at for part in one.under_way)
            for one in self._receivers.values()
        )

    @property
    def is_finishing(self) -> bool:
        return self._is_finishing

    @property
    def is_done(self) -> bool:
        return all(one.is_done for one in self._receivers.values())

    @property
    def wants_to_go_on(self) -> bool:
        if self._in_pass and (self._unread or not self._has_copied):
            return True
        return any(one.has_room and self._has_something(one) for one in self._receivers.values())

    def on_changed(self, topics: Iterable[str]) -> None:
        if not self._is_finishing:
            self._unread.update(dict.fromkeys(topics))

    def on_cleared(self) -> None:
        """Nobody looks back any more."""
        if not self._is_finishing:
            self._unread.clear()
            self._chains.clear()

    def begin_pass(self) -> None:
        """What has changed since the last one goes."""
        self._in_pass = True

    def finish(self) -> None:
        """The old epoch is answered no more."""
        self._read(len(self._unread))
        self._is_finishing = True

    def go_on(self) -> list[Send]:
        """Looks at some chains, and sends some: no more than one part to each."""
        if self._in_pass:
            self._read(PART_TOPICS_MAX)
        sends = []
        for name, one in self._receivers.items():
            if one.has_room and self._has_something(one):
                sends.append(Send(name, [self._next_part(one)]))
            if self._has_copied and not one.waiting and one.copied_at is None:
                one.copied_at = one.parts
        return sends

    def on_handed_over(self, receiver: str, number: int) -> None:
        one = self._receivers.get(receiver)
        if one is not None:
            one.under_way.discard(number)
            one.is_done = one.is_done or 0 < one.last == number

    def on_receiver_up(self, receiver: str) -> None:
        one = self._receivers.get(receiver)
        if one is not None:
            one.under_way.clear()
            one.first, one.last = one.parts + 1, 0
            if not one.is_done:
                one.waiting, one.copied_at = dict.fromkeys(self._chains), None

    def _read(self, most: int) -> None:
        for topic in list(islice(self._unread, most)):
            del self._unread[topic]
            chain = self._chain_of(topic)
            if chain is None:
                self._chains.pop(topic, None)
            elif chain != self._chains.get(topic):
                self._chains[topic] = chain
                for one in self._receivers.values():
                    one.waiting.pop(topic, None)
                    one.waiting[topic] = None
        if not self._unread:
            self._in_pass, self._has_copied = False, True

    def _has_something(self, one: _Receiver) -> bool:
        return bool(one.waiting) or (self._is_finishing and not one.last)

    def _next_part(self, one: _Receiver) -> HandOverPrevious:
        chains: dict[str, bytes] = {}
        size = 0
        while one.waiting and len(chains) < PART_TOPICS_MAX and size < PART_BYTES_MAX:
            topic = next(iter(one.waiting))
            del one.waiting[topic]
            if topic in self._chains:
                chains[topic] = self._chains[topic]
                size += len(topic) + len(chains[topic])
        one.parts += 1
        one.under_way.add(one.parts)
        is_last = self._is_finishing and not one.waiting
        if is_last:
            one.last = one.parts
        return HandOverPrevious(self._epoch, one.parts, one.first, chains, is_last)
