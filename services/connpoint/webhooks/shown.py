"""Endpoints and dead letters as others may see them."""

import msgspec

from services.connpoint.door import DeadLetter, DeliveryState
from services.connpoint.webhooks import records
from services.connpoint.webhooks.endpoint import Endpoint, State
from services.connpoint.webhooks.shelf import Counts


class _Publication(msgspec.Struct):
    id: str = ""


_decode = msgspec.json.Decoder(_Publication).decode


def shown_state(endpoint: Endpoint, counts: Counts) -> DeliveryState:
    facts = endpoint.facts
    return DeliveryState(
        state=endpoint.state.value,
        waiting=counts.waiting,
        waiting_bytes=counts.waiting_bytes,
        attempts=facts.attempts,
        failures=facts.failures,
        next_attempt_s=facts.next_attempt_s if endpoint.state is State.PAUSING else 0.0,
        last_success_s=facts.last_success_s,
        last_failure_s=facts.last_failure_s,
        last_error=facts.last_error,
        delivered=facts.delivered,
        dead_letters=counts.dead,
        dropped=counts.dropped,
    )


def shown_letter(letter: records.DeadLetter) -> DeadLetter:
    return DeadLetter(
        id=letter.request.id,
        at_s=letter.at_s,
        reason=letter.reason,
        attempts=letter.attempts,
        publications=[_decode(one.content).id for one in letter.request.notifications],
    )
