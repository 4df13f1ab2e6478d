"""Which matcher keeps a publication until it expires.

Each publication is kept by one matcher: the one that its topic hashes to, so that whoever looks for the publication
before it finds both, or, where it has none, the one that its batch hashes to. Access points see to it that the keeper
is among the matchers that a publication visits, and matchers keep what is theirs; both ask here.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from braid.selector import Selector, hash64


class _Head(msgspec.Struct):
    topic: str = ""


_read_head = msgspec.json.Decoder(_Head).decode


def keepers_of(selector: Selector, origin: str, sequence: int, contents: Sequence[bytes]) -> dict[str, list[int]]:
    """By matcher, the places of the contents that it keeps."""
    if len(selector.matchers) == 1:
        return {selector.matchers[0]: list(range(len(contents)))}
    keepers: dict[str, list[int]] = {}
    batch_key: int | None = None
    for place, content in enumerate(contents):
        topic = _topic_of(content)
        if topic:
            key = _topic_key(topic)
        else:
            batch_key = key = hash64(f"{origin}/{sequence}") if batch_key is None else batch_key
        keepers.setdefault(selector.keeper_of(key), []).append(place)
    return keepers


def _topic_of(content: bytes) -> str:
    """Empty also for what cannot be read, which nobody could have accepted."""
    if b'"topic":' not in content:
        return ""
    try:
        return _read_head(content).topic
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


@lru_cache(maxsize=65_536)
def _topic_key(topic: str) -> int:
    return hash64(f"topic/{topic}")
