"""How many slices of each layer: `1-3-2` is one access point, three matchers and two exit points."""

from typing import NamedTuple

SLICES_MAX = 16  # of one layer, in an experiment on one machine


class Layout(NamedTuple):
    accesspoints: int
    matchers: int
    exitpoints: int

    def __str__(self) -> str:
        return f"{self.accesspoints}-{self.matchers}-{self.exitpoints}"

    @property
    def slices(self) -> str:
        """As the launcher takes them."""
        return f"accesspoint={self.accesspoints},matcher={self.matchers},exitpoint={self.exitpoints}"


def layout_of(text: str) -> Layout:
    """Raises `ValueError`."""
    parts = text.split("-")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() for part in parts):
        raise ValueError(f"'{text}' is no configuration: write access points, matchers and exit points, as in 1-3-2")
    numbers = [int(part) for part in parts]
    if not all(1 <= number <= SLICES_MAX for number in numbers):
        raise ValueError(f"'{text}': each layer has 1 to {SLICES_MAX} slices")
    return Layout(*numbers)
