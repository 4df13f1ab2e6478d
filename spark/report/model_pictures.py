"""The pictures of what a model says, clearly apart from what was measured: dots where nobody has measured."""

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from spark.analysis.scaling_law import ScalingLaw
from spark.analysis.throughput import BASELINE
from spark.report.drawing import LAYERS, NARROW, drawn, short
from spark.report.tables import Tables, flooded

_MODEL_TO_MIN = 12  # processors
_SMOOTH = 10  # points of a curve for each of them


def model_to(tables: Tables) -> int:
    """How many processors the model is asked about: some beyond all that were measured."""
    laws: Iterable[ScalingLaw] = (*tables.laws.values(), *tables.matcher_laws.values())
    return max([_MODEL_TO_MIN, *(2 * law.processors_max for law in laws)])


def model_of_speedup(tables: Tables) -> str:
    def draw(axes: Axes) -> None:
        for load, law in tables.laws.items():
            points = [(r["processors"], r["speedup"]) for r in flooded(tables.speedup) if r["subscriptions"] == load]
            _law(axes, law, points, short(load), to=model_to(tables))
        axes.axhline(1.0, color="#90a4ae", linewidth=1)
        axes.set(xlabel="processors (1-1-1 is one)", ylabel="speedup", ylim=(0, None))
        _finish(axes)

    return drawn(draw, NARROW)


def model_of_layers(tables: Tables, load: int) -> str:
    """What each layer could deliver with a core for each slice; matchers by how many there are."""
    costs = [row for row in flooded(tables.cost) if row["subscriptions"] == load and row["capacity_s"]]
    alone = {row["layer"]: row["capacity_s"] for row in costs if row["configuration"] == BASELINE}

    def draw(axes: Axes) -> None:
        for layer in ("connpoint", "exitpoint"):
            if layer in alone:
                axes.axhline(alone[layer], color=LAYERS[layer], linewidth=1.2, label=f"one {layer}")
        matchers = [row for row in costs if row["layer"] == "matcher" and row["exitpoints"] == 1]
        points = [(row["matchers"], row["capacity_s"]) for row in matchers]
        law = tables.matcher_laws[load]
        _law(*(axes, law, points, "matchers"), to=model_to(tables), unit=alone["matcher"], colour=LAYERS["matcher"])
        axes.set(xlabel="matchers", ylabel="notifications per second", ylim=(0, None))
        _finish(axes)

    return drawn(draw, NARROW)


def _law(
    axes: Axes,
    law: ScalingLaw,
    points: list[tuple[float, float]],
    label: str,
    *,
    to: int,
    unit: float = 1.0,
    colour: str | None = None,
) -> None:
    """Points as measured; a law that describes them as a line where it was fitted, and as dots beyond."""
    (marks,) = axes.plot(*zip(*points, strict=True), "o", label=f"{label}, measured", color=colour)
    if not law.describes:
        return
    places = [1 + step / _SMOOTH for step in range(_SMOOTH * (to - 1) + 1)]
    inside = [place for place in places if place <= law.processors_max]
    beyond = [place for place in places if place >= law.processors_max]
    axes.plot(inside, [unit * law.speedup(place) for place in inside], color=marks.get_color())
    model = [unit * law.speedup(place) for place in beyond]
    axes.plot(beyond, model, ":", color=marks.get_color(), label=f"{label}, model")


def _finish(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, ncols=2, fontsize=8)
