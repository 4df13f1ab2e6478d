"""The pictures of a report, each an SVG that stands in the page itself."""

import io
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchmarks.scaling.picture import COLOURS
from spark.report.tables import Row, Tables

mpl.use("svg")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "braid",  # the same numbers give the same picture
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "lines.linewidth": 1.6,
}
_MODEL_TO = 12  # processors


def throughput_by_load(tables: Tables) -> str:
    """Figure 7."""

    def draw(axes: Axes) -> None:
        for configuration, rows in _grouped(_flooded(tables.throughput), "configuration"):
            loads, medians = [row["subscriptions"] for row in rows], [row["delivered_s"] for row in rows]
            below = [row["delivered_s"] - row["delivered_s_min"] for row in rows]
            above = [row["delivered_s_max"] - row["delivered_s"] for row in rows]
            axes.errorbar(loads, medians, yerr=[below, above], marker="o", capsize=3, label=configuration)
        axes.set(xscale="log", ylim=(0, None), xlabel="subscriptions", ylabel="notifications per second")
        axes.legend(title="AP-M-EP", frameon=False, ncols=2)

    return _drawn(draw)


def speedup_by_processors(tables: Tables, column: str, label: str) -> str:
    """Figures 9 to 12, whichever the column."""

    def draw(axes: Axes) -> None:
        known = [row for row in _flooded(tables.speedup) if row[column] is not None]
        for (load, exitpoints), rows in _grouped(known, "subscriptions", "exitpoints"):
            line = "-" if exitpoints == 1 else "--"
            places = [row["processors"] for row in rows]
            values = [row[column] for row in rows]
            axes.plot(places, values, line, marker="o", label=f"{load:,}, {exitpoints} EP")
        axes.set(xlabel="processors (1-1-1 is one)", ylabel=label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(title="subscriptions", frameon=False, ncols=2, fontsize=8)

    return _drawn(draw)


def dominance_by_load(tables: Tables) -> str:
    """Figure 8."""

    def draw(axes: Axes) -> None:
        for matchers, rows in _grouped(_flooded(tables.dominance), "matchers"):
            loads = [row["subscriptions"] for row in rows]
            axes.plot(
                loads, [row["dominance"] for row in rows], marker="o", label=f"1-{matchers}-2 over 1-{matchers}-1"
            )
        axes.axhline(1.0, color="#90a4ae", linewidth=1)
        axes.set(xscale="log", xlabel="subscriptions", ylabel="ratio of throughputs")
        axes.legend(frameon=False)

    return _drawn(draw)


def cost_by_layer(tables: Tables) -> str:
    def draw(axes: Axes) -> None:
        cells = sorted({(row["subscriptions"], row["configuration"]) for row in tables.cost})
        heights = [0.0] * len(cells)
        for layer in ("connpoint", "accesspoint", "matcher", "exitpoint"):
            costs = [_mean(_cost(tables, load, name, layer)) for load, name in cells]
            axes.bar(range(len(cells)), costs, bottom=heights, label=layer, width=0.7)
            heights = [height + cost for height, cost in zip(heights, costs, strict=True)]
        axes.set_xticks(range(len(cells)), [f"{name}\n{_short(load)}" for load, name in cells], fontsize=8)
        axes.set(ylabel="µs of processor time for a publication")
        axes.legend(frameon=False)

    return _drawn(draw)


def model_of_scaling(tables: Tables) -> str:
    def draw(axes: Axes) -> None:
        for load, law in tables.laws.items():
            points = [(r["processors"], r["speedup"]) for r in _flooded(tables.speedup) if r["subscriptions"] == load]
            (drawn,) = axes.plot(*zip(*points, strict=True), "o", label=f"{_short(load)}, measured")
            places = [1 + step / 10 for step in range(10 * (_MODEL_TO - 1) + 1)]
            measured_to = law.processors_max
            inside = [place for place in places if place <= measured_to]
            beyond = [place for place in places if place >= measured_to]
            axes.plot(inside, [law.speedup(place) for place in inside], color=drawn.get_color())
            axes.plot(beyond, [law.speedup(place) for place in beyond], ":", color=drawn.get_color(), label="model")
        axes.set(xlabel="processors", ylabel="speedup", ylim=(0, None))
        axes.legend(frameon=False, ncols=2, fontsize=8)

    return _drawn(draw)


def time_line(tables: Tables, configuration: str, step: str) -> str:
    """Figure 13."""

    def of_step(rows: list[Row]) -> list[Row]:
        return [row for row in rows if row["configuration"] == configuration and row["step"] == step]

    def draw(axes: Axes) -> None:
        for row in of_step(tables.phases):
            label = f"{row['phase']} {row['end_s'] - row['begin_s']:.2f} s"
            axes.axvspan(row["begin_s"], row["end_s"], color=COLOURS.get(row["phase"], "#eeeeee"), label=label, lw=0)
        bins = of_step(tables.bins)
        rates = [row["delivered"] / row["width_s"] for row in bins]
        axes.plot([row["at_s"] for row in bins], rates, color="#c62828", linewidth=0.9)
        axes.set(xlabel="seconds since the scaling was asked for", ylabel="delivered per second", ylim=(0, None))
        axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower left")

    return _drawn(draw, width=9.5)


def _drawn(draw: Callable[[Axes], None], width: float = 7.2) -> str:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, 3.6), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:,.10g}"))
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    text = written.getvalue()
    return text[text.index("<svg") :]


def _flooded(rows: list[Row]) -> list[Row]:
    """A constant rate says nothing of the highest throughput."""
    return [row for row in rows if row["rate"] == 0]


def _grouped(rows: Iterable[Row], *names: str) -> Iterable[tuple[Any, list[Row]]]:
    def key(row: Row) -> Any:
        return row[names[0]] if len(names) == 1 else tuple(row[name] for name in names)

    return [(found, list(group)) for found, group in groupby(sorted(rows, key=key), key)]


def _cost(tables: Tables, load: int, configuration: str, layer: str) -> list[float]:
    return [
        row["cpu_us_per_publication"]
        for row in tables.cost
        if (row["subscriptions"], row["configuration"], row["layer"]) == (load, configuration, layer)
        and row["cpu_us_per_publication"] is not None
    ]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _short(number: int) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if number >= size and number % size == 0:
            return f"{number // size} {unit}"
    return f"{number:,}"
