"""Points in time as clients write them: absolute (RFC 3339, Unix seconds) or relative ("-10s", "+10m")."""

import re
from datetime import UTC, datetime

_RELATIVE = re.compile(r"([+-])(\d{1,9}(?:\.\d{1,6})?)(ms|s|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNIX_S_MAX = 253_402_300_799.999  # the end of the year 9999, where datetime ends


def parse_instant(value: str | int | float, now: float) -> float:
    """Unix seconds; `ValueError` says what was expected."""
    if isinstance(value, str):
        relative = _RELATIVE.fullmatch(value.strip())
        if relative:
            sign, amount, unit = relative.groups()
            offset = float(amount) * _UNIT_S[unit]
            return _checked(now + offset if sign == "+" else now - offset)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(
                "expected a time such as '2026-05-01T12:00:00Z', Unix seconds, or relative '-10s', '+10m', '+2h', '+1d'"
            ) from None
        if moment.tzinfo is None:
            raise ValueError("expected a time zone, for example '2026-05-01T12:00:00Z'")
        return _checked(moment.timestamp())
    return _checked(value)


def instant_of_text(text: str) -> str | float:
    """For where there are only strings, a command line or the address of a page: plain digits are Unix seconds."""
    return float(text) if text.replace(".", "", 1).isdecimal() else text


def format_instant(unix_s: float) -> str:
    text = datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _checked(unix_s: float) -> float:
    """Compared before it is converted: JSON knows integers that no float can hold."""
    if not 0 <= unix_s <= _UNIX_S_MAX:
        raise ValueError("expected a time between the years 1970 and 9999")
    return float(unix_s)
