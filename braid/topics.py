"""Topics: nodes of a tree, written as a path (`sports/soccer`) or as a Dewey number (`1.4.2`).

A topic is the tuple of its levels, so the number `1.4.2` and the path `1/4/2` are the same node. A subscription names
its nodes by a pattern, in which `+` stands for any one level and a last `#` for any number of levels. The language is
defined in `docs/subscriptions.md`.
"""

import re
from functools import lru_cache

SCOPES = ("self", "below", "both")
LEVELS_MAX = 32
ONE_LEVEL, ANY_LEVELS = WILDCARDS = ("+", "#")

_TOPICS_CACHED_MAX = 10_000  # publications come on the same topics again and again


@lru_cache(maxsize=_TOPICS_CACHED_MAX)
def parse_topic(text: str) -> tuple[str, ...]:
    """The levels of a publication's topic; `ValueError` says what is wrong with it."""
    if ONE_LEVEL in text or ANY_LEVELS in text:
        raise ValueError(
            f"a publication has one topic, so '{ONE_LEVEL}' and '{ANY_LEVELS}' cannot be part of it; "
            "they stand for levels in subscriptions"
        )
    return _split(text, _NUMBER)


def parse_pattern(text: str) -> tuple[str, ...]:
    """The levels of a subscription's topic, which may be wildcards; `ValueError` says what is wrong with it."""
    levels = _split(text, _NUMBER_PATTERN)
    for place, level in enumerate(levels):
        for wildcard in WILDCARDS:
            if wildcard in level and level != wildcard:
                raise ValueError(f"'{wildcard}' stands for a whole level, it cannot be a part of the level '{level}'")
        if level == ANY_LEVELS and place != len(levels) - 1:
            raise ValueError(f"'{ANY_LEVELS}' can only be the last level; '{ONE_LEVEL}' stands for one level anywhere")
    return levels


@lru_cache(maxsize=_TOPICS_CACHED_MAX)
def canonical_topic(levels: tuple[str, ...]) -> str:
    """The one spelling of a topic or a pattern: dots where all levels are numbers or wildcards, else slashes."""
    numbers = 0
    for level in levels:
        if level.isascii() and level.isdigit():
            numbers += 1
        elif level not in WILDCARDS:
            return "/".join(levels)
    # Without any number it would not be read back as one.
    return ("." if numbers else "/").join(levels)


def has_wildcard(pattern: tuple[str, ...]) -> bool:
    return ONE_LEVEL in pattern or pattern[-1] == ANY_LEVELS


def default_scope(pattern: tuple[str, ...]) -> str:
    """Wildcards say themselves how far they reach, as in MQTT; a plain node takes its whole line of the tree."""
    return "self" if has_wildcard(pattern) else "both"


def matches(pattern: tuple[str, ...], scope: str, topic: tuple[str, ...]) -> bool:
    """Whether the topic is one of the pattern's nodes, or in scope above or below one."""
    open_ended = pattern[-1] == ANY_LEVELS
    levels = pattern[:-1] if open_ended else pattern
    for wanted, level in zip(levels, topic, strict=False):
        if wanted not in (level, ONE_LEVEL):
            return False
    if len(topic) < len(levels):
        return scope == "both"
    return len(topic) == len(levels) or open_ended or scope != "self"


_NUMBER = re.compile(r"(?=.*[0-9])[0-9.]+")
_NUMBER_PATTERN = re.compile(r"(?=.*[0-9])[0-9.+#]+")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def _split(text: str, number: re.Pattern[str]) -> tuple[str, ...]:
    if not text:
        raise ValueError("a topic needs at least one level, for example 'sports/soccer' or '1.4.2'")
    separator = "." if number.fullmatch(text) else "/"
    levels = tuple(text.split(separator))
    if len(levels) > LEVELS_MAX:
        raise ValueError(f"a topic has at most {LEVELS_MAX} levels, this has {len(levels)}")
    if "" in levels:
        raise ValueError(
            f"the level {levels.index('') + 1} of '{text}' is empty; write something between two '{separator}', "
            "and none at the ends"
        )
    if _CONTROL_CHARACTER.search(text):
        raise ValueError("a topic has no control characters")
    if separator == "/" and "." in levels[0] and _NUMBER.fullmatch(levels[0]):
        # Its own first level could not be named: alone it would be a number of several levels.
        instead = "/".join((levels[0].replace(".", "/"), *levels[1:]))
        raise ValueError(f"'{levels[0]}' cannot begin a path; write '{instead}'")
    return levels
