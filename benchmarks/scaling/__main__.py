"""`./dev bench scaling`: what a scaling costs while publications, subscriptions and deliveries go on.

Subscriptions are loaded, then publications and new subscriptions come at constant rates, then a layer is scaled. A
process of its own receives everything: it knows what was lost, came twice or out of order, and when nothing came.

With --kill one cluster goes through many scalings, and in each of them one participant is killed in one phase. Then
order is not promised for what had to be sent again, and a scaling is done or given up as the phase demands.

With --story one cluster goes through several scalings, one after another under the same traffic, and the ledger is
that of the whole run. The exit code is 1 when something was lost, came twice or out of order, or a step was not done.

New subscriptions stay, as in a cluster that grows: 1,000 each second are 120,000 more after two minutes, and a later
step moves more than an earlier one. Beyond --new-max each takes the place of the oldest one.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks.scaling.experiment import Options, Script, run, steps_in_turn
from benchmarks.scaling.kill_cases import PARTICIPANTS, cases_of
from benchmarks.scaling.kill_run import KillRun
from benchmarks.scaling.kill_table import kill_table
from benchmarks.scaling.kills import Kills, kills_of
from benchmarks.scaling.measured import Measured, Observed, measured_of
from benchmarks.scaling.picture import draw, draw_story
from benchmarks.scaling.steps import STORY, Step, steps_of
from benchmarks.scaling.story import Story, story_of
from benchmarks.scaling.tables import story_table, table
from braid.topology import CONFIGURED_LAYERS, PHASES, ROUTINGS

_EPILOG = """examples:
  ./dev bench scaling
  ./dev bench scaling --subscriptions 10000,100000 --picture scaling.svg
  ./dev bench scaling --from 3 --to 1 --json
  ./dev bench scaling --layer exitpoint --to 2 --routing anchored
  ./dev bench scaling --story --picture story.svg
  ./dev bench scaling --story --gaps
  ./dev bench scaling --kill
  ./dev bench scaling --kill --subscriptions 5000 --kill-participants "new matcher,exitpoint" --kill-phases moving
  ./dev bench scaling --steps "matcher=3 routing=anchored replace=matcher-1" --seconds 3"""


def main() -> None:
    given = _arguments(sys.argv[1:])
    results = [_measure(subscriptions, given) for subscriptions in given.subscriptions]
    if given.json:
        print(msgspec.json.format(msgspec.json.encode(results), indent=2).decode())
    wrong = [what for result in results for what in result.wrong()]
    if wrong:
        sys.exit(f"failed: {', '.join(wrong)}")


def _measure(subscriptions: int, given: argparse.Namespace) -> Measured | Story | Kills:
    """One run, shown when it has ended."""
    layer, before = given.layer or "matcher", given.before or 1
    # New subscriptions have a door of their own: the scaling is to be measured, not the load of one process.
    slices = f"connpoint=2,{layer}={before}"
    options = Options(slices, given.routing, given.rate, given.new_rate, given.new_max, given.data, given.gaps)
    result: Measured | Story | Kills
    if given.kill:
        cases = cases_of(given.kill_participants, given.kill_phases)
        killing = KillRun(cases, given.kill_attempts, given.seconds, given.rate)
        result = kills_of(_run(subscriptions, killing, options), killing.attempts)
        shown, picture = kill_table(result), ""
    elif given.steps:
        result = story_of(_run(subscriptions, steps_in_turn(given.steps, given.seconds), options))
        shown, picture = story_table(result), draw_story(result)
    else:
        step = Step(layer, str(given.to or 3))
        result = measured_of(_run(subscriptions, steps_in_turn([step], given.seconds), options))
        shown, picture = table(result), draw(result)
    if given.picture is not None:
        given.picture.write_text(picture)
    if not given.json:
        print(shown, flush=True)
    return result


def _run(subscriptions: int, script: Script, options: Options) -> Observed:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=None)
        return uvloop.run(run(subscriptions, script, options, lambda step: progress.update(task, description=step)))


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench scaling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EPILOG,
    )
    parser.add_argument("--subscriptions", type=_numbers, default=[100_000], help="loaded before (default 100000)")
    parser.add_argument("--layer", choices=CONFIGURED_LAYERS, help="what is scaled (default matcher)")
    parser.add_argument("--from", dest="before", type=int, help="slices before (default 1)")
    parser.add_argument("--to", type=int, help="slices after (default 3)")
    parser.add_argument(
        "--story", dest="steps", action="store_const", const=steps_of(STORY), help=f"the steps: {STORY}"
    )
    parser.add_argument(
        "--steps",
        type=_steps,
        help="other steps than those of the story: LAYER=NUMBER, replace=SLICE, replace=LAYER (the first one it has "
        "then), routing=NAME",
    )
    parser.add_argument("--routing", choices=ROUTINGS, help="switched to before anything is loaded")
    parser.add_argument("--rate", type=float, default=2000.0, help="publications per second (default 2000)")
    parser.add_argument("--new-rate", type=float, default=1000.0, help="new subscriptions per second (default 1000)")
    parser.add_argument("--new-max", type=int, help="of them at a time (default 200000, with --kill 50000); see above")
    parser.add_argument("--seconds", type=float, help="of calm before and after each step (default 5, with --kill 2)")
    parser.add_argument("--data", type=Path, help="an empty directory for the cluster, which is kept with its logs")
    parser.add_argument("--picture", type=Path, help="SVG of the last run")
    parser.add_argument("--json", action="store_true", help="everything, also the deliveries in each 50 ms")
    parser.add_argument(
        "--gaps", action="store_true", help="also who had the processors in the longest gap; costs 2 %% of one"
    )
    parser.add_argument("--kill", action="store_true", help="kill each participant in each phase")
    parser.add_argument(
        "--kill-participants",
        type=partial(_names, among=PARTICIPANTS),
        default=PARTICIPANTS,
        help=f"only these of {', '.join(PARTICIPANTS)}",
    )
    parser.add_argument(
        "--kill-phases", type=partial(_names, among=PHASES), default=PHASES, help=f"only these of {', '.join(PHASES)}"
    )
    parser.add_argument(
        "--kill-attempts", type=int, default=3, help="to hit a phase that may be over before (default 3)"
    )
    given = parser.parse_args(arguments)
    given.new_max = given.new_max or (50_000 if given.kill else 200_000)
    given.seconds = given.seconds if given.seconds is not None else (2.0 if given.kill else 5.0)
    if given.kill and (given.steps or given.layer or given.before or given.to or given.picture):
        parser.error("--kill has steps of its own, and no picture")
    if given.steps and (given.layer or given.before or given.to):
        parser.error("--layer, --from and --to are for one step; name the steps of several with --steps")
    if given.data is not None and len(given.subscriptions) > 1:
        parser.error("--data is for one run; give one number of subscriptions")
    return given


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _names(text: str, among: Sequence[str]) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in among:
            raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(among)}")
    return names


def _steps(text: str) -> list[Step]:
    try:
        return steps_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    main()
