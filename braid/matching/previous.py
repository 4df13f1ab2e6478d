"""What `prev(attribute)` looks back to: of the latest publications on each topic, the attributes that are looked at.

A batch that is not confirmed is sent again, and must be judged as it was the first time: by what came before it, and
neither by itself nor by what came later. So of each topic those publications are kept, with their positions, that are
not known to be confirmed, and the one before them. One that comes again is found by its position; one that was
overtaken on its way takes its place before whatever its origin published later.

What others remembered is handed over as chains (`chains.py`), and merged bit by bit, at the latest when somebody looks.
Whoever keeps all of it on disk watches it, and takes what has changed.

Nothing else is kept, and only while some subscription looks back. Bounded: unconfirmed publications by the windows of
those who accepted them, topics by number, and everything by its bytes. The topic that was longest silent is forgotten
first, and what comes next on it has no previous publication.
"""

from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from braid.filters import Value
from braid.matching.chains import (
    Attributes,
    Chain,
    Position,
    Remembered,
    decode_attributes,
    encode_attributes,
    encode_chain,
    merged,
    read_chain,
    with_attributes,
)
from braid.matching.origins import Origins

TOPICS_MAX = 65_536
BYTES_MAX = 64 * 1024 * 1024
_TOPIC_BYTES = 256  # that a topic takes besides its name and its publications
_PUBLICATION_BYTES = 128  # that a publication takes besides its attributes


class Published(msgspec.Struct, gc=False):
    """What of a publication can be looked back to."""

    topic: str = ""
    attributes: dict[str, Value] = {}


class ChainChanges(msgspec.Struct, frozen=True):
    """What whoever keeps all chains on disk has to do."""

    chains: dict[str, bytes | None]  # by topic, as they are now; none: it was forgotten
    is_cleared: bool = False  # all others, and first


read_published = msgspec.json.Decoder(Published).decode


