"""Answers that list something."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response

T = TypeVar("T")


def listed(name: str, found: Sequence[T], limit: int, show: Callable[[T], Any]) -> Response:
    """Up to `limit` of what was found under that name; `truncated` stands there when there is more."""
    answer: dict[str, Any] = {name: [show(one) for one in found[:limit]]}
    if len(found) > limit:
        answer["truncated"] = True
    return Response(msgspec.json.encode(answer), media_type="application/json")
