"""What the answer of a receiver means; the table is in `docs/webhooks.md`."""

from email.utils import parsedate_to_datetime

from services.connpoint.webhooks.events import Delivered, Failed, Gone, Tried

_NOT_NOW = frozenset({408, 409, 425, 429})
_DIGITS_MAX = 9


def answered(tried: Tried, status: int, after_s: float = 0.0) -> Delivered | Failed | Gone:
    """`after_s` is what the receiver asks for before it is tried again."""
    if 200 <= status < 300:
        return Delivered(tried)
    if status == 410:
        return Gone(tried)
    is_refusal = status < 500 and status not in _NOT_NOW
    return Failed(tried, f"answered {status}", is_refusal, after_s)


def retry_after_s(header: str, now_s: float) -> float:
    """Seconds from now that a `Retry-After` asks for, a number or a date; 0 for anything else."""
    text = header.strip()
    if text.isascii() and text.isdecimal():
        return float(text[:_DIGITS_MAX])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now_s)
    except (ValueError, OverflowError):
        return 0.0
