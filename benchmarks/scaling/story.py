"""What each of several scalings of one cluster cost, one after another under the same traffic."""

from itertools import pairwise

import msgspec

from benchmarks.scaling.measured import (
    Gap,
    Observed,
    Scaled,
    Totals,
    Window,
    binned,
    gap_of,
    in_ms,
    longest_waits,
    phases_of,
    totals,
    window,
    windows,
)


class Told(msgspec.Struct, kw_only=True):
    """One step; the times of its windows are since it was asked for."""

    step: str
    state: str
    reason: str
    asked_s: float  # since the time line began
    total_s: float
    phase_s: dict[str, float]
    moved: int
    longest_pause_s: float
    before: Window  # the calm since the step before
    during: Window  # from the question to the end, which has the next three in it
    starting: Window
    copying: Window
    moving: Window
    after: Window
    longest_step_ms: dict[str, float]
    gap: Gap | None  # where somebody watched


class Story(Totals, kw_only=True):
    steps: list[Told]
    bins: list[int]  # deliveries in each `BIN_S` of the time line
    waits_s: list[tuple[float, float]]  # the longest wait for an acknowledgement in each bin

    def wrong(self) -> list[str]:
        return [*super().wrong(), *(f"{told.step} {told.state}" for told in self.steps if told.state != "done")]


def story_of(observed: Observed) -> Story:
    begin_s, end_s = observed.begin_s, observed.end_s
    ends = [scaled.asked_s + sum(scaled.phase_s.values()) for scaled in observed.scaled]
    begins = [begin_s, *ends[:-1]]
    nexts = [*(later.asked_s for _, later in pairwise(observed.scaled)), end_s]
    return Story(
        **totals(observed),
        steps=[
            _told(observed._replace(begin_s=since_s, end_s=until_s), scaled, begin_s)
            for scaled, since_s, until_s in zip(observed.scaled, begins, nexts, strict=True)
        ],
        bins=binned(observed.received.arrived_s, begin_s, end_s),
        waits_s=longest_waits(observed.new.waits, begin_s, end_s, begin_s),
    )


def _told(around: Observed, scaled: Scaled, began_s: float) -> Told:
    before, starting, copying, moving, after = windows(around, phases_of(scaled))
    done_s = scaled.asked_s + moving.end_s
    return Told(
        step=scaled.name,
        state=scaled.state,
        reason=scaled.reason,
        asked_s=round(scaled.asked_s - began_s, 3),
        total_s=scaled.total_s,
        phase_s=scaled.phase_s,
        moved=scaled.moved,
        longest_pause_s=round(scaled.longest_pause_s, 4),
        before=before,
        during=window(around, "during", scaled.asked_s, done_s, scaled.asked_s),
        starting=starting,
        copying=copying,
        moving=moving,
        after=after,
        longest_step_ms=in_ms(scaled.steps_s),
        gap=gap_of(around, scaled),
    )
