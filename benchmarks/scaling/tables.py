"""What was measured, for people to read."""

import os

from benchmarks.scaling.measured import Gap, Measured, Totals, Window
from benchmarks.scaling.story import Story, Told
from braid.topology import PHASES

GAP_MS_MAX, STEP_MS_MAX = 250.0, 20.0  # to reach


def table(measured: Measured) -> str:
    phases = ", ".join(f"{phase} {measured.phase_s.get(phase, 0.0):.3f}" for phase in PHASES)
    lines = [
        f"{measured.step}, {measured.subscriptions:,} subscriptions loaded in {measured.load_s} s",
        f"  {measured.state} in {measured.total_s:.3f} s, of which {phases}; {measured.moved:,} subscriptions moved",
        *ledger(measured),
        f"  {'':<17} {'seconds':>8} {'delivered/s':>12} {'longest gap':>12} {'latency p50':>12} {'p99':>8} "
        f"{'subscribed p50':>15} {'p99':>8} {'max':>8}",
    ]
    lines += [
        f"  {window.name:<17} {window.end_s - window.begin_s:>8.2f} {window.delivered_per_s:>12,.0f} "
        f"{window.longest_gap_ms:>9.1f} ms {window.latency_p50_ms:>9.1f} ms {window.latency_p99_ms:>5.1f} ms "
        f"{window.acknowledged_p50_ms:>12.1f} ms {window.acknowledged_p99_ms:>5.0f} ms "
        f"{window.acknowledged_max_ms:>5.0f} ms"
        for window in measured.windows
    ]
    lines += [
        _longest_steps(measured.longest_step_ms),
        *_gap(measured.step, measured.gap),
        f"  held at the cut   {_held(measured.longest_pause_s)}; {_late(measured)}",
        f"  to reach          gap {GAP_MS_MAX:g} ms, step {STEP_MS_MAX:g} ms",
    ]
    return "\n".join(lines)


def _heads(width: int) -> list[str]:
    return [
        f"  {'':<{width + 82}} {'longest gap, ms':>16} {'latency p50 / p99, ms':^44} {'longest, ms':>16}",
        f"  {'step':<{width}} {'state':<8} {'total s':>7} {'starting':>9} {'copying':>8} {'moving':>7} "
        f"{'changing':>9} {'flushing':>9} {'ending':>7} {'moved':>9} {'whole':>8} {'moving+':>7} "
        f"{'before':>14} {'during':>14} {'after':>14} {'subscribe':>9} {'held':>6}",
    ]


def story_table(story: Story) -> str:
    slowest: dict[str, float] = {}
    for told in story.steps:
        for name, took_ms in told.longest_step_ms.items():
            slowest[name] = max(slowest.get(name, 0.0), took_ms)
    width = max(len(told.step) for told in story.steps)
    lines = [
        f"{len(story.steps)} steps of one cluster, {story.subscriptions:,} subscriptions loaded in {story.load_s} s",
        *_heads(width),
        *(_row(told, width) for told in story.steps),
        *(f"  {told.step}: {told.reason}" for told in story.steps if told.reason),
        *ledger(story),
        _longest_steps(slowest),
        *(line for told in story.steps for line in _gap(told.step, told.gap)),
        f"  {_late(story)}",
        f"  to reach: gap {GAP_MS_MAX:g} ms, step {STEP_MS_MAX:g} ms. 'moving+' is from moving to ending, without the "
        "start of processes and the copy; held 0: no publication came between the two words of the coordinator",
    ]
    return "\n".join(lines)


def _row(told: Told, width: int) -> str:
    starting_s = told.starting.end_s - told.starting.begin_s
    return (
        f"  {told.step:<{width}} {told.state:<8} {told.total_s:>7.2f} {starting_s:>9.3f} "
        f"{_phase(told, 'copying', 8)} {_phase(told, 'moving', 7)} {_phase(told, 'changing', 9)} "
        f"{_phase(told, 'flushing', 9)} {_phase(told, 'ending', 7)} {told.moved:>9,} "
        f"{told.during.longest_gap_ms:>8.0f} {told.moving.longest_gap_ms:>7.0f} "
        f"{_latency(told.before)} {_latency(told.during)} {_latency(told.after)} "
        f"{told.during.acknowledged_max_ms:>9.0f} {1000 * told.longest_pause_s:>6.0f}"
    )


def _phase(told: Told, phase: str, width: int) -> str:
    return f"{told.phase_s[phase]:>{width}.3f}" if phase in told.phase_s else f"{'-':>{width}}"


def _latency(window: Window) -> str:
    return f"{window.latency_p50_ms:>6.1f} /{window.latency_p99_ms:>6.1f}"


def ledger(run: Totals) -> list[str]:
    expected = run.subscriptions + run.new_at_end
    refused = f", and {run.refused:,} were refused" if run.refused else ""
    return [
        f"  of {run.sent:,} publications received {run.received:,}, lost {run.lost}, twice {run.twice}, "
        f"out of order {run.out_of_order}{refused}",
        f"  new subscriptions: {run.new_acknowledged:,} acknowledged, {run.new_refused:,} refused, {run.new_at_end:,} "
        f"there at the end; with those loaded {expected:,}, matchers have {run.kept_at_end:,}",
    ]


def _longest_steps(longest_step_ms: dict[str, float]) -> str:
    slowest = sorted(longest_step_ms.items(), key=lambda item: -item[1])[:6]
    return "  longest steps     processor time: " + ", ".join(f"{name} {took_ms} ms" for name, took_ms in slowest)


def _gap(step: str, gap: Gap | None) -> list[str]:
    """Each as: ran + waited for a processor, in milliseconds; then the same of its other threads."""
    if gap is None:
        return []
    ran_ms = sum(share.loop_ran_ms + share.others_ran_ms for share in gap.shares)
    busy = ran_ms / (gap.ms * (os.cpu_count() or 1)) if gap.ms else 0.0
    told = [
        f"{share.process} {share.loop_ran_ms:.0f}+{share.loop_waited_ms:.0f}"
        + (f" ({share.others_ran_ms:.0f}+{share.others_waited_ms:.0f})" if share.others_ran_ms >= 0.5 else "")
        for share in gap.shares
        if share.loop_ran_ms + share.loop_waited_ms + share.others_ran_ms >= 5
    ]
    return [
        f"  {step}: {gap.ms:.0f} ms without a delivery, {gap.begin_s:.2f} s after the question, in {gap.phase}; "
        f"processors {100 * busy:.0f} % busy; ms that each ran + waited for one (its other threads): {', '.join(told)}"
    ]


def _held(longest_pause_s: float) -> str:
    """Nothing was held where nothing came: the cut lasts some tens of milliseconds."""
    return f"{1000 * longest_pause_s:.1f} ms" if longest_pause_s else "nothing, no publication came in that time"


def _late(run: Totals) -> str:
    stolen = f"; other machines took {100 * run.stolen:.0f} % of the processors" if run.stolen >= 0.005 else ""
    return f"the publishers themselves were late by up to {run.generator_delay_ms} ms{stolen}"
