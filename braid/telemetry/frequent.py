"""The most frequent of very many names, in bounded memory.

Misra and Gries' algorithm in batches: when there are twice as many names as are kept, the count of the first one that
is too many is taken off all, and whoever has nothing left is forgotten. What a name is counted too low, or what a
forgotten one had, is at most the sum of what was taken off. Adding costs one step of a dict; forgetting is shared by as
many additions as names are kept.
"""


class FrequentNames:
    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._counts: dict[str, float] = {}
        self.missed = 0.0  # how much any name may have been hit more often than it is counted

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, name: str, count: float) -> None:
        counts = self._counts
        counts[name] = counts.get(name, 0.0) + count
        if len(counts) >= 2 * self._kept:
            self._forget_rare()

    def _forget_rare(self) -> None:
        off = sorted(self._counts.values(), reverse=True)[self._kept]
        self.missed += off
        self._counts = {name: count - off for name, count in self._counts.items() if count > off}

    def most(self, number: int) -> list[tuple[str, float]]:
        """The most frequent ones, and of equal ones those that come first in the alphabet."""
        return sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))[:number]

    def clear(self) -> None:
        self._counts, self.missed = {}, 0.0
