"""What `prev(attribute)` looks back to: of the latest publication of each topic, the attributes that are looked at.

Nothing else is kept, and only while some subscription looks back. Topics and bytes are bounded: the topic that was
longest silent is forgotten first, and what comes next on it has no previous publication.
"""

from collections import OrderedDict
from collections.abc import Container, Mapping, Sequence

import msgspec

from braid.filters import Value

TOPICS_MAX = 65_536
BYTES_MAX = 64 * 1024 * 1024
_TOPIC_BYTES = 256  # that a topic takes besides its name and its attributes

Attributes = Mapping[str, Value]


class Published(msgspec.Struct, gc=False):
    """What of a publication can be looked back to."""

    topic: str = ""
    attributes: dict[str, Value] = {}


read_published = msgspec.json.Decoder(Published).decode
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Value]).decode


class PreviousPublications:
    def __init__(self) -> None:
        self._latest: OrderedDict[str, bytes] = OrderedDict()
        self.bytes = 0
        self.forgotten = 0  # topics, for want of room

    def __len__(self) -> int:
        return len(self._latest)

    def clear(self) -> None:
        self._latest.clear()
        self.bytes = 0

    def attributes_of(self, topic: str) -> Attributes | None:
        encoded = self._latest.get(topic)
        return None if encoded is None else _decode(encoded)

    def before_each(self, published: Sequence[Published]) -> list[Attributes | None]:
        """For each publication of a batch, the attributes of the one before it on the same topic."""
        latest: dict[str, Attributes] = {}
        before: list[Attributes | None] = []
        for each in published:
            topic = each.topic
            if not topic:
                before.append(None)
                continue
            before.append(latest[topic] if topic in latest else self.attributes_of(topic))
            latest[topic] = each.attributes
        return before

    def remember(self, published: Sequence[Published], looked_at: Container[str]) -> None:
        """Of each publication the attributes that are looked at."""
        latest: dict[str, Attributes] = {}
        for each in published:
            if each.topic:
                latest.pop(each.topic, None)  # the topic spoke again, so it is the last to be forgotten
                latest[each.topic] = each.attributes
        for topic, attributes in latest.items():
            self._put(topic, _encode({name: value for name, value in attributes.items() if name in looked_at}))
        while len(self._latest) > TOPICS_MAX or self.bytes > BYTES_MAX:
            topic, encoded = self._latest.popitem(last=False)
            self.bytes -= _size(topic, encoded)
            self.forgotten += 1

    def _put(self, topic: str, encoded: bytes) -> None:
        before = self._latest.get(topic)
        if before is not None:
            self.bytes -= _size(topic, before)
        self._latest[topic] = encoded
        self._latest.move_to_end(topic)
        self.bytes += _size(topic, encoded)


def _size(topic: str, encoded: bytes) -> int:
    return _TOPIC_BYTES + len(topic) + len(encoded)
