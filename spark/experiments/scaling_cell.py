"""A cell in which one cluster scales under constant traffic, with a ledger of everything sent and received."""

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.scaling.experiment import Options, run, steps_in_turn
from benchmarks.scaling.measured import BIN_S, Observed, binned, phases_of, totals
from benchmarks.scaling.steps import steps_of
from spark.experiments.histograms import histogram
from spark.experiments.plan import Cell, Scaling
from spark.experiments.results import Rows

_NEW_MAX = 1_000_000  # subscriptions that come meanwhile


async def measure_scaling(cell: Cell, scaling: Scaling, say: Callable[[str], None]) -> Rows:
    options = Options(
        slices=f"connpoint=2,{cell.layout.slices}",
        routing=None,
        rate=cell.rate,
        new_rate=scaling.new_subscriptions,
        new_max=_NEW_MAX,
        data=None,
    )
    steps = steps_of(" ".join(scaling.steps))
    observed = await run(cell.subscriptions, steps_in_turn(steps, scaling.calm_s), options, say)
    states = {scaled.name: scaled.state for scaled in observed.scaled}
    return Rows(
        {
            "seconds": _seconds(observed),
            "bins": _bins(observed),
            "phases": _phases(observed),
            "latencies": _latencies(observed),
        },
        {**totals(observed), "states": states},
    )


def _seconds(observed: Observed) -> Iterator[tuple[Any, ...]]:
    """Publications count from when they were sent."""
    received = observed.received
    published = _by_second(received.sent_s, observed)
    for second, delivered in enumerate(_by_second(received.arrived_s, observed), start=1):
        yield second, published[second - 1], delivered


def _by_second(times_s: Any, observed: Observed) -> list[int]:
    counts = [0] * int(observed.end_s - observed.begin_s)
    for at_s in times_s:
        if 0 <= (second := int(at_s - observed.begin_s)) < len(counts):
            counts[second] += 1
    return counts


def _bins(observed: Observed) -> Iterator[tuple[Any, ...]]:
    """The whole run for each step, in the time of that step."""
    counts = binned(observed.received.arrived_s, observed.begin_s, observed.end_s)
    for scaled in observed.scaled:
        for place, count in enumerate(counts):
            yield scaled.name, observed.begin_s + place * BIN_S - scaled.asked_s, BIN_S, count


def _phases(observed: Observed) -> Iterator[tuple[Any, ...]]:
    for scaled in observed.scaled:
        for phase, (begin_s, end_s) in phases_of(scaled).items():
            yield scaled.name, phase, begin_s - scaled.asked_s, end_s - scaled.asked_s, scaled.moved


def _latencies(observed: Observed) -> Iterator[tuple[Any, ...]]:
    """Apart for what was published before the first step, during each, and otherwise."""
    parts: dict[str, list[float]] = {}
    phases = {
        scaled.name: (scaled.asked_s, max(end for _, end in phases_of(scaled).values())) for scaled in observed.scaled
    }
    begin_s = min((begin for begin, _ in phases.values()), default=observed.end_s)
    for arrived_s, sent_s in zip(observed.received.arrived_s, observed.received.sent_s, strict=True):
        during = next((name for name, (begin, end) in phases.items() if begin <= sent_s < end), None)
        part = during or ("before" if sent_s < begin_s else "after")
        parts.setdefault(part, []).append(arrived_s - sent_s)
    for part, latencies in parts.items():
        for upper_ms, count in histogram(latencies):
            yield part, upper_ms, count
