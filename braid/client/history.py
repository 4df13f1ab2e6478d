"""The publications that the cluster keeps."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from braid.client.errors import BraidError
from braid.client.frames import Publication
from braid.client.rest import Rest


class KeptPublication(msgspec.Struct, frozen=True, kw_only=True):
    """A publication of the past, and when the cluster accepted it."""

    published: datetime  # in UTC
    publication: Publication


class _Found(msgspec.Struct):
    publications: list[KeptPublication]


async def find_publications(rest: Rest, conditions: dict[str, Any]) -> list[KeptPublication]:
    """`conditions` are the query parameters; what is None or empty is none."""
    given = {name: value for name, value in conditions.items() if value not in (None, "", [])}
    answer = await rest.get("/v1/publications", {name: _written(value) for name, value in given.items()})
    try:
        return msgspec.convert(answer, _Found).publications
    except msgspec.ValidationError as error:
        raise BraidError(f"the list of publications is not as expected: {error}") from None


def _written(value: Any) -> str | Sequence[str]:
    if isinstance(value, str | list):
        return value
    return msgspec.json.encode(value).decode()
