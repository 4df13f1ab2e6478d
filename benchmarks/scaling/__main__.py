"""`./dev bench scaling`: what a scaling costs while publications, subscriptions and deliveries go on.

Subscriptions are loaded, then publications and new subscriptions come at constant rates, then a layer is scaled. A
process of its own receives everything: it knows what was lost, came twice or out of order, and when nothing came.
"""

import argparse
import sys
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks.scaling.experiment import Options, run
from benchmarks.scaling.measured import PHASES, Measured
from benchmarks.scaling.picture import draw

GAP_MS_MAX, STEP_MS_MAX = 250.0, 20.0  # to reach


def main() -> None:
    given = _arguments(sys.argv[1:])
    options = Options(given.layer, given.before, given.to, given.rate, given.new_rate, given.seconds)
    results = []
    for subscriptions in given.subscriptions:
        results.append(_run(subscriptions, options))
        if given.picture is not None:
            given.picture.write_text(draw(results[-1]))
        if not given.json:
            print(_table(results[-1]), flush=True)
    if given.json:
        print(msgspec.json.format(msgspec.json.encode(results), indent=2).decode())
    if any(measured.lost or measured.twice or measured.out_of_order for measured in results):
        sys.exit("failed: something was lost, came twice or out of order")
    if any(measured.state != "done" for measured in results):
        sys.exit("failed: a scaling was given up")


def _run(subscriptions: int, options: Options) -> Measured:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=None)
        return uvloop.run(run(subscriptions, options, lambda step: progress.update(task, description=step)))


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench scaling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
        "  ./dev bench scaling\n"
        "  ./dev bench scaling --subscriptions 10000,100000 --picture scaling.svg\n"
        "  ./dev bench scaling --from 3 --to 1 --json\n"
        "  ./dev bench scaling --layer exitpoint --to 2",
    )
    parser.add_argument("--subscriptions", type=_numbers, default=[100_000], help="loaded before (default 100000)")
    parser.add_argument("--layer", choices=("matcher", "accesspoint", "exitpoint"), default="matcher")
    parser.add_argument("--from", dest="before", type=int, default=1, help="slices before (default 1)")
    parser.add_argument("--to", type=int, default=3, help="slices after (default 3)")
    parser.add_argument("--rate", type=float, default=2000.0, help="publications per second (default 2000)")
    parser.add_argument("--new-rate", type=float, default=1000.0, help="new subscriptions per second (default 1000)")
    parser.add_argument("--seconds", type=float, default=5.0, help="measured before and after (default 5)")
    parser.add_argument("--picture", type=Path, help="SVG of the last run")
    parser.add_argument("--json", action="store_true", help="everything, also the deliveries in each 50 ms")
    return parser.parse_args(arguments)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _table(measured: Measured) -> str:
    phases = ", ".join(f"{phase} {measured.phase_s.get(phase, 0.0):.3f}" for phase in PHASES)
    lines = [
        f"{measured.step}, {measured.subscriptions:,} subscriptions loaded in {measured.load_s} s",
        f"  {measured.state} in {measured.total_s:.3f} s, of which {phases}; {measured.moved:,} subscriptions moved",
        f"  of {measured.sent:,} publications lost {measured.lost}, twice {measured.twice}, "
        f"out of order {measured.out_of_order}",
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
    slowest = sorted(measured.longest_step_ms.items(), key=lambda item: -item[1])[:6]
    lines += [
        "  longest steps     processor time: " + ", ".join(f"{name} {took_ms} ms" for name, took_ms in slowest),
        f"  held at the cut   {1000 * measured.longest_pause_s:.1f} ms; "
        f"the publishers themselves were late by up to {measured.generator_delay_ms} ms",
        f"  to reach          gap {GAP_MS_MAX:g} ms, step {STEP_MS_MAX:g} ms",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
