"""What came of killing, for people to read."""

from benchmarks.scaling.kills import Kill, Kills
from benchmarks.scaling.tables import ledger

_KEPT_UP = 0.95


def kill_table(kills: Kills) -> str:
    killed = sum(1 for kill in kills.kills if kill.victim)
    lines = [
        f"{killed} kills in {len(kills.kills)} scalings of one cluster, {kills.subscriptions:,} subscriptions loaded "
        f"in {kills.load_s} s",
        f"  {'participant':<19} {'killed':<14} {'scaling':<17} {'aimed':<9} {'hit':<9} {'end':<8} {'total s':>8} "
        f"{'back s':>7} {'gap ms':>7} {'wait ms':>8}",
        *map(_row, kills.kills),
        *ledger(kills),
        *_behind(kills),
        "  'hit' is the phase that stood in ZooKeeper at the kill, 'over' that the scaling had ended; 'back' is from "
        "the kill until all slices were there and deliveries had caught up; 'gap' is the longest without a delivery, "
        "'wait' that of a new subscription for its answer, '-' that none due then was asked for",
    ]
    missed = [f"{participant} in {phase}" for participant, phase in kills.never_hit()]
    lines += [f"  never hit, each time the phase was over before: {', '.join(missed)}"] if missed else []
    return "\n".join(lines)


def _row(kill: Kill) -> str:
    against = "" if kill.by_rule else "  against the rule"
    reason = f"  {kill.reason}" if kill.reason else ""
    return (
        f"  {kill.participant or '-':<19} {kill.victim or 'nobody':<14} {kill.step:<17} {kill.aimed or '-':<9} "
        f"{kill.hit or '-':<9} {kill.state:<8} {kill.total_s:>8.2f} {kill.back_s:>7.1f} {kill.longest_gap_ms:>7,} "
        f"{_wait(kill)}{against}{reason}"
    )


def _wait(kill: Kill) -> str:
    return f"{'-':>8}" if kill.longest_wait_ms is None else f"{kill.longest_wait_ms:>8,}"


def _behind(kills: Kills) -> list[str]:
    """The rate is part of what is claimed, so it is said when it was not kept."""
    if kills.new_asked >= _KEPT_UP * kills.new_due:
        return []
    asked = f"{kills.new_asked:,} ({kills.new_asked / kills.new_due:.0%})"
    return [f"  the rate of new subscriptions was NOT kept: {kills.new_due:,} were due, {asked} asked"]
