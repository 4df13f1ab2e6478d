"""What `prev(attribute)` looks back to: of the latest publications on each topic, the attributes that are looked at.

A batch that is not confirmed is sent again, and must be judged as it was the first time: by what came before it, and
neither by itself nor by what came later. So of each topic those publications are kept, with their positions, that are
not known to be confirmed, and the one before them. One that comes again is found by its position; one that was
overtaken on its way takes its place before whatever its origin published later.

Nothing else is kept, and only while some subscription looks back. Bounded: unconfirmed publications by the windows of
those who accepted them, topics by number, and everything by its bytes. The topic that was longest silent is forgotten
first, and what comes next on it has no previous publication.
"""

from collections import OrderedDict, deque
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

import msgspec

from braid.filters import Value

TOPICS_MAX = 65_536
BYTES_MAX = 64 * 1024 * 1024
ORIGINS_MAX = 4096  # each start of a connection point makes one; the one that was silent longest is forgotten
_TOPIC_BYTES = 256  # that a topic takes besides its name and its publications
_PUBLICATION_BYTES = 128  # that a publication takes besides its attributes

Attributes = Mapping[str, Value]


class Published(msgspec.Struct, gc=False):
    """What of a publication can be looked back to."""

    topic: str = ""
    attributes: dict[str, Value] = {}


class Position(NamedTuple):
    """Which publication it is, however often it comes."""

    origin: str
    sequence: int
    place: int


class _Remembered(msgspec.Struct, gc=False):
    position: Position | None  # none: it does not come again
    attributes: bytes


class _Origin(msgspec.Struct):
    watermark: int = 0  # everything up to it is confirmed
    latest: tuple[int, int] = (0, 0)  # sequence and place
    unconfirmed: deque[tuple[int, str]] = msgspec.field(default_factory=deque)  # sequences and topics, as they came


read_published = msgspec.json.Decoder(Published).decode
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Value]).decode


class PreviousPublications:
    def __init__(self) -> None:
        self._topics: OrderedDict[str, list[_Remembered]] = OrderedDict()  # none is empty; the latest is the last
        self._origins: OrderedDict[str, _Origin] = OrderedDict()
        self.bytes = 0
        self.forgotten = 0  # topics, for want of room

    def __len__(self) -> int:
        """Topics."""
        return len(self._topics)

    def clear(self) -> None:
        self._topics.clear()
        self._origins.clear()
        self.bytes = 0

    def attributes_of(self, topic: str) -> Attributes | None:
        """Of the latest publication."""
        chain = self._topics.get(topic)
        return _decode(chain[-1].attributes) if chain else None

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
            chain = self._topics.get(topic, [])
            place = len(chain) if positions is None else self._place_of(chain, positions[number])
            if place < len(chain):
                before.append(_decode(chain[place - 1].attributes) if place else None)
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
                self._put(each.topic, _Remembered(position, _encode(attributes)))
        while len(self._topics) > TOPICS_MAX or self.bytes > BYTES_MAX:
            topic, chain = self._topics.popitem(last=False)
            self.bytes -= _TOPIC_BYTES + len(topic) + sum(map(_size, chain))
            self.forgotten += 1

    def on_confirmed(self, name: str, watermark: int) -> None:
        """This origin sends nothing up to there again."""
        origin = self._origin(name)
        origin.watermark = max(origin.watermark, watermark)
        while origin.unconfirmed and origin.unconfirmed[0][0] <= watermark:
            self._cut(origin.unconfirmed.popleft()[1])

    def _put(self, topic: str, remembered: _Remembered) -> None:
        chain = self._topics.get(topic)
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
                return
            chain.insert(place, remembered)
            origin = self._origin(position.origin)
            origin.latest = max(origin.latest, position[1:])
            origin.unconfirmed.append((position.sequence, topic))
        self.bytes += _size(remembered)

    def _place_of(self, chain: list[_Remembered], position: Position) -> int:
        """Where it is, or belongs: before everything that its origin published later."""
        origin = self._origins.get(position.origin)
        place = len(chain)
        if origin is None or position[1:] > origin.latest:
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
        while len(chain) > 1 and self._is_confirmed(chain[0].position) and self._is_confirmed(chain[1].position):
            self.bytes -= _size(chain.pop(0))

    def _is_confirmed(self, position: Position | None) -> bool:
        origin = None if position is None else self._origins.get(position.origin)
        return origin is None or position is None or position.sequence <= origin.watermark

    def _origin(self, name: str) -> _Origin:
        origin = self._origins.get(name)
        if origin is None:
            origin = self._origins[name] = _Origin()
            if len(self._origins) > ORIGINS_MAX:
                self._origins.popitem(last=False)
        self._origins.move_to_end(name)
        return origin


def _size(remembered: _Remembered) -> int:
    return _PUBLICATION_BYTES + len(remembered.attributes)
