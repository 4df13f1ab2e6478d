"""The latest publication of each topic, for `prev(attribute)`.

Kept only while some subscription looks back, for a bounded number of topics: the one that was longest silent is
forgotten first, and what comes next on it has no previous publication.
"""

from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from braid.filters import Value

TOPICS_MAX = 65_536


class _Part(msgspec.Struct, gc=False):
    topic: str = ""
    attributes: dict[str, Value] = {}


_decode = msgspec.json.Decoder(_Part).decode


class PreviousPublications:
    def __init__(self) -> None:
        self._latest: OrderedDict[str, bytes] = OrderedDict()
        self.forgotten = 0

    def __len__(self) -> int:
        return len(self._latest)

    def clear(self) -> None:
        self._latest.clear()

    def content_of(self, topic: str) -> bytes | None:
        return self._latest.get(topic)

    def attributes_of(self, topic: str) -> Mapping[str, Value] | None:
        content = self._latest.get(topic)
        return None if content is None else _decode(content).attributes

    def before_each(self, contents: list[bytes], topics: list[str]) -> list[bytes | None]:
        """For each content of a batch, the one before it on the same topic."""
        latest: dict[str, bytes] = {}
        before: list[bytes | None] = []
        for content, topic in zip(contents, topics, strict=True):
            if topic:
                before.append(latest.get(topic) or self._latest.get(topic))
                latest[topic] = content
            else:
                before.append(None)
        return before

    def remember(self, contents: list[bytes], topics: list[str]) -> None:
        for content, topic in zip(contents, topics, strict=True):
            if topic:
                self._latest[topic] = content
                self._latest.move_to_end(topic)
        while len(self._latest) > TOPICS_MAX:
            self._latest.popitem(last=False)
            self.forgotten += 1


def topic_of(content: bytes) -> str:
    return _decode(content).topic


def attributes_of(content: bytes | None) -> Mapping[str, Value] | None:
    return None if content is None else _decode(content).attributes
