"""What of the past a new subscription was given, as REST and WebSocket say it."""

import msgspec

from services.connpoint.door import Past


class PastShown(msgspec.Struct, frozen=True):
    """Of the publications that were there before it: how many it gets, before anything newer."""

    publications: int
    complete: bool  # else there were more, and the oldest were left out


def past_shown(past: Past | None) -> PastShown | msgspec.UnsetType:
    """Left out where the subscription does not ask for the past."""
    return msgspec.UNSET if past is None else PastShown(past.publications, past.is_complete)
