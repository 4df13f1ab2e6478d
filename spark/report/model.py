"""Where one machine ends: what a model makes of the measurements, marked as such."""

from collections.abc import Iterable, Iterator

from spark.analysis.scaling_law import ScalingLaw
from spark.analysis.throughput import BASELINE
from spark.report import model_pictures
from spark.report.html import heading, listed, pair, paragraph, picture, table
from spark.report.model_pictures import MODEL_TO
from spark.report.tables import Tables, flooded


def model(tables: Tables) -> Iterable[str]:
    if not tables.laws and not tables.matcher_laws:
        return
    cores = tables.machine.get("cores")
    yield heading("Where one machine ends: a model")
    yield "<div class=model>"
    yield (
        "<p>The universal scalability law, fitted to what was measured. Dotted lines and everything beyond the "
        "measured slices were <b>not measured</b>.</p>"
    )
    yield paragraph(
        f"There are two fits. One is of the speedups as they were measured, with all slices on {cores} cores: it says "
        "what more slices would do on this machine. The other is of processor time: a slice that needs 5 µs for a "
        "publication would be full at 200,000 per second on a core of its own, so it says what more matchers would do "
        "where each slice has a core, and which layer would be full first."
    )
    shown = []
    if tables.laws:
        caption = "Measured speedups on this machine, the fitted law, and where it leads."
        shown.append(picture(model_pictures.model_of_speedup(tables), caption))
    for load in list(tables.matcher_laws)[-1:]:
        caption = f"What each layer could deliver with a core for each slice, with {load:,} subscriptions."
        shown.append(picture(model_pictures.model_of_layers(tables, load), caption))
    yield pair(shown)
    yield listed([*_words(tables)])
    yield _table(tables)
    yield "</div>"


def _words(tables: Tables) -> Iterator[str]:
    for load, law in tables.laws.items():
        far = law.speedup(MODEL_TO)
        peak = _peak(law)
        yield (
            f"On this machine with {load:,} subscriptions the model is fastest with {peak}; with {MODEL_TO} it would "
            f"have {far:.2f} times the throughput of 1-1-1 (measured: up to {law.processors_max})."
        )
    for load, law in tables.matcher_laws.items():
        capacities = {
            row["layer"]: row["capacity_s"]
            for row in flooded(tables.cost)
            if row["subscriptions"] == load and row["configuration"] == BASELINE and row["capacity_s"]
        }
        matchers = capacities["matcher"] * law.speedup(MODEL_TO)
        first = min(capacities, key=lambda layer: float(capacities[layer]))
        yield (
            f"With a core for each slice and {load:,} subscriptions, the {first} of 1-1-1 would be full first, at "
            f"{capacities[first]:,.0f} notifications per second; one matcher at {capacities['matcher']:,.0f}, and "
            f"{MODEL_TO} matchers, by the model, at {matchers:,.0f}."
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
            ("fastest with", lambda fit: _peak(fit[2])),
            ("R²", lambda fit: f"{fit[2].r_squared:.2f}"),
            ("measured up to", lambda fit: str(fit[2].processors_max)),
        ],
    )


def _peak(law: ScalingLaw) -> str:
    return "ever more" if law.peak == float("inf") else f"{law.peak:.1f}"
