"""How all pictures of a report look: SVGs that stand in the page itself."""

import io
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from spark.report.tables import Row

mpl.use("svg")
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "braid",  # the same numbers give the same picture
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "lines.linewidth": 1.6,
    "axes.prop_cycle": cycler(color=["#0b6e99", "#d9730d", "#4d8f4d", "#8e5ea2", "#b3394d", "#7a6a53"]),
}
LAYERS = {"connpoint": "#0b6e99", "accesspoint": "#90b4c8", "matcher": "#d9730d", "exitpoint": "#4d8f4d"}
WIDE, NARROW = 9.5, 5.6


def drawn(draw: Callable[[Axes], None], width: float = WIDE, height: float = 3.5) -> str:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:,.10g}"))
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    text = written.getvalue()
    return text[text.index("<svg") :]


def grouped(rows: Iterable[Row], *names: str) -> list[tuple[Any, list[Row]]]:
    def key(row: Row) -> Any:
        return row[names[0]] if len(names) == 1 else tuple(row[name] for name in names)

    return [(found, list(group)) for found, group in groupby(sorted(rows, key=key), key)]


def load_axis(axes: Axes, loads: Iterable[int]) -> None:
    """Logarithmic, with a tick for each load that was measured."""
    found = sorted(set(loads))
    axes.set(xscale="log", xlabel="subscriptions")
    axes.set_xticks(found, [short(load) for load in found])
    axes.minorticks_off()


def short(number: int) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if number >= size and number % size == 0:
            return f"{number // size} {unit}"
    return f"{number:,}"
