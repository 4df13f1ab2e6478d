"""The Python client of Braid. `braid.Client` is where to begin."""

from braid.client.client import Client
from braid.client.errors import BraidError, CallTimeout, ConnectionLost, Replaced
from braid.client.frames import Notification, Past, Publication
from braid.client.history import KeptPublication
from braid.client.ids import time_of
from braid.client.scaling import Scaling
from braid.client.states import State
from braid.client.stream import Stream
from braid.client.tracing import Trace, TraceHop
from braid.client.webhooks import DeadLetter, Replayed, Webhook, WebhookDelivery
from braid.matching.explanation import Explanation, FilterStep, MatchExplanation, PartExplained

__all__ = [
    "BraidError",
    "CallTimeout",
    "Client",
    "ConnectionLost",
    "DeadLetter",
    "Explanation",
    "FilterStep",
    "KeptPublication",
    "MatchExplanation",
    "Notification",
    "PartExplained",
    "Past",
    "Publication",
    "Replaced",
    "Replayed",
    "Scaling",
    "State",
    "Stream",
    "Trace",
    "TraceHop",
    "Webhook",
    "WebhookDelivery",
    "time_of",
]
