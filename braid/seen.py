"""Which publications of an origin were seen already, in bounded memory.

Everything up to the watermark counts as seen; above it a set remembers. An origin has only a window of unconfirmed
publications, so the set is never larger than that window plus what is not pruned yet.
"""

_PRUNE_EVERY = 4096


class SeenSequences:
    def __init__(self) -> None:
        self.watermark = 0
        self._above: set[int] = set()
        self._pruned_at = 0

    def __contains__(self, sequence: int) -> bool:
        return sequence <= self.watermark or sequence in self._above

    def __len__(self) -> int:
        return len(self._above)

    def add(self, sequence: int) -> None:
        if sequence > self.watermark:
            self._above.add(sequence)

    def advance(self, watermark: int) -> None:
        """Pruning is put off until it pays, so that its cost per sequence is constant."""
        if watermark <= self.watermark:
            return
        self.watermark = watermark
        if watermark - self._pruned_at >= _PRUNE_EVERY or len(self._above) <= 16:
            self._pruned_at = watermark
            self._above = {sequence for sequence in self._above if sequence > watermark}
