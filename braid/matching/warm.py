"""Compiles the whole engine ahead of time, by using a small index in every way there is.

`python -m braid.matching.warm` does so once for each state of the sources; with `--check` it only says by its exit code
whether that was done.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from braid.matching import compiled

if TYPE_CHECKING:
    from braid.matching.index import MatchIndex

_NOW_S = 1_000_000_000.0
_MADRID = {"type": "circle", "lat": 40.4168, "lon": -3.7038, "radius_m": 500.0}
_SQUARE = [[-3.0, 40.0], [-2.0, 40.0], [-2.0, 41.0], [-3.0, 41.0], [-3.0, 40.0]]
_ZONES: tuple[dict[str, Any], ...] = (
    {"type": "point", "lat": 40.4168, "lon": -3.7038},
    {"type": "point", "lat": 0.0, "lon": 180.0},
    {"type": "box", "south": -80.0, "west": -170.0, "north": 80.0, "east": 170.0},
    {"type": "Polygon", "coordinates": [_SQUARE]},
    _MADRID,
)


def warm(progress: Callable[[str], None] = lambda _: None) -> None:
    """Loads what is compiled, compiles what is not, and remembers that all of it is there."""
    if compiled.is_complete():
        _use_everything(lambda _: None)
        return
    with compiled.completing():
        _use_everything(progress)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m braid.matching.warm", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compile nothing; exit code 1 when something is missing")
    if parser.parse_args(arguments).check:
        return 0 if compiled.is_complete() else 1
    warm(lambda step: print(step, flush=True))
    return 0


def _use_everything(progress: Callable[[str], None]) -> None:
    from braid.matching.index import MatchIndex  # imports numba

    began = time.perf_counter()
    index = MatchIndex()
    for what, use in (("adding and removing", _change), ("matching", _match), ("anchors", _look)):
        use(index)
        progress(f"{what}: {time.perf_counter() - began:.1f} s")


def _change(index: "MatchIndex") -> None:
    from braid.subscription import SubscriptionRecord

    def record(id: str, filter: str = "", **parts: Any) -> SubscriptionRecord:
        return SubscriptionRecord(id, "anna", "connpoint-1", filter, 0.0, **parts)

    index.add(record("plain", "a = 1 and b = 'x' and c in (true, 2) and d between 1 and 2 and e prefix 'p'"))
    index.add(record("compiled", "not (a = 1) or b > 'x' or e contains 'p' or n > prev(n)", until_s=2 * _NOW_S))
    index.add(record("words", words=("white", "house")))
    index.add(record("topic", topic="sports/+", topic_scope="both"))
    index.add(record("zone", zone=_MADRID))
    index.add_many([record(f"many-{i}", f"n > {i} and m < {i}") for i in range(200)])
    index.remove("many-0")


def _match(index: "MatchIndex") -> None:
    from braid.content import Content, encode_content

    attributes: dict[str, Any] = {"a": 1, "b": "x", "c": True, "d": 1.5, "e": "pq", "n": 2**60 + 1, "m": 0}
    contents = [Content(zone=zone) for zone in _ZONES]
    contents += [
        Content(topic="sports/soccer", text="a white house", attributes=attributes, zone=zone) for zone in _ZONES
    ]
    index.match([*map(encode_content, contents), b'{ "id": "spelled differently" }', b"unreadable"], _NOW_S)
    index.match([encode_content(contents[-1])], _NOW_S, remember=False)


def _look(index: "MatchIndex") -> None:
    index.anchors_of("plain")
    assert len(list(index.under(index.anchors()))) == len(index)


if __name__ == "__main__":
    sys.exit(main())
