"""When a ledger may be taken: a repetition comes behind the original."""

import asyncio
import time
from collections.abc import Callable

_STILL_S = 2.5  # what is not confirmed comes again after `ingress.retry_s`, which is 2
_STILL_MAX_S = 10.0
_LOOKS_S = 0.02


async def until_still(came: Callable[[], int]) -> None:
    """Until nothing has come for longer than a first repetition takes. Who repeats for ever is not waited for.

    `came` counts everything, also what came twice or unwanted, and that may come behind everything that is waited for.
    A ledger that is taken as soon as the last one is there says that there are none of them without having looked.
    """
    began_s = came_s = time.monotonic()
    count = came()
    while time.monotonic() < min(came_s + _STILL_S, began_s + _STILL_MAX_S):
        await asyncio.sleep(_LOOKS_S)
        if came() != count:
            count, came_s = came(), time.monotonic()
