"""Braid: an elastic content-based publish/subscribe broker.

    async with braid.Client("http://127.0.0.1:8080") as client: …

The names below are loaded when they are first used, so that slices and the command line do not pay for the client.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from braid.client import (
        BraidError,
        CallTimeout,
        Client,
        ConnectionLost,
        DeadLetter,
        KeptPublication,
        Notification,
        Past,
        Publication,
        Replaced,
        Scaling,
        State,
        Stream,
        Trace,
        TraceHop,
        Webhook,
        WebhookDelivery,
    )

__all__ = [
    "BraidError",
    "CallTimeout",
    "Client",
    "ConnectionLost",
    "DeadLetter",
    "KeptPublication",
    "Notification",
    "Past",
    "Publication",
    "Replaced",
    "Scaling",
    "State",
    "Stream",
    "Trace",
    "TraceHop",
    "Webhook",
    "WebhookDelivery",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("braid.client"), name)
    raise AttributeError(f"module 'braid' has no attribute {name!r}")
