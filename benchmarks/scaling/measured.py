"""What one scaling cost, and what the whole run came to, computed from everything that was written down."""

from array import array
from bisect import bisect_left
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from benchmarks.scaling.receiving import Received
from benchmarks.scaling.subscribing import Subscribed, Wait
from benchmarks.scaling.watching import Ran, Share, shares

BIN_S = 0.05


class Window(msgspec.Struct):
    """Times in seconds since the scaling was asked for, durations in milliseconds."""

    name: str
    begin_s: float
    end_s: float
    delivered_per_s: float
    longest_gap_ms: float
    latency_p50_ms: float
    latency_p99_ms: float
    acknowledged_p50_ms: float
    acknowledged_p99_ms: float
    acknowledged_max_ms: float


class Gap(msgspec.Struct):
    """The longest time without a delivery in a scaling, and what everybody did in it."""

    begin_s: float  # since the scaling was asked for
    phase: str
    ms: float
    shares: list[Share]


class Totals(msgspec.Struct, kw_only=True):
    """The ledger of a whole run."""

    subscriptions: int
    load_s: float
    sent: int  # without those that were refused
    refused: int  # publications
    received: int  # different ones
    lost: int
    twice: int
    out_of_order: int
    new_due: int  # by their rate
    new_asked: int  # fewer where the cluster did not keep up with the rate
    new_acknowledged: int
    new_refused: int  # also those whose end was refused: whether they are there is not known
    new_at_end: int
    kept_at_end: int  # by all matchers together, as they say
    generator_delay_ms: float  # how late the publishers themselves were at worst
    stolen: float = 0.0  # share of the processors' time that the host gave to other machines

    def wrong(self) -> list[str]:
        """What must not be."""
        return self.wrong_in_ledger(order_counts=True)

    def wrong_in_ledger(self, *, order_counts: bool) -> list[str]:
        found = [f"{self.lost} lost"] if self.lost else []
        found += [f"{self.twice} twice"] if self.twice else []
        found += [f"{self.out_of_order} out of order"] if self.out_of_order and order_counts else []
        return found + wrongly_kept(self.kept_at_end, self.subscriptions + self.new_at_end, self.new_refused)


class Measured(Totals, kw_only=True):
    """One scaling."""

    step: str
    moved: int
    state: str
    reason: str
    total_s: float
    phase_s: dict[str, float]
    longest_pause_s: float  # as the cluster itself saw it: a publication was held for that long
    windows: list[Window]
    longest_step_ms: dict[str, float]  # slice and step -> how long it kept its event loop
    gap: Gap | None  # where somebody watched
    bins: list[int]  # deliveries in each `BIN_S`, from `bins_begin_s` on
    bins_begin_s: float
    waits_s: list[tuple[float, float]]  # the longest wait for an acknowledgement in each bin

    def wrong(self) -> list[str]:
        return [*super().wrong(), *([f"{self.step} {self.state}"] if self.state != "done" else [])]


class Scaled(NamedTuple):
    """One scaling as the cluster showed it at its end."""

    name: str
    asked_s: float  # since 1970
    state: str  # "done", "aborted", "refused" when it did not begin, "running" when it did not end
    reason: str
    phase_s: dict[str, float]
    total_s: float
    moved: int
    longest_pause_s: float
    steps_s: dict[str, float]


class Observed(NamedTuple):
    """What everybody wrote down; times in seconds since 1970."""

    subscriptions: int
    begin_s: float
    end_s: float
    received: Received
    new: Subscribed
    scaled: list[Scaled]
    sent: int
    generator_delay_s: float
    load_s: float
    kept: int
    refused: int = 0
    stolen: float = 0.0
    ran: Ran = ()  # where somebody watched


def wrongly_kept(kept: int, expected: int, refused: int) -> list[str]:
    """Of subscriptions; one that was refused may be there or not."""
    return [] if expected <= kept <= expected + refused else [f"{kept:,} subscriptions instead of {expected:,}"]


def measured_of(observed: Observed) -> Measured:
    """Of a run with one scaling; its times are since that was asked for."""
    (scaled,) = observed.scaled
    begin_s, end_s, asked_s = observed.begin_s, observed.end_s, scaled.asked_s
    return Measured(
        **totals(observed),
        step=scaled.name,
        moved=scaled.moved,
        state=scaled.state,
        reason=scaled.reason,
        total_s=scaled.total_s,
        phase_s=scaled.phase_s,
        longest_pause_s=round(scaled.longest_pause_s, 4),
        windows=windows(observed, phases_of(scaled)),
        longest_step_ms=in_ms(scaled.steps_s),
        gap=gap_of(observed, scaled),
        bins=binned(observed.received.arrived_s, begin_s, end_s),
        bins_begin_s=round(begin_s - asked_s, 3),
        waits_s=longest_waits(observed.new.waits, begin_s, end_s, asked_s),
    )


