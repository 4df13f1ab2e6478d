"""What the index says about a single filter, to be held against what the language says."""

from collections.abc import Mapping, Sequence

from braid.content import Content, encode_content
from braid.filters import Value
from braid.matching.index import MatchIndex
from braid.subscription import SubscriptionRecord


def accepted_by_index(filter: str, publications: Sequence[Mapping[str, Value]]) -> list[bool]:
    """For each of these attributes, published one after another on one topic, whether the filter accepts them."""
    index = MatchIndex()
    index.add(SubscriptionRecord(id="s", subscriber="anna", home="connpoint-1", filter=filter, created_s=0.0))
    contents = [encode_content(Content(topic="t", attributes=dict(attributes))) for attributes in publications]
    return [bool(ids) for ids in index.match(contents, 0.0).ids()]
