"""Subscriptions to topics of posts: nodes of the tree, some with wildcards.

Every node of a level is asked for equally often. A post lies below one node of each level, so the same number of
subscriptions concerns it, whatever its topic is. Most posts are about few topics, so nodes are dealt out in turn: drawn
by chance, those few would be asked for more or less often than all others. Whoever takes the first subscriptions only
has some of every level: as many that concern a post, on average, as their share of all is.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.errors import ExperimentError
from spark.workloads.chance import Chance, chosen
from spark.workloads.posts import CONVERSATION_LEVELS, TOPIC_LEVELS
from spark.workloads.subscriptions import Rung, blended, share_of, with_subscription

LEVELS = TOPIC_LEVELS + CONVERSATION_LEVELS
CHILDREN = 10

# A node of each depth; nobody asks for everything unless it takes so many matches.
LADDER = tuple(Rung(depth, float(CHILDREN) ** -depth) for depth in range(LEVELS + 1))


def generate(rows: DataFrame, seed: int, count: int, matches: float) -> DataFrame:
    """From a column `number`, whose values are below `count`."""
    share = share_of(count, matches)
    depths = blended(LADDER, share)
    if not depths:
        raise ExperimentError(
            f"each subscription would have to match {share:.1e} of all topics, but there are only "
            f"{CHILDREN**LEVELS}; give more --matches or fewer --rows"
        )
    chance = Chance(seed, F.col("number"))
    plain = [(weight, _node(seed, depth)) for weight, depth in depths]
    wild = [(weight, _wildcard(chance, seed, depth)) for weight, depth in depths]
    uniform = chance.uniform("depth")
    topic = F.when(chance.uniform("wildcard") < 0.2, chosen(uniform, wild)).otherwise(chosen(uniform, plain))
    return with_subscription(rows, topic=topic)


def _node(seed: int, depth: int) -> Column:
    return F.concat_ws(".", *_levels(seed, depth)) if depth else F.lit("#")


def _wildcard(chance: Chance, seed: int, depth: int) -> Column:
    """A level more, of which one stands for all: that leaves the share as it is. The last one cannot be it."""
    if not 1 <= depth < LEVELS:
        return _node(seed, depth)
    levels = _levels(seed, depth + 1)
    any_one = chance.below(depth, "any")
    marked = [F.when(any_one == place, F.lit("+")).otherwise(level) for place, level in enumerate(levels)]
    return F.concat_ws(".", *marked, F.lit("#"))


def _levels(seed: int, depth: int) -> list[Column]:
    """The digits of the number, each turned by chance, otherwise below each node of the level above.

    So every node has its turn before one has another, and the first numbers, whose higher digits are all 0, have any
    child there.
    """
    number, levels = F.col("number"), []
    for place in range(depth):
        above = F.pmod(number, F.lit(CHILDREN**place))
        turn = Chance(seed, above).below(CHILDREN, f"level {place}")
        levels.append(F.pmod(F.floor(number / CHILDREN**place) + turn, F.lit(CHILDREN)).cast("string"))
    return levels
