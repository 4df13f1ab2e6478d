"""What came of killing: how each scaling ended, and the ledger of the whole run."""

from typing import NamedTuple

import msgspec

from benchmarks.scaling.kill_cases import NO_KILL, Case, ends_by_rule
from benchmarks.scaling.killing import Hit
from benchmarks.scaling.measured import Observed, Scaled, Totals, in_whole_ms, longest_gap_s, totals


class Attempt(NamedTuple):
    case: Case
    hit: Hit
    scaled: Scaled
    settled_s: float  # when everybody was back, since 1970


class Kill(msgspec.Struct, kw_only=True):
    """One scaling with a kill, or without one where the cluster was only brought back."""

    participant: str
    victim: str  # the slice; empty when nobody was killed
    step: str
    aimed: str
    hit: str
    state: str
    reason: str
    by_rule: bool
    total_s: float
    phase_s: dict[str, float]
    back_s: float  # from the kill until everybody was there and deliveries had caught up
    longest_gap_ms: int
    longest_wait_ms: int | None  # of a new subscription for its answer; None: none that was due then was asked for


class Kills(Totals, kw_only=True):
    kills: list[Kill]

    def wrong(self) -> list[str]:
        """What had to be sent again after a crash may come late, so order is reported only."""
        ends = [f"{kill.participant} in {kill.hit}: {kill.state}" for kill in self.kills if not kill.by_rule]
        never = [f"{participant} was never killed in {phase}" for participant, phase in self.never_hit()]
        return [*self.wrong_in_ledger(order_counts=False), *ends, *never]

    def never_hit(self) -> list[Case]:
        aimed = [Case(kill.participant, kill.aimed) for kill in self.kills if kill.participant != NO_KILL]
        hit = {Case(kill.participant, kill.hit) for kill in self.kills}
        return [case for case in dict.fromkeys(aimed) if case not in hit]


def kills_of(observed: Observed, attempts: list[Attempt]) -> Kills:
    return Kills(**totals(observed), kills=[_kill(observed, attempt) for attempt in attempts])


def _kill(observed: Observed, attempt: Attempt) -> Kill:
    (participant, aimed), hit, scaled, settled_s = attempt
    waits_s = [wait_s for due_s, wait_s in observed.new.waits if scaled.asked_s <= due_s < settled_s]
    return Kill(
        participant=participant,
        victim=hit.victim,
        step=scaled.name,
        aimed=aimed,
        hit=hit.phase if participant != NO_KILL else "",
        state=scaled.state,
        reason=scaled.reason,
        by_rule=ends_by_rule(participant, hit.phase, scaled.state),
        total_s=scaled.total_s,
        phase_s=scaled.phase_s,
        back_s=round(settled_s - hit.at_s, 1) if hit.victim else 0.0,
        longest_gap_ms=in_whole_ms(longest_gap_s(observed.received.arrived_s, scaled.asked_s, settled_s)),
        longest_wait_ms=in_whole_ms(max(waits_s)) if waits_s else None,
    )
