"""Where one machine ends: what a model makes of the measurements, marked as such."""

from collections.abc import Iterable, Iterator

from spark.analysis.scaling_law import FITS, ScalingLaw
from spark.analysis.throughput import BASELINE
from spark.report import model_pictures
from spark.report.html import heading, listed, pair, paragraph, picture, table
from spark.report.model_pictures import model_to
from spark.report.tables import Tables, flooded


def model(tables: Tables) -> Iterable[str]:
    if not tables.laws and not tables.matcher_laws:
        return
    cores = tables.machine.get("cores")
    yield heading("Where one machine ends: a model")
    yield "<div class=model>"
    yield (
        "<p>The universal scalability law, fitted to what was measured. Dotted lines and everything beyond the "
        f"measured slices were <b>not measured</b>. Where R² is below {FITS} the law does not describe the "
        "measurements: it is not drawn, and nothing is predicted from it. The law has two unknowns, neither of "
        "which is below zero. Where both are above it and two numbers of slices beyond one were measured, the law goes "
        "through these: R² says nothing then, and nothing shows that what is predicted from it is true.</p>"
    )
    yield paragraph(
        f"There are two fits. One is of the speedups as they were measured, with all slices on {cores} cores: it says "
        "what more slices would do on this machine. The other is of processor time: a slice that needs 5 µs for a "
        "publication would be full at 200,000 per second on a core of its own, so it says what more matchers would do "
        "where each slice has a core, and which layer would be full first."
    )
    shown = []
    if tables.laws:
        caption = "Measured speedups on this machine, the fitted law where it describes them, and where it leads."
        shown.append(picture(model_pictures.model_of_speedup(tables), caption))
    for load in list(tables.matcher_laws)[-1:]:
        caption = f"What each layer could deliver with a core for each slice, with {load:,} subscriptions."
        shown.append(picture(model_pictures.model_of_layers(tables, load), caption))
    yield pair(shown)
    yield listed([*_words(tables)])
    yield _table(tables)
    yield "</div>"


def _words(tables: Tables) -> Iterator[str]:
    far = model_to(tables)
    for load, law in tables.laws.items():
        if not law.describes:
            yield (
                f"With {load:,} subscriptions the law does not describe the speedups on this machine "
                f"(R² {law.r_squared:.2f}), so it predicts nothing."
            )
            continue
        yield (
            f"On this machine with {load:,} subscriptions the model has {_limit(law)}; with {far} processors it would "
            f"have {law.speedup(far):.2f} times the throughput of 1-1-1 (measured: up to {law.processors_max}"
            f"{_doubt(law)})."
        )
    for load, law in tables.matcher_laws.items():
        capacities = {
            row["layer"]: row["capacity_s"]
            for row in flooded(tables.cost)
            if row["subscriptions"] == load and row["configuration"] == BASELINE and row["capacity_s"]
        }
        more = (
            f"and {far} matchers, by the model{_doubt(law)}, at {capacities['matcher'] * law.speedup(far):,.0f}"
            if law.describes
            else f"what more matchers would bring the law does not describe (R² {law.r_squared:.2f})"
        )
        first = min(capacities, key=lambda layer: float(capacities[layer]))
        yield (
            f"With a core for each slice and {load:,} subscriptions, the {first} of 1-1-1 would be full first, at "
            f"{capacities[first]:,.0f} notifications per second; one matcher at {capacities['matcher']:,.0f}, "
            f"{more}."
        )


def _table(tables: Tables) -> str:
    fits = [("speedup as measured", load, law) for load, law in tables.laws.items()]
    fits += [("matchers with a core each", load, law) for load, law in tables.matcher_laws.items()]
    return table(
        fits,
        [
            ("fit of", lambda fit: str(fit[0])),
            ("subscriptions", lambda fit: f"{fit[1]:,}"),
            ("contention", lambda fit: f"{fit[2].contention:.3f}"),
            ("coherence", lambda fit: f"{fit[2].coherence:.4f}"),
            ("the model has", lambda fit: _limit(fit[2]) if fit[2].describes else "does not describe these"),
            ("R²", lambda fit: f"{fit[2].r_squared:.2f}" if _is_known(fit[2]) else "says nothing"),
            ("measured up to", lambda fit: str(fit[2].processors_max)),
        ],
    )


def _is_known(law: ScalingLaw) -> bool:
    """Whether R² says something: of a law that goes through too few points only that it does not."""
    return law.is_judged or not law.describes


def _doubt(law: ScalingLaw) -> str:
    return "" if law.is_judged else f", at {law.different} numbers beyond one, as many as the law has unknowns"


def _limit(law: ScalingLaw) -> str:
    if law.peak != float("inf"):
        return f"its peak with {law.peak:.1f}, at {law.ceiling:.2f} times one"
    if law.ceiling == float("inf"):
        return "no ceiling: each brings as much as the first"
    return f"a ceiling of {law.ceiling:.2f} times one, however many there are"
