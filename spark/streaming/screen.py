"""The latest window on the terminal, refreshed as windows are finished; lines for a pipe or a log file."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql import Row
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from braid.topology import LAYERS

_ANCHORS = 5  # of each layer
_ANCHOR_WIDTH = 60


class Finished(NamedTuple):
    """The windows that one batch has finished."""

    layers: list[Row]
    latencies: list[Row]
    anchors: list[Row]

    @property
    def windows(self) -> int:
        return len({_window(row) for row in self.layers})

    def in_order(self) -> Iterable["Finished"]:
        """Each window by itself."""
        for window in sorted({_window(row) for row in self.layers}):
            yield Finished(*([row for row in rows if _window(row) == window] for rows in self))


class Screen:
    def __init__(self, window_s: int) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._window_s = window_s
        self._live: Live | None = None

    def __enter__(self) -> "Screen":
        waiting = Text(f"waiting for the first window of {self._window_s} s to be finished …", "dim")
        if self._console.is_terminal:
            self._live = Live(waiting, console=self._console, auto_refresh=False)
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, finished: Finished) -> None:
        for window in finished.in_order():
            if self._live is not None:
                self._live.update(picture(window), refresh=True)
            else:
                for line in lines(window):
                    self._console.print(line, soft_wrap=True)


def picture(window: Finished) -> Group:
    cluster, begin, end = _window(window.layers[0])
    title = Text.assemble((cluster, "bold"), f"  {begin:%H:%M:%S} to {end:%H:%M:%S}", (" UTC", "dim"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("layer")
    for column in ("slices", "publications/s", "notifications/s", "cores", "imbalance"):
        table.add_column(column, justify="right")
    table.add_column("took (p50, p99)")
    for row in _sorted(window.layers):
        missing = Text(f"  {row.missing} samples missing", "yellow") if row.missing else Text()
        table.add_row(
            row.layer,
            str(row.slices),
            *(_number(row[name]) for name in ("publications_s", "notifications_s")),
            f"{row.cores:.2f}",
            "" if row.imbalance is None else f"{row.imbalance:.2f}",
            Text(_took(window, row.layer)) + missing,
        )
    hot = Table(box=None, pad_edge=False, header_style="dim")
    hot.add_column("hottest anchors of")
    hot.add_column("hits", justify="right")
    hot.add_column("anchor", no_wrap=True)
    for row in _sorted(window.anchors):
        if row["rank"] <= _ANCHORS:
            hot.add_row(row.layer, _number(row.hits), Text(row.anchor[:_ANCHOR_WIDTH], "cyan"))
    return Group(title, "", table, "", hot) if window.anchors else Group(title, "", table)


def lines(window: Finished) -> list[str]:
    _, _, end = _window(window.layers[0])
    return [
        "  ".join(
            part
            for part in (
                f"{end:%H:%M:%S}",
                f"{row.layer:<11}",
                f"{row.slices} slices",
                _each(row.publications_s, "publications/s"),
                _each(row.notifications_s, "notifications/s"),
                f"{row.cores:.2f} cores",
                "" if row.imbalance is None else f"imbalance {row.imbalance:.2f}",
                _took(window, row.layer),
                f"{row.missing} samples missing" if row.missing else "",
            )
            if part
        )
        for row in _sorted(window.layers)
    ]


def _window(row: Row) -> tuple[str, datetime, datetime]:
    return row.cluster, row.window_begin, row.window_end


def _sorted(rows: list[Row]) -> list[Row]:
    """In the order of the way of a publication."""
    return sorted(rows, key=lambda row: (LAYERS.index(row.layer), row.asDict().get("rank", 0)))


def _took(window: Finished, layer: str) -> str:
    parts = [row for row in window.latencies if row.layer == layer]
    return "  ".join(f"{row.part} {row.p50_ms:.3g} {row.p99_ms:.3g} ms" for row in sorted(parts, key=_part))


def _part(row: Row) -> str:
    name: str = row.part
    return name


def _number(value: Any) -> str:
    return "" if value is None else f"{value:,.0f}"


def _each(value: Any, what: str) -> str:
    return "" if value is None else f"{value:,.0f} {what}"
