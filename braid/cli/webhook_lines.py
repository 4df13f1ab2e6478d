"""A webhook, how it stands, and a dead letter, as lines for people."""

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from braid.client import DeadLetter, Webhook, WebhookDelivery

_COLOURS = {"idle": "green", "sending": "green", "pausing": "yellow", "disabled": "red", "unknown": "red"}


def address_lines(webhook: "Webhook") -> "list[Text]":
    from rich.text import Text

    lines = [Text.assemble((webhook.id, "bold"), f" is posted to {webhook.url}")]
    if webhook.secret:
        lines.append(Text.assemble("  secret ", (webhook.secret, "bold"), ("  it is not shown again", "dim")))
    if webhook.secret_before_until is not None:
        lines.append(Text(f"  the secret before signs as well until {_instant(webhook.secret_before_until)}"))
    return lines


def part_lines(webhook: "Webhook") -> "list[Text]":
    """Whose it is, and what it asks for."""
    from rich.text import Text

    lines = [Text(f"  of {webhook.subscriber}, delivered by {webhook.connpoint}")]
    return lines + [Text.assemble((f"  {name} ", "dim"), str(value)) for name, value in webhook.wants.items()]


def delivery_lines(delivery: "WebhookDelivery", now: datetime) -> "list[Text]":
    from rich.text import Text

    state = Text.assemble("  ", (delivery.state, f"bold {_COLOURS.get(delivery.state, 'red')}"))
    if delivery.state == "unknown":
        return [state.append(f": {delivery.detail}")]
    if delivery.next_attempt is not None:
        wait_s = max(0.0, (delivery.next_attempt - now).total_seconds())
        state.append(f"; attempt {delivery.attempts + 1} in {wait_s:.0f} s")
    lines = [state, Text(f"  {delivery.delivered} arrived, {delivery.waiting} wait ({delivery.waiting_bytes} bytes)")]
    if delivery.dead_letters or delivery.dropped:
        lines.append(Text(f"  {delivery.dead_letters} in dead letters, {delivery.dropped} dropped", "red"))
    if delivery.last_success is not None:
        lines.append(Text(f"  last arrived {_instant(delivery.last_success)}"))
    if delivery.last_failure is not None:
        failed = f"  last failed {_instant(delivery.last_failure)}, {delivery.failures} in a row: {delivery.last_error}"
        lines.append(Text(failed, "yellow" if delivery.failures else ""))
    return lines


def letter_line(letter: "DeadLetter") -> "Text":
    from rich.text import Text

    return Text.assemble(
        (_instant(letter.at), "dim"),
        " ",
        (letter.id, "bold"),
        f"  {letter.reason}  ",
        (f"{len(letter.publications)} notifications", "yellow"),
    )


def _instant(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
