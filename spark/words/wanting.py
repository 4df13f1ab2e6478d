"""Which words subscriptions are placed by: only these make a post visit anybody."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from braid.anchors import text_of
from braid.config import Limits
from braid.problems import Problem
from braid.subscription import check_subscription, decode_subscription

_WORDS = "words:"


def wanted_words(subscriptions: DataFrame) -> DataFrame:
    """From a column `subscription`, the JSON that `POST /v1/subscriptions` takes, to a column `word`, each once."""
    word = F.udf(anchor_word, "string", useArrow=False)(F.col("subscription"))
    return subscriptions.select(word.alias("word")).where("word is not null").distinct()


def anchor_word(subscription: str | None) -> str | None:
    """None for one that is placed by something else, or that no connection point would take."""
    try:
        given = decode_subscription(subscription or "")
        record = check_subscription(given, Limits(), 0.0, id="", subscriber="", home="", temporary=False)
    except (Problem, ValueError):
        return None
    anchor = text_of(record)
    return anchor.removeprefix(_WORDS) if anchor.startswith(_WORDS) else None
