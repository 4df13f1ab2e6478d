"""Which subscriptions a publication would match, and what of one subscription fails."""

from collections.abc import Mapping
from typing import Any

import msgspec

from braid.client.errors import BraidError
from braid.client.frames import Publication
from braid.client.rest import Rest
from braid.matching.explanation import MatchExplanation


async def explain(
    rest: Rest, publication: Publication | Mapping[str, Any], subscription: str | None
) -> MatchExplanation:
    asked: dict[str, Any] = {"publication": publication}
    if subscription is not None:
        asked["subscription"] = subscription
    answer = await rest.post("/v1/explain", asked)
    try:
        return msgspec.convert(answer, MatchExplanation)
    except msgspec.ValidationError as error:
        raise BraidError(f"the explanation is not as expected: {error}") from None
