"""The page: one HTML file that needs nothing else."""

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

from benchmarks.scaling.experiment import LOST_S
from spark.analysis.latency import PERCENTILES
from spark.report import findings, naming, pictures
from spark.report.conditions import other_conditions
from spark.report.difference import Change, changes, scaling_changes, summary
from spark.report.html import Column, document, heading, listed, number, pair, paragraph, picture, table
from spark.report.model import model
from spark.report.tables import Row, Tables, flooded

_METHOD = (
    "Each cell is a cluster of its own: started, loaded, warmed up, measured, taken down. Every publication matches "
    "exactly one subscription, or those that the index finds where the plan names a workload, all subscriptions belong "
    "to one subscriber, and publications are numbered, so everything that matches must arrive, once and in order; what "
    "has not come a minute after the last was sent is lost, and of a live scaling what has not come when nothing came "
    f"for {LOST_S:.0f} seconds. "
    "A flood publishes over four connections as fast as it is acknowledged, 200 publications in a frame. Publishers "
    "and subscriber run on the same machine."
)

CONFIGURATION: list[Column] = [
    ("configuration", lambda row: str(row["configuration"])),
    ("subscriptions", lambda row: f"{row['subscriptions']:,}"),
    ("rate", lambda row: f"{row['rate']:,.0f}" if row["rate"] else "flood"),
]
SCALING: Column = ("scaling", lambda row: str(row["scaling"]))
REPETITION: Column = ("repetition", lambda row: str(row["repetition"]))


def page(tables: Tables, before: Tables | None = None, no_difference: str | None = None) -> str:
    """`before` is what the difference is shown to; or else there is a reason for which it is not shown."""
    title = tables.machine.get("title") or tables.plan
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p class=about>{escape(_about(tables))}</p>",
        f"<div class=short><b>In short</b>{listed(findings.in_short(tables))}</div>",
        *_throughput(tables),
        *_slices(tables),
        *_cost(tables),
        *_latency(tables),
        *_scalings(tables),
        *model(tables),
        *(_difference(before, tables) if before is not None else ()),
        *((heading("Against an earlier run"), paragraph(no_difference)) if no_difference else ()),
        heading("How it was measured"),
        paragraph(_METHOD),
        listed(findings.left_out(tables)),
    ]
    return document(f"{title} at {tables.run}", parts)


def _about(tables: Tables) -> str:
    machine, took_s = tables.machine, sum(ledger.get("took_s", 0.0) for ledger in tables.ledgers)
    words = [
        f"plan {tables.plan}",
        f"commit {tables.run}",
        f"{machine.get('cores')} cores ({machine.get('processor')})",
        f"{machine.get('memory_bytes', 0) / 2**30:.0f} GiB",
        str(machine.get("system")),
        f"Python {machine.get('python')}",
        f"begun {machine.get('began')}",
        *naming.conditions(tables),
        f"{len(tables.ledgers)} of {naming.cells_wanted(tables)} cells in {took_s / 60:.1f} minutes",
    ]
    return " · ".join(words)


def _throughput(tables: Tables) -> Iterable[str]:
    if not tables.throughput:
        return
    yield heading("Throughput")
    if flooded(tables.throughput):
        caption = "Notifications per second (Figure 7): the median of repetitions, the least and the most."
        yield picture(pictures.throughput_by_load(tables), caption)
    yield listed(findings.throughput(tables))
    yield table(
        tables.throughput,
        [
            *CONFIGURATION,
            ("notifications/s", lambda row: number(row["delivered_s"])),
            ("least", lambda row: number(row["delivered_s_min"])),
            ("most", lambda row: number(row["delivered_s_max"])),
            ("repetitions", lambda row: str(row["repetitions"])),
        ],
    )


def _slices(tables: Tables) -> Iterable[str]:
    if not any(row["processors"] > 1 for row in flooded(tables.speedup)):
        return
    yield heading("More slices: speedup, efficiency, serial part")
    shown = [picture(pictures.speedup_by_load(tables), "Speedup against 1-1-1 under the same load (Figure 9).")]
    if findings.has_two_exit_points(tables):
        sliced = pictures.by_configuration(tables, "speedup", "speedup", exitpoints=2)
        shown.append(picture(sliced, "Speedup with two exit points (Figure 10)."))
    if tables.dominance:
        shown.append(picture(pictures.dominance_by_load(tables), "Two exit points over one (Figure 8)."))
    efficiency = pictures.by_configuration(tables, "efficiency", "efficiency")
    shown.append(picture(efficiency, "Speedup for each processor (Figure 11); shaded: as many processors."))
    serial = pictures.by_configuration(tables, "karp_flatt", "serial part and overhead")
    shown.append(picture(serial, "The Karp-Flatt metric (Figure 12): above 1, slices cost more than they bring."))
    yield pair(shown)
    yield listed(findings.slices(tables))
    yield table(
        [row for row in tables.speedup if row["processors"] > 1],
        [
            *CONFIGURATION,
            ("processors", lambda row: str(row["processors"])),
            ("speedup", lambda row: number(row["speedup"], 2)),
            ("efficiency", lambda row: number(row["efficiency"], 2)),
            ("Karp-Flatt", lambda row: number(row["karp_flatt"], 2)),
        ],
    )


