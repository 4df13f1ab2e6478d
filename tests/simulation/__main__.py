"""`./dev simulate --seeds 1000 --seed 1`: runs seeds, prints the transcript of the first that fails.

Unless one kind of cluster is asked for, they follow one another from seed to seed, so that each kind has its turn. A
seed and its kind tell the whole story: which one it was is printed with it.
"""

import argparse
import sys
import time
from collections.abc import Callable

from tests.simulation.cluster import Simulation
from tests.simulation.ending import EndingCrashingSimulation, EndingScalingSimulation, EndingSimulation
from tests.simulation.harder import CallsAreOvertaken, EachCrashesInEachPhase
from tests.simulation.kafka import (
    KafkaScalingSimulation,
    KafkaSimulation,
    TakenForDeadSimulation,
    TakenOverSimulation,
)
from tests.simulation.leaving import DeafToTheEndSimulation, LeavingScalingSimulation, PartingInTrouble
from tests.simulation.past import (
    DistinctScalingSimulation,
    DistinctSimulation,
    PastCrashingSimulation,
    PastScalingSimulation,
    PastSimulation,
)
from tests.simulation.previous import (
    PreviousCrashingSimulation,
    PreviousScalingSimulation,
    PreviousSimulation,
    SendersCrash,
)
from tests.simulation.rough import ForgettingSimulation, RoughSimulation
from tests.simulation.scaling import (
    CrashingScalingSimulation,
    DeafScalingSimulation,
    LateScalingSimulation,
    LingeringScalingSimulation,
    RoughScalingSimulation,
    ScalingSimulation,
    StallingScalingSimulation,
)
from tests.simulation.unheard import (
    MatchersStartAgainUnseen,
    OneHearsOfAnotherExitPointTooLate,
    OneHearsOfTheCutTooLate,
)

KINDS: dict[str, Callable[[int], Simulation]] = {
    "ordinary": Simulation,
    "rough": RoughSimulation,
    "forgetting": ForgettingSimulation,
    "scaling": ScalingSimulation,
    "late-scaling": LateScalingSimulation,
    "lingering-scaling": LingeringScalingSimulation,
    "deaf-scaling": DeafScalingSimulation,
    "rough-scaling": RoughScalingSimulation,
    "crashing-scaling": CrashingScalingSimulation,
    "each-crashes-scaling": EachCrashesInEachPhase,
    "stalling-scaling": StallingScalingSimulation,
    "overtaking-scaling": CallsAreOvertaken,
    "unseen-scaling": MatchersStartAgainUnseen,
    "late-cut-scaling": OneHearsOfTheCutTooLate,
    "late-exit-point-scaling": OneHearsOfAnotherExitPointTooLate,
    "leaving-scaling": LeavingScalingSimulation,
    "deaf-leaving-scaling": DeafToTheEndSimulation,
    "parting-in-trouble": PartingInTrouble,
    "kafka": KafkaSimulation,
    "kafka-taken-over": TakenOverSimulation,
    "kafka-taken-for-dead": TakenForDeadSimulation,
    "kafka-scaling": KafkaScalingSimulation,
    "past": PastSimulation,
    "past-scaling": PastScalingSimulation,
    "past-crashing": PastCrashingSimulation,
    "distinct": DistinctSimulation,
    "distinct-scaling": DistinctScalingSimulation,
    "ending": EndingSimulation,
    "ending-scaling": EndingScalingSimulation,
    "ending-crashing": EndingCrashingSimulation,
    "previous": PreviousSimulation,
    "previous-scaling": PreviousScalingSimulation,
    "previous-crashing": PreviousCrashingSimulation,
    "previous-senders-crash": SendersCrash,
}


def kind_of(seed: int) -> str:
    """Its turn."""
    return list(KINDS)[seed % len(KINDS)]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./dev simulate",
        description="The whole cluster in one process under a seeded scheduler.",
        epilog="examples: ./dev simulate --seeds 5000    ./dev simulate --seed 42 --kind rough --seeds 1 --transcript",
    )
    parser.add_argument("--seeds", type=int, default=500, help="how many seeds (default 500)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument(
        "--kind",
        choices=KINDS,
        help="only this one, such as rough, in which links break all the time (default: all of them in turn)",
    )
    parser.add_argument("--transcript", action="store_true", help="print what happened also when nothing went wrong")
    given = parser.parse_args()
    started = time.monotonic()
    delivered = 0
    for seed in range(given.seed, given.seed + given.seeds):
        kind = given.kind or kind_of(seed)
        simulation = KINDS[kind](seed)
        problems = simulation.run()
        delivered += sum(map(len, simulation.ledger.delivered.values()))
        if given.transcript or problems:
            print(f"seed {seed} of {kind}", *simulation.scheduler.transcript, sep="\n")
        if problems:
            print(f"seed {seed} of {kind} failed:", *problems[:20], sep="\n  ")
            sys.exit(1)
        if sys.stderr.isatty():
            print(f"\rseed {seed} of {kind:<30}", end="", file=sys.stderr)
    elapsed_s = time.monotonic() - started
    kinds = given.kind or f"{min(given.seeds, len(KINDS))} kinds in turn"
    found = f"{delivered} notifications, all guarantees held, {elapsed_s:.1f} s"
    print(f"{given.seeds} seeds from {given.seed} of {kinds}, {found}")


if __name__ == "__main__":
    main()
