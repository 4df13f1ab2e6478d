"""The page: one HTML file that needs nothing else."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from spark.report import pictures
from spark.report.difference import differences
from spark.report.findings import findings
from spark.report.tables import Row, Tables

_CSS = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #263238; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #cfd8dc; padding-bottom: .2rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; }
td, th { padding: .2rem .7rem; text-align: right; }
th { border-bottom: 1px solid #b0bec5; font-weight: 600; } td:first-child, th:first-child { text-align: left; }
tr:nth-child(even) td { background: #f6f8f9; }
figure { margin: 1rem 0; } figcaption { color: #607d8b; font-size: 13px; }
svg { max-width: 100%; height: auto; } .model { border-left: 4px solid #ffb300; padding-left: 1rem; }
"""

Column = tuple[str, Callable[[Row], str]]


def page(tables: Tables, before: Tables | None = None) -> str:
    """`before` is what the difference is shown to."""
    parts = [
        f"<h1>{escape(tables.plan)}</h1>",
        _machine(tables),
        "<h2>What it shows</h2>",
        _list(findings(tables)),
        *_figures(tables),
        *_scalings(tables),
        *_model(tables),
        *_latency(tables),
    ]
    if before is not None:
        parts += [f"<h2>Against {escape(before.commit)}</h2>", _list(differences(before, tables))]
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{escape(tables.plan)} at {escape(tables.commit)}</title><style>{_CSS}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _machine(tables: Tables) -> str:
    machine = tables.machine
    memory = machine.get("memory_bytes", 0) / 2**30
    words = [
        f"commit {tables.commit}",
        f"{machine.get('cores')} cores ({machine.get('processor')})",
        f"{memory:.0f} GiB",
        str(machine.get("system")),
        f"Python {machine.get('python')}",
        f"begun {machine.get('began')}",
        f"{len(tables.ledgers)} cells",
    ]
    return f"<p>{escape(', '.join(words))}</p>"


def _figures(tables: Tables) -> Iterable[str]:
    flooded = [row for row in tables.throughput if row["rate"] == 0]
    if not flooded:
        return
    yield "<h2>Throughput</h2>"
    yield _picture(pictures.throughput_by_load(tables), "Notifications per second (Figure 7): median, least and most.")
    yield _table(
        tables.throughput,
        [
            ("configuration", lambda row: str(row["configuration"])),
            ("subscriptions", lambda row: f"{row['subscriptions']:,}"),
            ("rate", lambda row: f"{row['rate']:,.0f}" if row["rate"] else "flood"),
            ("notifications/s", lambda row: f"{row['delivered_s']:,.0f}"),
            ("least", lambda row: f"{row['delivered_s_min']:,.0f}"),
            ("most", lambda row: f"{row['delivered_s_max']:,.0f}"),
            ("repetitions", lambda row: str(row["repetitions"])),
        ],
    )
    if any(row["processors"] > 1 for row in tables.speedup):
        yield "<h2>Speedup, efficiency, serial part</h2>"
        for column, label, caption in (
            ("speedup", "speedup", "Against 1-1-1 under the same load (Figures 9 and 10)."),
            ("efficiency", "efficiency", "Speedup for each processor (Figure 11)."),
            ("karp_flatt", "serial part and overhead", "The Karp-Flatt metric (Figure 12)."),
        ):
            yield _picture(pictures.speedup_by_processors(tables, column, label), caption)
    if tables.dominance:
        yield _picture(pictures.dominance_by_load(tables), "Two exit points over one (Figure 8).")
    if tables.cost:
        yield "<h2>What a publication costs</h2>"
        yield _picture(pictures.cost_by_layer(tables), "Processor time of each layer for a delivered publication.")
        yield _table(
            tables.cores,
            [
                ("configuration", lambda row: str(row["configuration"])),
                ("subscriptions", lambda row: f"{row['subscriptions']:,}"),
                ("cores kept busy", lambda row: f"{row['cores']:.2f}"),
                ("notifications/s", lambda row: f"{row['delivered_s']:,.0f}"),
                ("for each core", lambda row: _number(row["delivered_s_per_core"])),
            ],
        )


def _scalings(tables: Tables) -> Iterable[str]:
    steps = sorted({(row["configuration"], row["step"]) for row in tables.phases})
    if steps:
        yield "<h2>Scaling while publications flow</h2>"
    for configuration, step in steps:
        caption = f"{step}, from {configuration} (Figure 13): deliveries in bins of 50 ms."
        yield _picture(pictures.time_line(tables, configuration, step), caption)


def _model(tables: Tables) -> Iterable[str]:
    if not tables.laws:
        return
    yield "<h2>Where one machine ends: a model</h2><div class=model>"
    yield (
        "<p>The universal scalability law, fitted to the speedups above. Dotted lines were <b>not measured</b>: they "
        "say what the law makes of the points, on this machine with the slices sharing its cores.</p>"
    )
    yield _picture(pictures.model_of_scaling(tables), "Measured speedups, the fitted law, and where it leads.")
    laws = [{"load": load, **law._asdict(), "peak": law.peak} for load, law in tables.laws.items()]
    yield _table(
        laws,
        [
            ("subscriptions", lambda row: f"{row['load']:,}"),
            ("contention", lambda row: f"{row['contention']:.3f}"),
            ("coherence", lambda row: f"{row['coherence']:.4f}"),
            (
                "fastest with",
                lambda row: "ever more" if row["peak"] == float("inf") else f"{row['peak']:.1f} processors",
            ),
            ("R²", lambda row: f"{row['r_squared']:.2f}"),
            ("measured up to", lambda row: str(row["processors_max"])),
        ],
    )
    yield "</div>"


def _latency(tables: Tables) -> Iterable[str]:
    if not tables.latency:
        return
    yield "<h2>Latency</h2>"
    by_part: dict[tuple[Any, ...], Row] = {}
    for row in tables.latency:
        key = (row["configuration"], row["subscriptions"], row["rate"], row["repetition"], row["part"])
        by_part.setdefault(key, dict(row))[f"p{row['percentile']:g}"] = row["latency_ms"]
    yield _table(
        list(by_part.values()),
        [
            ("configuration", lambda row: str(row["configuration"])),
            ("subscriptions", lambda row: f"{row['subscriptions']:,}"),
            ("part", lambda row: str(row["part"])),
            *((f"p{100 * share:g} ms", _percentile(share)) for share in (0.5, 0.9, 0.99, 0.999)),
        ],
    )
    yield "<p>Under a flood publications wait in the queues that flow control leaves them. Bounds, to a tenth.</p>"


def _percentile(share: float) -> Callable[[Row], str]:
    return lambda row: _number(row.get(f"p{share:g}"), 1)


def _number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _picture(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _list(sentences: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>"


def _table(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name, _ in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(shown(row))}</td>" for _, shown in columns) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
