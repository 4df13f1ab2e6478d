"""What the client tells about its connection, to the log and to the user's callback."""

import logging
from collections.abc import Callable
from typing import Literal

import msgspec

logger = logging.getLogger("braid.client")
logger.addHandler(logging.NullHandler())  # a library leaves it to the program where logs go


class State(msgspec.Struct, frozen=True):
    """One piece of news.

    - `connected`: to `url`. `attempt` is 0 for the first connection of the client.
    - `reconnecting`: the connection was lost (`detail` says why); attempt number `attempt` follows.
    - `gap`: the server could not resume without a gap, so some notifications are missing.
    - `resubscribing`: the server had lost subscriptions; they are made again.
    - `error`: the server reported a problem that belongs to no call.
    - `closed`: for good; `detail` says why, and is empty when the user closed the client.
    """

    kind: Literal["connected", "reconnecting", "gap", "resubscribing", "error", "closed"]
    url: str = ""
    detail: str = ""
    attempt: int = 0


OnState = Callable[[State], None]

_WARNINGS = frozenset({"reconnecting", "gap", "resubscribing", "error"})


def log_state(state: State) -> None:
    level = logging.WARNING if state.kind in _WARNINGS else logging.INFO
    logger.log(level, "%s %s %s", state.kind, state.url, state.detail)
