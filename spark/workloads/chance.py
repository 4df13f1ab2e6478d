"""Random numbers as columns. They depend on keys, a seed and a name, never on partitions as `rand()` does."""

import math
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F


class Chance:
    """Everything random about what the keys identify. Each name gives another number, and the same one every time."""

    def __init__(self, seed: int, *keys: Column) -> None:
        self._seed = F.lit(seed).cast("long")
        # A hash depends on the type, too.
        self._keys = [key.cast("long") for key in keys]

    def uniform(self, name: str) -> Column:
        """At least 0 and less than 1, of all the steps that a double has there."""
        return F.shiftrightunsigned(self._bits(name), 11) * F.lit(2.0**-53)

    def below(self, limit: int, name: str) -> Column:
        """An integer from 0 on; any of them is as likely as the others."""
        return F.pmod(self._bits(name), F.lit(limit).cast("long"))

    def normal(self, name: str) -> Column:
        """Around 0 with deviation 1, by Box and Muller."""
        distance = F.sqrt(F.lit(-2.0) * F.log(F.lit(1.0) - self.uniform(f"{name} distance")))
        return distance * F.cos(F.lit(2 * math.pi) * self.uniform(f"{name} angle"))

    def zipf(self, ranks: int, name: str) -> Column:
        """A rank from 0 on; the chance of each is given by `zipf_chance`."""
        return zipf_rank(self.uniform(name), ranks)

    def _bits(self, name: str) -> Column:
        return F.xxhash64(*self._keys, self._seed, F.lit(name))


def zipf_rank(uniform: Column, ranks: int) -> Column:
    # The logarithm of a rank is spread evenly. Rounding may touch the upper end.
    rank = F.floor(F.pow(F.lit(float(ranks + 1)), uniform)) - 1
    return F.least(rank, F.lit(ranks - 1)).cast("long")


def zipf_chance(rank: int, ranks: int) -> float:
    """Nearly 1 / (rank + 1), up to a factor."""
    return math.log((rank + 2) / (rank + 1)) / math.log(ranks + 1)


def chosen(uniform: Column, options: Sequence[tuple[float, Column]]) -> Column:
    """One of the options, each with its weight; the weights add up to 1."""
    below = 0.0
    *most, (_, last) = options
    choice = F.when(F.lit(False), last)
    for weight, option in most:
        below += weight
        choice = choice.when(uniform < below, option)
    return choice.otherwise(last)


def normal_share(deviations: Column) -> Column:
    """How much of a normal distribution lies below; the usual logistic approximation, wrong by at most 0.0002."""
    return F.lit(1.0) / (F.lit(1.0) + F.exp(-(deviations * 1.5976 + F.pow(deviations, F.lit(3.0)) * 0.07056)))
