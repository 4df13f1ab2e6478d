"""What one scaling cost, computed from everything that was written down."""

from bisect import bisect_left
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from benchmarks.scaling.receiving import Received
from benchmarks.scaling.subscribing import Wait

BIN_S = 0.05
PHASES = ("moving", "changing", "flushing", "ending")


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


class Measured(msgspec.Struct):
    subscriptions: int
    step: str
    moved: int
    state: str
    reason: str
    total_s: float
    phase_s: dict[str, float]
    longest_pause_s: float  # as the cluster itself saw it: a publication was held for that long
    windows: list[Window]
    longest_step_ms: dict[str, float]  # slice and step -> how long it kept its event loop
    generator_delay_ms: float  # how late the publishers themselves were at worst
    sent: int
    lost: int
    twice: int
    out_of_order: int
    load_s: float
    bins: list[int]  # deliveries in each `BIN_S`, from `bins_begin_s` on
    bins_begin_s: float
    waits_s: list[tuple[float, float]]  # the longest wait for an acknowledgement in each bin


class Observed(NamedTuple):
    """What everybody wrote down; times in seconds since 1970."""

    begin_s: float
    end_s: float
    received: Received
    waits: list[Wait]
    steps_s: dict[str, float]
    sent: int
    generator_delay_s: float
    load_s: float


def windows(observed: Observed, phases: dict[str, tuple[float, float]]) -> list[Window]:
    """`phases` as begin and end of each, in seconds since 1970."""
    asked_s = phases["asked"][0]
    moving_s = phases["moving"][0] if "moving" in phases else max(end for _, end in phases.values())
    done_s = max(end for _, end in phases.values())
    bounds = [("before", observed.begin_s, asked_s), ("starting", asked_s, moving_s)]
    bounds += [("moving to ending", moving_s, done_s), ("after", done_s, observed.end_s)]
    return [_window(observed, name, begin, end, asked_s) for name, begin, end in bounds]


def _window(observed: Observed, name: str, begin_s: float, end_s: float, asked_s: float) -> Window:
    received = observed.received
    arrived = received.arrived_s
    first, last = bisect_left(arrived, begin_s), bisect_left(arrived, end_s)
    around = arrived[max(0, first - 1) : last + 1]
    gap_s = max((later - earlier for earlier, later in pairwise(around)), default=0.0)
    latencies = sorted(
        at_s - sent_s for at_s, sent_s in zip(arrived, received.sent_s, strict=True) if begin_s <= sent_s < end_s
    )
    acknowledged = sorted(wait_s for due_s, wait_s in observed.waits if begin_s <= due_s < end_s)
    return Window(
        name,
        round(begin_s - asked_s, 3),
        round(end_s - asked_s, 3),
        round((last - first) / max(1e-9, end_s - begin_s)),
        _ms(gap_s),
        _ms(quantile(latencies, 0.5)),
        _ms(quantile(latencies, 0.99)),
        _ms(quantile(acknowledged, 0.5)),
        _ms(quantile(acknowledged, 0.99)),
        _ms(acknowledged[-1] if acknowledged else 0.0),
    )


def phases_of(shown: dict[str, Any], asked_s: float) -> dict[str, tuple[float, float]]:
    """From how long each took to when it began and ended."""
    phases, at_s = {}, asked_s
    for name, took_s in shown["phase_s"].items():
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


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)
