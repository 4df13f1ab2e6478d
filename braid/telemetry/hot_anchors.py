"""Which anchors are hit most: estimated, because to look at every match would cost as much as matching.

Every now and then a few publications of the run at hand are picked, and one match of each. It stands for all matches of
all publications since the last look, so that the hits of an anchor are right on average, however much there is. What it
costs is bounded by the clock, not by the traffic.
"""

from collections.abc import Callable, Sequence
from random import Random

from braid.telemetry.frequent import FrequentNames
from braid.telemetry.sample import ANCHOR_LENGTH_MAX, Hit

LOOK_EVERY_S = 0.02
PICKS = 4  # of one run
KEPT = 64  # anchors between two samples
SHOWN = 20  # in a sample


class HotAnchors:
    """`anchor_of` tells the anchor of an id that matched; None for one that has gone."""

    def __init__(self, anchor_of: Callable[[str], str | None], random: Random) -> None:
        self._anchor_of = anchor_of
        self._random = random.random
        self._names = FrequentNames(KEPT)
        self._look_at_s = 0.0
        self._unseen = 0  # publications since the last look

    def on_matched(self, ids: Sequence[Sequence[str]], now_s: float) -> None:
        """What each publication of a run matched. `now_s` is of a clock that does not jump."""
        self._unseen += len(ids)
        if now_s < self._look_at_s or not ids:
            return
        self._look_at_s = now_s + LOOK_EVERY_S
        picks = min(PICKS, len(ids))
        each_stands_for = self._unseen / picks
        self._unseen = 0
        step, begin = len(ids) / picks, self._random()
        for pick in range(picks):
            matched = ids[int((pick + begin) * step)]
            if matched:
                anchor = self._anchor_of(matched[int(self._random() * len(matched))])
                if anchor is not None:
                    self._names.add(anchor[:ANCHOR_LENGTH_MAX], each_stands_for * len(matched))

    def take(self) -> tuple[list[Hit], int]:
        """The hottest ones since the last time, and how much any other may have been hit at most."""
        most = self._names.most(SHOWN + 1)
        left_out = most[SHOWN][1] if len(most) > SHOWN else 0.0
        missed = round(self._names.missed + left_out)
        self._names.clear()
        return [Hit(name, round(count)) for name, count in most[:SHOWN]], missed