class PreviousPublications:
    def __init__(self) -> None:
        self._topics: OrderedDict[str, Chain] = OrderedDict()  # none is empty; the latest is the last
        self._origins = Origins()
        self._handed: dict[str, list[bytes]] = {}  # by topic, chains of others that are not merged yet
        self._changed: dict[str, None] | None = None  # topics, since somebody took them, if somebody does
        self._is_cleared = False
        self.bytes = 0
        self.forgotten = 0  # topics, for want of room

    def __len__(self) -> int:
        """Topics."""
        return len(self._topics)

    def clear(self) -> None:
        self._is_cleared = self._is_cleared or bool(self._topics or self._handed)
        self._topics.clear()
        self._origins.clear()
        self._handed.clear()
        if self._changed:
            self._changed.clear()
        self.bytes = 0

    # What is kept elsewhere too

    def watch(self) -> None:
        """From now on somebody takes what has changed."""
        self._changed = {}

    def take_changes(self) -> ChainChanges | None:
        if not self._changed and not self._is_cleared:
            return None
        chains = {topic: self.chain_of(topic) for topic in self._changed or ()}
        changes = ChainChanges(chains, self._is_cleared)
        self._changed, self._is_cleared = {}, False
        return changes

    def topics(self) -> Iterator[str]:
        """The one that was longest silent first. All of them, whatever comes meanwhile."""
        return iter(dict.fromkeys([*self._handed, *self._topics]))

    def chain_of(self, topic: str) -> bytes | None:
        chain = self._known(topic)
        return encode_chain(chain) if chain else None

    def restore(self, chains: Mapping[str, bytes]) -> None:
        """What whoever takes changes has had since the last start."""
        for topic, value in chains.items():
            self._put_chain(topic, read_chain(value))
        self._forget_what_is_too_much()

    def hand_over(self, chains: Mapping[str, bytes]) -> None:
        """What somebody else remembered until now. Merged when somebody looks, or by `merge_some`."""
        for topic, value in chains.items():
            self._handed.setdefault(topic, []).append(value)

    def merge_some(self, most: int) -> bool:
        """Whether some are left."""
        for topic in list(islice(self._handed, most)):
            self._known(topic)
        self._forget_what_is_too_much()
        return bool(self._handed)

    # What publications need

    def attributes_of(self, topic: str) -> Attributes | None:
        """Of the latest publication."""
        chain = self._known(topic)
        return decode_attributes(chain[-1].attributes) if chain else None

    def before_each(
        self, published: Sequence[Published], positions: Sequence[Position] | None = None
    ) -> list[Attributes | None]:
        """For each publication of a batch, the attributes of the one before it on the same topic."""
        latest: dict[str, Attributes] = {}  # of the batch itself
        before: list[Attributes | None] = []
        for number, each in enumerate(published):
            topic = each.topic
            if not topic:
                before.append(None)
                continue
            chain = self._known(topic) or []
            place = len(chain) if positions is None else self._place_of(chain, positions[number])
            if place < len(chain):
                before.append(decode_attributes(chain[place - 1].attributes) if place else None)
                continue
            before.append(latest[topic] if topic in latest else self.attributes_of(topic))
            latest[topic] = each.attributes
        return before

    def remember(
        self, published: Sequence[Published], looked_at: Container[str], positions: Sequence[Position] | None = None
    ) -> None:
        """Of each publication the attributes that are looked at."""
        for number, each in enumerate(published):
            if each.topic:
                attributes = {name: value for name, value in each.attributes.items() if name in looked_at}
                position = None if positions is None else positions[number]
                self._put(each.topic, Remembered(position, encode_attributes(attributes)))
        self._forget_what_is_too_much()

    def on_confirmed(self, name: str, watermark: int) -> None:
        """This origin sends nothing up to there again."""
        for topic in self._origins.on_confirmed(name, watermark):
            self._cut(topic)

    def _known(self, topic: str) -> Chain | None:
        """With what others have handed over of it."""
        if topic in self._handed:
            chain = self._topics.get(topic, [])
            for value in self._handed.pop(topic):
                chain = merged(chain, read_chain(value))
            self._put_chain(topic, chain)
            self._note(topic)
        return self._topics.get(topic)

    def _put_chain(self, topic: str, chain: Chain) -> None:
        """In the place of what is there."""
        before = self._topics.pop(topic, None)
        if before is not None:
            self.bytes -= _size_of(topic, before)
        if not chain:
            return
        self._topics[topic] = chain
        self.bytes += _size_of(topic, chain)
        self._origins.on_known([one.position for one in chain if one.position is not None], topic)
        self._cut(topic)

    def _note(self, topic: str) -> None:
        if self._changed is not None:
            self._changed[topic] = None

    def _put(self, topic: str, remembered: Remembered) -> None:
        chain = self._known(topic)
        if chain is None:
            chain = self._topics[topic] = []
            self.bytes += _TOPIC_BYTES + len(topic)
        self._topics.move_to_end(topic)
        position = remembered.position
        if position is None:
            self.bytes -= sum(map(_size, chain))
            chain.clear()
            chain.append(remembered)
        else:
            place = self._place_of(chain, position)
            if place < len(chain) and chain[place].position == position:
                self._add_attributes(topic, chain[place], remembered)
                return
            chain.insert(place, remembered)
            self._origins.on_published(position, topic)
        self.bytes += _size(remembered)
        self._note(topic)

    def _add_attributes(self, topic: str, known: Remembered, again: Remembered) -> None:
        """Whoever handed it over may have looked at others than are looked at here."""
        attributes = with_attributes(known.attributes, again.attributes)
        if attributes != known.attributes:
            self.bytes += len(attributes) - len(known.attributes)
            known.attributes = attributes
            self._note(topic)

    def _forget_what_is_too_much(self) -> None:
        while len(self._topics) > TOPICS_MAX or self.bytes > BYTES_MAX:
            topic, chain = self._topics.popitem(last=False)
            self.bytes -= _size_of(topic, chain)
            self.forgotten += 1
            self._note(topic)

    def _place_of(self, chain: Chain, position: Position) -> int:
        """Where it is, or belongs: before everything that its origin published later."""
        place = len(chain)
        if self._origins.is_new(position):
            return place
        for at in range(len(chain) - 1, -1, -1):
            other = chain[at].position
            if other is not None and other.origin == position.origin:
                if other < position:
                    break
                place = at
        return place

    def _cut(self, topic: str) -> None:
        """Nobody asks what came before a publication that is confirmed; but it may be what came before the next one."""
        chain = self._topics.get(topic, [])
        is_confirmed = self._origins.is_confirmed
        while len(chain) > 1 and is_confirmed(chain[0].position) and is_confirmed(chain[1].position):
            self.bytes -= _size(chain.pop(0))


def _size(remembered: Remembered) -> int:
    return _PUBLICATION_BYTES + len(remembered.attributes)


def _size_of(topic: str, chain: Iterable[Remembered]) -> int:
    return _TOPIC_BYTES + len(topic) + sum(map(_size, chain))
