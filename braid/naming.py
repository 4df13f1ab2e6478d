"""Which name a slice takes that was started without one. Pure.

Names go with data: a slice that comes back wants the directory that the slice before it has left, and whoever the
configuration names comes before others. Holding a name is decided by a lock (`braid.claiming`), so this only says in
which order names are tried.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from braid.topology import Configuration, Layer, Registration, slice_name

KEEPS_NOTHING: tuple[Layer, ...] = ("accesspoint", "exitpoint")  # anybody can be the one that is missing


def names_to_try(
    layer: Layer,
    here: Mapping[str, int | None],
    registered: Mapping[str, Registration],
    configuration: Configuration | None,
) -> Iterator[str]:
    """`here` are the names whose directories are on this machine, with the incarnation that held each of them last.

    A name that another incarnation is registered under is not tried: it lives elsewhere. Endless.
    """
    configured = [] if configuration is None else configuration.union(layer)
    free = [name for name in here if name not in registered or registered[name].incarnation == here[name]]
    yield from in_order_of_numbers(name for name in free if name in configured)
    if layer in KEEPS_NOTHING:
        yield from in_order_of_numbers(name for name in configured if name not in registered and name not in here)
    yield from in_order_of_numbers(name for name in free if name not in configured)
    for number in count(1):
        name = slice_name(layer, number)
        if name not in here and name not in registered and name not in configured:
            yield name


def in_order_of_numbers(names: Iterable[str]) -> list[str]:
    """`matcher-2` before `matcher-10`, and before names without a number."""
    return sorted(names, key=_place)


def _place(name: str) -> tuple[float, str]:
    number = re.search(r"\d+$", name)
    return (int(number.group()) if number else float("inf"), name)
