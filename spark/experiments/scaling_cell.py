"""A cell in which one cluster scales under constant traffic, with a ledger of everything sent and received."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.scaling.experiment import Options, Running, Script, run, steps_in_turn
from benchmarks.scaling.measured import BIN_S, Observed, Scaled, binned, phases_of, totals
from benchmarks.scaling.steps import steps_of
from spark.experiments.histograms import histogram
from spark.experiments.plan import Cell, Scaling
from spark.experiments.results import Rows
from spark.experiments.sampling import Sampler, Usage

_NEW_MAX = 1_000_000  # subscriptions that come meanwhile


async def measure_scaling(
    cell: Cell, scaling: Scaling, directory: Path, says: Path, say: Callable[[str], None]
) -> Rows:
    """Raises `RuntimeError` when a step was refused or aborted: then nothing of it was measured."""
    options = Options(
        slices=f"connpoint=2,{cell.layout.slices}",
        routing=cell.routing,
        rate=cell.rate,
        new_rate=scaling.new_subscriptions,
        new_max=_NEW_MAX,
        data=directory,
        says=says,
    )
    usage: list[Usage] = []
    script = _sampled(steps_in_turn(steps_of(" ".join(scaling.steps)), scaling.calm_s), usage)
    observed = await run(cell.subscriptions, script, options, say)
    observed = observed._replace(scaled=list(told_apart(observed.scaled)))
    for scaled in observed.scaled:
        if scaled.state != "done":
            raise RuntimeError(f"{scaled.name} was {scaled.state}: {scaled.reason or 'it did not end'}")
    return Rows(
        {
            "seconds": _seconds(observed),
            "usage": usage,
            "bins": _bins(observed),
            "phases": _phases(observed),
            "latencies": _latencies(observed),
        },
        {**totals(observed), "summary": ", ".join(f"{each.name} {each.total_s:.1f} s" for each in observed.scaled)},
    )


def told_apart(scaled: Iterable[Scaled]) -> Iterator[Scaled]:
    """A step that occurs again has another name: what is derived of a step is known by it."""
    seen: Counter[str] = Counter()
    for each in scaled:
        seen[each.name] += 1
        yield each if seen[each.name] == 1 else each._replace(name=f"{each.name} ({seen[each.name]})")


def _sampled(script: Script, usage: list[Usage]) -> Script:
    """The script, and what slices used meanwhile; those that come with a step from when they are there."""

    async def sampled(running: Running) -> list[Scaled]:
        load = [running.receiver, *([running.newcomers] if running.newcomers is not None else [])]
        sampler = Sampler(running.cluster, load=[each.pid for each in load])
        async with sampler.sampling():
            scaled = await script(running)
        usage.extend(sampler.usage)
        return scaled

    return sampled


def _seconds(observed: Observed) -> Iterator[tuple[Any, ...]]:
    """Publications count from when they were sent."""
    received = observed.received
    published = _by_second(received.sent_s, observed)
    for second, delivered in enumerate(_by_second(received.arrived_s, observed), start=1):
        yield second, published[second - 1], delivered, 1.0


def _by_second(times_s: Any, observed: Observed) -> list[int]:
    counts = [0] * int(observed.end_s - observed.begin_s)
    for at_s in times_s:
        if 0 <= (since_s := at_s - observed.begin_s) < len(counts):
            counts[int(since_s)] += 1
    return counts


def _bins(observed: Observed) -> Iterator[tuple[Any, ...]]:
    """For each step, in its own time, from the end of the step before to when the next one was asked for."""
    whole = binned(observed.received.arrived_s, observed.begin_s, observed.end_s)[:-1]  # the last one was cut off
    ends = [observed.begin_s, *(_end_s(scaled) for scaled in observed.scaled)]
    asked = [*(scaled.asked_s for scaled in observed.scaled[1:]), observed.end_s]
    for scaled, begin_s, end_s in zip(observed.scaled, ends[:-1], asked, strict=True):
        for place, count in enumerate(whole):
            at_s = observed.begin_s + place * BIN_S
            if begin_s <= at_s < end_s:
                yield scaled.name, at_s - scaled.asked_s, BIN_S, count


def _end_s(scaled: Scaled) -> float:
    return max(end_s for _, end_s in phases_of(scaled).values())


def _phases(observed: Observed) -> Iterator[tuple[Any, ...]]:
    for scaled in observed.scaled:
        for phase, (begin_s, end_s) in phases_of(scaled).items():
            yield scaled.name, phase, begin_s - scaled.asked_s, end_s - scaled.asked_s, scaled.moved


def _latencies(observed: Observed) -> Iterator[tuple[Any, ...]]:
    """Apart for what was published before the first step, during each, and otherwise."""
    parts: dict[str, list[float]] = {}
    steps = [(scaled.name, scaled.asked_s, _end_s(scaled)) for scaled in observed.scaled]
    first_s = min((begin_s for _, begin_s, _ in steps), default=observed.end_s)
    for arrived_s, sent_s in zip(observed.received.arrived_s, observed.received.sent_s, strict=True):
        during = next((name for name, begin_s, end_s in steps if begin_s <= sent_s < end_s), None)
        part = during or ("before" if sent_s < first_s else "after")
        parts.setdefault(part, []).append(arrived_s - sent_s)
    for part, latencies in parts.items():
        for upper_ms, count in histogram(latencies):
            yield part, upper_ms, count
