"""Which subscriptions the cluster has of one subscriber."""

from collections.abc import Set
from typing import Any
from urllib.parse import quote

from braid.client.errors import BraidError
from braid.client.rest import Rest

_LISTED_MAX = 10_000  # as many as the server lists at once


async def list_subscriptions(rest: Rest, subscriber: str) -> list[dict[str, Any]]:
    return (await _list(rest, subscriber, None))[0]


async def alive_ids(rest: Rest, subscriber: str, held: Set[str], url: str) -> frozenset[str]:
    """The ids of all of them that are listed, and of those held that are not listed but there."""
    records, truncated = await _list(rest, subscriber, url)
    listed = {str(record.get("id", "")) for record in records}
    unlisted = [id for id in sorted(held - listed) if await _exists(rest, id, url)] if truncated else []
    return frozenset(listed.union(unlisted))


async def _list(rest: Rest, subscriber: str, url: str | None) -> tuple[list[dict[str, Any]], bool]:
    parameters = {"subscriber": subscriber, "limit": str(_LISTED_MAX)}
    answer = await rest.get("/v1/subscriptions", parameters, url=url)
    if not isinstance(answer, dict) or not isinstance(answer.get("subscriptions"), list):
        raise BraidError("the list of subscriptions is not as expected")
    return answer["subscriptions"], bool(answer.get("truncated"))


async def _exists(rest: Rest, id: str, url: str) -> bool:
    try:
        await rest.get(f"/v1/subscriptions/{quote(id, safe='')}", url=url)
    except BraidError as error:
        if error.status == 404:
            return False
        raise
    return True
