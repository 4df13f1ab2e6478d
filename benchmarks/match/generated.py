"""Workloads made of random numbers: equalities that come in groups, independent equalities, ranges."""

from collections.abc import Iterator
from itertools import accumulate, count

from benchmarks.match.source import content, record, seeded
from braid.subscription import SubscriptionRecord

GROUP = 10  # subscriptions that ask for the same values, hence matches of every publication

_REGIONS, _KINDS, _STAGES, _APPLICATIONS = 8, 20, 3, 200


class Groups:
    """A: five equalities. Ten subscriptions share their values, every publication carries the values of one group."""

    def __init__(self, size: int) -> None:
        self._groups = max(1, size // GROUP)
        self._size = self._groups * GROUP

    def subscriptions(self) -> Iterator[SubscriptionRecord]:
        for number in count():
            within = number < self._size
            group = number % self._groups if within else self._groups + (number - self._size) // GROUP
            values = _values_of_group(group)
            yield record(number, " and ".join(f"{name} = '{value}'" for name, value in values.items()))

    def contents(self, count: int) -> list[bytes]:
        choose = seeded("groups", "contents")
        made = []
        for number in range(count):
            attributes = {
                "source": f"sensor-{choose.randrange(1000)}",
                **_values_of_group(choose.randrange(self._groups)),
                "message": f"request {choose.randrange(10**6)} took longer than expected",
                "trace": f"{choose.getrandbits(64):016x}",
            }
            made.append(content(number, attributes=attributes))
        return made


def _values_of_group(group: int) -> dict[str, str]:
    """The number tells groups apart; the other values are shared by many groups."""
    choose = seeded("group", group)
    return {
        "application": f"application-{choose.randrange(_APPLICATIONS)}",
        "kind": f"kind-{choose.randrange(_KINDS)}",
        "number": f"{group}",
        "region": f"region-{choose.randrange(_REGIONS)}",
        "stage": f"stage-{choose.randrange(_STAGES)}",
    }


class Independent:
    """A*: equalities on five of ten attributes. Values are drawn independently, frequent ones more often."""

    attributes = tuple(f"a{number}" for number in range(10))
    conditions = 5
    values = 12
    # The chance that two draws agree is 0.16, so 100,000 subscriptions have about ten matches for a publication.
    weights = tuple(accumulate(1 / rank for rank in range(1, values + 1)))

    def subscriptions(self) -> Iterator[SubscriptionRecord]:
        choose = seeded("independent", "subscriptions")
        for number in count():
            names = sorted(choose.sample(self.attributes, self.conditions))
            values = choose.choices(range(self.values), cum_weights=self.weights, k=self.conditions)
            yield record(
                number, " and ".join(f"{name} = 'v{value}'" for name, value in zip(names, values, strict=True))
            )

    def contents(self, count: int) -> list[bytes]:
        choose = seeded("independent", "contents")
        made = []
        for number in range(count):
            values = choose.choices(range(self.values), cum_weights=self.weights, k=len(self.attributes))
            attributes = {name: f"v{value}" for name, value in zip(self.attributes, values, strict=True)}
            made.append(content(number, attributes=attributes))
        return made


class Ranges:
    """C: a range on three to five of five numbers, which are spread evenly between 0 and 1."""

    seed = "ranges"
    attributes = tuple(f"x{number}" for number in range(5))
    conditions = (3, 5)  # at least, at most
    chance = 1e-4  # that a subscription matches: ten matches among 100,000

    def subscriptions(self) -> Iterator[SubscriptionRecord]:
        choose = seeded(self.seed, "subscriptions")
        for number in count():
            names = sorted(choose.sample(self.attributes, choose.randint(*self.conditions)))
            width = self.chance ** (1 / len(names))
            conditions = []
            for name in names:
                low = choose.uniform(0, 1 - width)
                conditions.append(f"{name} between {round(low, 6)!r} and {round(low + width, 6)!r}")
            yield record(number, " and ".join(conditions))

    def contents(self, count: int) -> list[bytes]:
        choose = seeded(self.seed, "contents")
        return [
            content(number, attributes={name: round(choose.random(), 6) for name in self.attributes})
            for number in range(count)
        ]


class RangesOfMany(Ranges):
    """C*: a range on three of twenty numbers. So few subscriptions have ranges on just the same ones."""

    seed = "ranges of many"
    attributes = tuple(f"x{number}" for number in range(20))
    conditions = (3, 3)
