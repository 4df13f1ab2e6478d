"""What is known of an endpoint, also behind a crash."""

import msgspec

from braid.deliver import Webhook


class Facts(msgspec.Struct, array_like=True, frozen=True):
    webhook: Webhook
    subscriber: str = ""
    attempts: int = 0  # of the request that is next
    failures: int = 0  # since the last success
    next_attempt_s: float = 0.0
    last_success_s: float = 0.0
    last_failure_s: float = 0.0
    last_error: str = ""
    disabled: bool = False
    ending: bool = False  # nothing more comes; it is over when nothing is left
    delivered: int = 0  # notifications
