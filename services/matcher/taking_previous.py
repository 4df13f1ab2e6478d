"""What other matchers remember for `prev`, until it is merged with what this one does.

Subscriptions that say `prev` come from other matchers in a scaling, and what they look back to comes behind them. Until
the last part of every old matcher is there, no request of the new epoch may be answered: the publication before it may
be one that only the others know. Until then chains are kept apart, by sender, because what a sender remembers may be
ahead of what this matcher has seen of the old epoch, and lacks the attributes that are looked at here.

A part may be lost with a link, or have come to the process before this one. So the last one counts when every part is
there since the one that its sender began with; else it begins anew, on the next link.

Bounded: of each sender as many bytes as are remembered at all; beyond them the topic that it named first is forgotten.
"""

from collections.abc import Iterable

from braid.matching.previous import BYTES_MAX
from braid.messages import HandOverPrevious

_TOPIC_BYTES = 256


class TakingPrevious:
    def __init__(self, senders: Iterable[str]) -> None:
        self._chains: dict[str, dict[str, bytes]] = {}  # by sender and topic
        self._bytes: dict[str, int] = {}
        self._parts: dict[str, tuple[int, int]] = {}  # by sender, from where to where none is missing
        self._missing = set(senders)  # whose last one is not there
        self._taken: dict[str, int] = {}  # by sender, the last part that is to be acknowledged when all is merged
        self._gave_up = False
        self.forgotten = 0  # topics, for want of room

    @property
    def is_awaited(self) -> bool:
        return bool(self._missing) and not self._gave_up

    def give_up(self) -> None:
        """Nobody waits for the others any longer. What comes is taken nevertheless."""
        self._gave_up = True

    def take(self, sender: str, message: HandOverPrevious) -> None:
        chains = self._chains.setdefault(sender, {})
        for topic, chain in message.chains.items():
            before = chains.pop(topic, None)
            self._bytes[sender] = self._bytes.get(sender, 0) - (0 if before is None else _size(topic, before))
            chains[topic] = chain
            self._bytes[sender] += _size(topic, chain)
        while self._bytes.get(sender, 0) > BYTES_MAX:
            topic = next(iter(chains))
            self._bytes[sender] -= _size(topic, chains.pop(topic))
            self.forgotten += 1
        if self._is_whole(sender, message) and message.is_last:
            self._missing.discard(sender)
            self._taken[sender] = message.number

    def _is_whole(self, sender: str, message: HandOverPrevious) -> bool:
        first, last = self._parts.get(sender, (0, 0))
        if message.number != last + 1 or not last:
            first = message.number
        self._parts[sender] = first, message.number
        return first <= message.first

    def release(self, *, also_parts: bool = False) -> list[dict[str, bytes]]:
        """The chains of those whose last one is there, or of all; they are merged in the order of names."""
        senders = sorted(sender for sender in self._chains if also_parts or sender in self._taken)
        self._bytes = {sender: size for sender, size in self._bytes.items() if sender not in senders}
        return [self._chains.pop(sender) for sender in senders]

    def take_acknowledgements(self) -> dict[str, int]:
        """To be sent when what was released is on disk."""
        taken, self._taken = self._taken, {}
        return taken


def _size(topic: str, chain: bytes) -> int:
    return _TOPIC_BYTES + len(topic) + len(chain)