def _cost(tables: Tables) -> Iterable[str]:
    if not tables.cost:
        return
    yield heading("What a publication costs")
    yield picture(pictures.cost_by_layer(tables), "Processor time of each layer for a delivered publication.")
    yield listed([*findings.cost(tables), *findings.disturbed(tables)])
    yield table(
        tables.cores,
        [
            *CONFIGURATION,
            ("cores of slices", lambda row: number(row["cores"], 2)),
            ("of the load", lambda row: number(row["load_cores"], 2)),
            ("of all", lambda row: number(row["machine_cores"], 2)),
            ("stolen", lambda row: number(row["stolen_cores"], 2)),
            ("notifications/s for each core of slices", lambda row: number(row["delivered_s_per_core"])),
            ("speedup", lambda row: number(row["speedup"], 2)),
            ("for each core used", lambda row: number(row["speedup_per_core"], 2)),
        ],
    )
    yield table(
        tables.cost,
        [
            *CONFIGURATION,
            ("layer", lambda row: str(row["layer"])),
            ("slices", lambda row: str(row["slices"])),
            ("µs for a publication", lambda row: number(row["cpu_us_per_publication"], 2)),
            ("memory, MiB", lambda row: number(row["rss_bytes"] / 2**20)),
        ],
    )


def _latency(tables: Tables) -> Iterable[str]:
    if not tables.latency:
        return
    yield heading("Latency")
    by_part: dict[tuple[Any, ...], Row] = {}
    for row in tables.latency:
        key = tuple(row[name] for name in ("configuration", "subscriptions", "rate", "scaling", "part"))
        by_part.setdefault(key, dict(row))[f"p{row['percentile']:g}"] = row["latency_ms"]
    yield paragraph(
        "From sending to receiving. Under a flood publications wait in the queues that flow control leaves them, so "
        "that says how long these are. Upper bounds of a histogram, to a tenth; of all repetitions together."
    )
    yield table(
        list(by_part.values()),
        [
            *CONFIGURATION,
            *([SCALING] if any(row["scaling"] for row in tables.latency) else []),
            ("part", lambda row: str(row["part"])),
            *((f"p{100 * share:g} ms", _percentile(share)) for share in PERCENTILES),
        ],
    )


def _percentile(share: float) -> Callable[[Row], str]:
    return lambda row: number(row.get(f"p{share:g}"), 1)


def _scalings(tables: Tables) -> Iterable[str]:
    if not tables.silences:
        return
    yield heading("Scaling while publications flow")
    for row in tables.silences:
        caption = f"{row['step']} {naming.scaled_from(row, tables)} (Figure 13): deliveries in bins of 50 ms."
        yield picture(pictures.time_line(tables, row), caption)
    yield listed(findings.scalings(tables))
    yield table(
        tables.rates,
        [
            *CONFIGURATION,
            SCALING,
            *([REPETITION] if naming.is_repeated(tables) else []),
            ("step", lambda row: str(row["step"])),
            ("part", lambda row: str(row["part"])),
            ("begins at, s", lambda row: number(row["begin_s"], 2)),
            ("lasts, s", lambda row: number(row["seconds"], 2)),
            ("notifications/s", lambda row: number(row["delivered_s"])),
        ],
    )


def _difference(before: Tables, now: Tables) -> Iterable[str]:
    found = changes(before, now)
    yield heading(f"Against {before.run}")
    yield listed(other_conditions(before, now))
    yield paragraph(summary(found))
    columns: list[Column] = [
        ("configuration", lambda one: str(one.configuration)),
        ("subscriptions", lambda one: f"{one.subscriptions:,}"),
        ("rate", lambda one: f"{one.rate:,.0f}" if one.rate else "flood"),
        ("notifications/s before", lambda one: number(one.before_s)),
        ("now", lambda one: number(one.now_s)),
        ("", lambda one: str(one.verdict)),
        ("µs for a publication before", lambda one: number(one.before_us, 1)),
        ("now", lambda one: number(one.now_us, 1)),
    ]
    yield table(found, columns, _colour)
    if scaled := scaling_changes(before, now):
        yield table(
            scaled,
            [
                ("step", lambda one: str(one.step)),
                *columns[:3],
                ("scaling", lambda one: str(one.scaling)),
                ("took before, s", lambda one: number(one.before_s, 1)),
                ("now", lambda one: number(one.now_s, 1)),
                ("longest silence before, ms", lambda one: number(one.before_silent_ms)),
                ("now", lambda one: number(one.now_silent_ms)),
            ],
        )


def _colour(one: Change) -> str:
    return one.verdict.rpartition(" ")[2] if one.verdict.endswith(("faster", "slower")) else ""
