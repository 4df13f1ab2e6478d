"""How long: "10s", "2m", "1h"."""

import re

from spark.errors import ExperimentError

_DURATION = re.compile(r"(\d{1,6})(s|m|h)")
_UNIT_S = {"s": 1, "m": 60, "h": 3600}


def seconds_of(given: str, option: str) -> int:
    found = _DURATION.fullmatch(given)
    seconds = int(found[1]) * _UNIT_S[found[2]] if found else 0
    if not seconds:
        raise ExperimentError(f"{option} is '{given}'; give whole seconds, minutes or hours, such as 10s, 2m or 1h")
    return seconds
