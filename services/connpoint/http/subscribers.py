"""Names of subscribers: given by clients, or made up here."""

import secrets

from braid import problems
from braid.config import Limits

ANONYMOUS_PREFIX = "~"  # of names that live as long as one connection


def check_subscriber(name: str, limits: Limits, field: str) -> None:
    if len(name) > limits.name_length_max:
        raise problems.limit_exceeded("limits.name_length_max", limits.name_length_max, len(name), field)
    if name.startswith(ANONYMOUS_PREFIX):
        raise problems.invalid(field, f"names that begin with '{ANONYMOUS_PREFIX}' are made for anonymous connections")


def anonymous_subscriber() -> str:
    return f"{ANONYMOUS_PREFIX}{secrets.token_hex(8)}"


def generated_subscriber() -> str:
    return f"subscriber-{secrets.token_hex(8)}"