def totals(observed: Observed) -> dict[str, Any]:
    received, new = observed.received, observed.new
    different = sum(received.counts.values())
    return {
        "subscriptions": observed.subscriptions,
        "load_s": round(observed.load_s, 1),
        "sent": observed.sent,
        "refused": observed.refused,
        "received": different,
        "lost": observed.sent - different,
        "twice": received.twice,
        "out_of_order": received.out_of_order,
        "new_due": new.due,
        "new_asked": len(new.waits),
        "new_acknowledged": len(new.waits) - new.refused,
        "new_refused": new.refused + new.unsure,
        "new_at_end": new.at_end,
        "kept_at_end": observed.kept,
        "generator_delay_ms": _ms(observed.generator_delay_s),
        "stolen": round(observed.stolen, 4),
    }


def windows(observed: Observed, phases: dict[str, tuple[float, float]]) -> list[Window]:
    """`phases` as begin and end of each, in seconds since 1970."""
    asked_s = phases["asked"][0]
    done_s = max(end for _, end in phases.values())
    copying_s, moving_s = (phases[phase][0] if phase in phases else done_s for phase in ("copying", "moving"))
    bounds = [("before", observed.begin_s, asked_s), ("starting", asked_s, copying_s), ("copying", copying_s, moving_s)]
    bounds += [("moving to ending", moving_s, done_s), ("after", done_s, observed.end_s)]
    return [window(observed, name, begin, end, asked_s) for name, begin, end in bounds]


def window(observed: Observed, name: str, begin_s: float, end_s: float, asked_s: float) -> Window:
    received = observed.received
    arrived = received.arrived_s
    first, last = bisect_left(arrived, begin_s), bisect_left(arrived, end_s)
    latencies = sorted(
        at_s - sent_s for at_s, sent_s in zip(arrived, received.sent_s, strict=True) if begin_s <= sent_s < end_s
    )
    acknowledged = sorted(wait_s for due_s, wait_s in observed.new.waits if begin_s <= due_s < end_s)
    return Window(
        name,
        round(begin_s - asked_s, 3),
        round(end_s - asked_s, 3),
        round((last - first) / max(1e-9, end_s - begin_s)),
        _ms(longest_gap_s(arrived, begin_s, end_s)),
        _ms(quantile(latencies, 0.5)),
        _ms(quantile(latencies, 0.99)),
        _ms(quantile(acknowledged, 0.5)),
        _ms(quantile(acknowledged, 0.99)),
        _ms(acknowledged[-1] if acknowledged else 0.0),
    )


def gap_of(observed: Observed, scaled: Scaled) -> Gap | None:
    if not observed.ran:
        return None
    phases = phases_of(scaled)
    asked_s, done_s = scaled.asked_s, max(end for _, end in phases.values())
    begin_s, end_s = longest_gap(observed.received.arrived_s, asked_s, done_s)
    phase = next((name for name, (begin, end) in phases.items() if begin <= begin_s < end), "before")
    return Gap(round(begin_s - asked_s, 3), phase, _ms(end_s - begin_s), shares(observed.ran, begin_s, end_s))


def longest_gap_s(arrived_s: "array[float]", begin_s: float, end_s: float) -> float:
    begin_s, end_s = longest_gap(arrived_s, begin_s, end_s)
    return end_s - begin_s


def longest_gap(arrived_s: "array[float]", begin_s: float, end_s: float) -> tuple[float, float]:
    """Also one that began before, or goes on behind."""
    first, last = bisect_left(arrived_s, begin_s), bisect_left(arrived_s, end_s)
    around = arrived_s[max(0, first - 1) : last + 1]
    return max(pairwise(around), key=lambda pair: pair[1] - pair[0], default=(begin_s, begin_s))


def phases_of(scaled: Scaled) -> dict[str, tuple[float, float]]:
    """From how long each took to when it began and ended."""
    phases, at_s = {}, scaled.asked_s
    for name, took_s in scaled.phase_s.items():
        phases[name] = (at_s, at_s + took_s)
        at_s += took_s
    return phases


def quantile(sample: list[float], share: float) -> float:
    return sample[min(len(sample) - 1, int(len(sample) * share))] if sample else 0.0


def binned(times_s: Any, begin_s: float, end_s: float) -> list[int]:
    counts = [0] * (int((end_s - begin_s) / BIN_S) + 1)
    for at_s in times_s:
        if begin_s <= at_s < end_s:
            counts[int((at_s - begin_s) / BIN_S)] += 1
    return counts


def longest_waits(waits: list[Wait], begin_s: float, end_s: float, asked_s: float) -> list[tuple[float, float]]:
    longest: dict[int, float] = {}
    for due_s, wait_s in waits:
        if begin_s <= due_s < end_s:
            place = int((due_s - begin_s) / BIN_S)
            longest[place] = max(longest.get(place, 0.0), wait_s)
    return [(round(begin_s + place * BIN_S - asked_s, 3), round(wait, 4)) for place, wait in sorted(longest.items())]


def in_ms(steps_s: dict[str, float]) -> dict[str, float]:
    return {name: _ms(seconds) for name, seconds in sorted(steps_s.items())}


def in_whole_ms(seconds: float) -> int:
    return round(1000 * seconds)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)
