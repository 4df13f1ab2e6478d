"""The pictures of what was measured: throughput, speedup, cost, and what happens in time."""

from matplotlib.axes import Axes

from benchmarks.scaling.picture import COLOURS
from spark.report.drawing import LAYERS, NARROW, drawn, grouped, load_axis, short
from spark.report.steps import of_step
from spark.report.tables import Row, Tables, flooded


def throughput_by_load(tables: Tables) -> str:
    """Figure 7."""
    known = flooded(tables.throughput)

    def draw(axes: Axes) -> None:
        for configuration, rows in grouped(known, "configuration"):
            loads, medians = [row["subscriptions"] for row in rows], [row["delivered_s"] for row in rows]
            below = [row["delivered_s"] - row["delivered_s_min"] for row in rows]
            above = [row["delivered_s_max"] - row["delivered_s"] for row in rows]
            axes.errorbar(loads, medians, yerr=[below, above], marker="o", capsize=3, label=configuration)
        load_axis(axes, (row["subscriptions"] for row in known))
        axes.set(ylim=(0, None), ylabel="notifications per second")
        _legend_beside(axes, "AP-M-EP")

    return drawn(draw)


def speedup_by_load(tables: Tables) -> str:
    """Figure 9."""
    known = [row for row in flooded(tables.speedup) if row["processors"] > 1 and row["speedup"] is not None]

    def draw(axes: Axes) -> None:
        for configuration, rows in grouped(known, "configuration"):
            loads = [row["subscriptions"] for row in rows]
            axes.plot(loads, [row["speedup"] for row in rows], marker="o", label=configuration)
        axes.axhline(1.0, color="#90a4ae", linewidth=1)
        load_axis(axes, (row["subscriptions"] for row in known))
        axes.set(ylim=(0, None), ylabel="speedup against 1-1-1")
        axes.legend(title="AP-M-EP", frameon=False, ncols=2, fontsize=8)

    return drawn(draw, NARROW)


def by_configuration(tables: Tables, column: str, label: str, exitpoints: int | None = None) -> str:
    """Figures 10 to 12, whichever the column: configurations side by side, those of as many processors together."""
    known = [row for row in flooded(tables.speedup) if row[column] is not None]
    if exitpoints is not None:
        known = [row for row in known if row["exitpoints"] == exitpoints]
    names = {row["configuration"]: row["processors"] for row in sorted(known, key=_by_processors)}

    def draw(axes: Axes) -> None:
        places = {name: place for place, name in enumerate(names)}
        for load, rows in grouped(known, "subscriptions"):
            rows.sort(key=_by_processors)
            axes.plot(
                [places[row["configuration"]] for row in rows],
                [row[column] for row in rows],
                marker="o",
                label=short(load),
            )
        for processors in sorted(set(names.values()))[1::2]:
            within = [places[name] for name in names if names[name] == processors]
            axes.axvspan(min(within) - 0.5, max(within) + 0.5, color="#eceff1", zorder=0, lw=0)
        axes.set_xticks(list(places.values()), list(places))
        axes.set(ylabel=label, xlim=(-0.5, len(places) - 0.5), ylim=(min(0.0, axes.get_ylim()[0]), None))
        axes.grid(visible=False, axis="x")
        axes.legend(title="subscriptions", frameon=False, ncols=3, fontsize=8)

    return drawn(draw, NARROW)


def dominance_by_load(tables: Tables) -> str:
    """Figure 8."""
    known = [row for row in flooded(tables.dominance) if row["dominance"] is not None]

    def draw(axes: Axes) -> None:
        for (accesspoints, matchers), rows in grouped(known, "accesspoints", "matchers"):
            label = f"{accesspoints}-{matchers}-2 over {accesspoints}-{matchers}-1"
            axes.plot([row["subscriptions"] for row in rows], [row["dominance"] for row in rows], "o-", label=label)
        axes.axhline(1.0, color="#90a4ae", linewidth=1)
        load_axis(axes, (row["subscriptions"] for row in known))
        axes.set(ylim=(0, None), ylabel="ratio of throughputs")
        axes.legend(frameon=False, fontsize=8)

    return drawn(draw, NARROW)


def cost_by_layer(tables: Tables) -> str:
    rows = flooded(tables.cost) or tables.cost
    cells = list(dict.fromkeys((row["subscriptions"], row["configuration"], row["rate"]) for row in rows))

    def draw(axes: Axes) -> None:
        heights = [0.0] * len(cells)
        for layer, colour in LAYERS.items():
            costs = [_cost_of(rows, *cell, layer) for cell in cells]
            axes.bar(range(len(cells)), costs, bottom=heights, label=layer, width=0.7, color=colour)
            heights = [height + cost for height, cost in zip(heights, costs, strict=True)]
        ticks = [f"{name}\n{short(load)}" + (f"\n{rate:,.10g}/s" if rate else "") for load, name, rate in cells]
        axes.set_xticks(range(len(cells)), ticks, fontsize=8)
        axes.set(ylabel="µs of processor time")
        axes.grid(visible=False, axis="x")
        _legend_beside(axes)

    return drawn(draw)


def time_line(tables: Tables, cell: Row) -> str:
    """Figure 13. `cell` has the columns of a cell, and the step."""

    def draw(axes: Axes) -> None:
        bins = of_step(tables.bins, cell)
        rates = [row["delivered"] / row["width_s"] for row in bins]
        for row in of_step(tables.phases, cell):
            label = f"{row['phase']} {row['end_s'] - row['begin_s']:.2f} s"
            axes.axvspan(row["begin_s"], row["end_s"], color=COLOURS.get(row["phase"], "#eeeeee"), label=label, lw=0)
        axes.plot([row["at_s"] for row in bins], rates, color="#b3394d", linewidth=0.9, label="delivered")
        axes.set(xlabel="seconds since the scaling was asked for", ylabel="delivered per second", ylim=(0, None))
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))

    return drawn(draw)


def _cost_of(rows: list[Row], load: int, configuration: str, rate: float, layer: str) -> float:
    wanted = (load, configuration, rate, layer)
    costs = (
        row["cpu_us_per_publication"]
        for row in rows
        if (row["subscriptions"], row["configuration"], row["rate"], row["layer"]) == wanted
    )
    return next((cost for cost in costs if cost is not None), 0.0)


def _by_processors(row: Row) -> tuple[int, int]:
    return row["processors"], row["matchers"]


def _legend_beside(axes: Axes, title: str | None = None) -> None:
    axes.legend(title=title, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
