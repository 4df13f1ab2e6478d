"""Learns a map of words, for `braid scale --map`, from what `braid experiment words` has counted.

The statistics stay in Spark; what the driver holds is bounded: the words of the map, and the sampled posts as numbers.
"""

from typing import NamedTuple

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from braid.anchor_map import ANCHORS_MAX, PARTS_MAX
from braid.anchors import place_of, text_of_words
from braid.selector import Ring
from braid.topology import slice_name
from spark.errors import ExperimentError
from spark.requests import Map
from spark.words.dividing import NOWHERE, Judged, Numbers, divide, judge
from spark.words.stemming import is_own_stem, numbered

JUDGING = 5  # one in so many posts is not learned from, but judges what was learned


class Learned(NamedTuple):
    part_of: dict[str, int]
    posts_learned: int
    posts_judged: int
    hashed: Judged  # without the map
    mapped: Judged


def check(request: Map) -> None:
    """Everything that can be seen to be wrong before Spark starts."""
    if not 2 <= request.parts <= PARTS_MAX:
        raise ExperimentError(f"--parts must be from 2 to {PARTS_MAX}; mostly as many as there are matchers")
    if not 1 <= request.limit <= ANCHORS_MAX:
        raise ExperimentError(f"--limit must be from 1 to {ANCHORS_MAX}, which is the most that a map names")
    if request.out.is_dir():
        raise ExperimentError(f"{request.out} is a directory; --out names a file")
    if request.out.exists() and not request.overwrite:
        raise ExperimentError(f"{request.out} is there already; --overwrite replaces it, or name another file")


def learn(frequencies: DataFrame, sample: DataFrame, wanted: DataFrame | None, *, parts: int, limit: int) -> Learned:
    """From tables of `braid experiment words`, and the words that are wanted, if that is known."""
    words = vocabulary(frequencies, wanted, limit)
    if not words:
        raise ExperimentError("none of the words that occur is wanted by a subscription: there is nothing to map")
    learning, judging = split(sample, words)
    if not learning or not judging:
        raise ExperimentError("there are too few posts to learn from and to judge by; count the words of more of them")
    divided, hashed = divide(learning, len(words), parts), hashed_parts(words, parts)
    mapped = np.where(divided == NOWHERE, hashed, divided)
    return Learned(
        {word: int(part) for word, part in zip(words, divided, strict=True) if part != NOWHERE},
        len(learning),
        len(judging),
        judge(judging, hashed, parts),
        judge(judging, mapped, parts),
    )


def vocabulary(frequencies: DataFrame, wanted: DataFrame | None, limit: int) -> list[str]:
    """The most frequent words that a map can name: a subscription on a stem that stems to another one is placed by the
    word as it was written, which is not known here.
    """
    known = frequencies.where(is_own_stem(F.col("word")))
    if wanted is not None:
        known = known.join(wanted, "word", "left_semi")
    return [row["word"] for row in known.orderBy("rank").limit(limit).select("word").collect()]


def split(sample: DataFrame, words: list[str]) -> tuple[list[list[int]], list[list[int]]]:
    """The posts to learn from and those to judge by, as numbers of words; both are bounded by the sample."""
    is_judging = F.pmod(F.xxhash64("words", F.lit("judging")), F.lit(JUDGING)) == 0
    numbers = {word: number for number, word in enumerate(words)}
    learning, judging = (
        [row["words"] for row in numbered(sample.where(chosen), numbers).collect()]
        for chosen in (~is_judging, is_judging)
    )
    return learning, judging


def hashed_parts(words: list[str], parts: int) -> Numbers:
    """Where they lie without a map, on as many matchers."""
    names = [slice_name("matcher", number + 1) for number in range(parts)]
    ring = Ring(tuple(names))
    owners = (ring.owner(place_of(text_of_words(word)) << 32) for word in words)
    return np.array([names.index(owner) for owner in owners])
