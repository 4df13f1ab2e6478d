"""When a request is tried again, and when it is given up."""

from collections.abc import Callable

import msgspec

_DOUBLINGS_MAX = 64  # more than any pause takes; 2 ** failures must not grow for ever


class Schedule(msgspec.Struct, frozen=True):
    retry_s: float
    retry_s_max: float
    attempts_max: int
    refusals_max: int  # attempts of a request that the receiver does not want
    age_s_max: float
    random: Callable[[], float]  # between 0 and 1

    def pause_s(self, failures: int, retry_after_s: float) -> float:
        """Behind so many failures in a row. What the receiver asks for counts if it is longer, up to the same most."""
        doubled_s = self.retry_s * 2.0 ** min(failures - 1, _DOUBLINGS_MAX)
        own_s = min(doubled_s, self.retry_s_max) * (0.5 + 0.5 * self.random())
        return max(own_s, min(retry_after_s, self.retry_s_max))

    def why_given_up(self, attempts: int, *, is_refusal: bool, age_s: float) -> str:
        """Why a request that was tried so often is not tried again; empty when it is."""
        if is_refusal and attempts >= self.refusals_max:
            return f"refused {attempts} times"
        if attempts >= self.attempts_max:
            return f"failed {attempts} times"
        if age_s > self.age_s_max:
            return f"older than {self.age_s_max:g} s"
        return ""
