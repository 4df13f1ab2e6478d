"""`braid trace`: the way of one publication through the cluster."""

import math
from typing import TYPE_CHECKING, Annotated

import typer

from braid.cli.inputs import read_all
from braid.cli.running import Failure, examples, new_client, run

if TYPE_CHECKING:
    from rich.table import Table

    from braid.client import Trace

EXAMPLES = examples('braid trace \'{"attributes": {"value": 41}}\'', "braid trace @reading.json --json")
_BAR_WIDTH = 20
_DEEDS = {
    "accesspoint": "chose matchers",
    "matcher": "matched",
    "exitpoint": "gathered results",
}


def trace(
    context: typer.Context,
    publication: Annotated[str, typer.Argument(help="JSON, '-' for standard input, or @file.")],
    publisher: Annotated[str | None, typer.Option(help="Whose publication it is.")] = None,
    timeout: Annotated[float, typer.Option(min=0, help="How many seconds to wait for the end of the way.")] = 10.0,
    json: Annotated[bool, typer.Option("--json", help="As one JSON document.")] = False,
) -> None:
    """Publish one publication and show which slices it went through, and how long each took."""
    run(_trace(context.obj, publication, publisher, timeout, json))


async def _trace(urls: list[str], source: str, publisher: str | None, timeout_s: float, as_json: bool) -> None:
    given = [document for batch in read_all([source]) for document in batch]
    if len(given) != 1:
        raise Failure(f"expected one publication, not {len(given)}")
    async with new_client(urls, publisher=publisher) as client:
        found = await client.trace(given[0], timeout_s=timeout_s)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode(found))
    else:
        from rich.console import Console

        console = Console(highlight=False)
        console.print(f"[bold]{found.id}[/]")
        if found.hops:
            console.print(table_of(found))
    if not found.complete:
        raise Failure(
            f"the way was not complete after {timeout_s:g} s; 'braid status' shows whether a slice is missing"
        )


def table_of(trace: "Trace") -> "Table":
    from rich.table import Table

    hops = sorted(trace.hops, key=lambda hop: (hop.arrived_ns, hop.left_ns))
    start_ns, end_ns = hops[0].arrived_ns, max(hop.left_ns for hop in hops)
    table = Table(box=None, pad_edge=False, header_style="dim", caption_justify="left")
    for column in ("slice", "what it did", "on the wire", "in the slice", "when"):
        table.add_column(column, justify="right" if " the " in column else "left", no_wrap=True)
    left_ns = start_ns
    for place, hop in enumerate(hops):
        layer = hop.slice.rpartition("-")[0]
        deed = _DEEDS.get(layer, "accepted, logged" if place == 0 else "delivered")
        # Matchers work side by side: what counts before each is the latest departure not after its arrival.
        wire_ns = hop.arrived_ns - max(
            [other.left_ns for other in hops[:place] if other.left_ns <= hop.arrived_ns] or [left_ns]
        )
        table.add_row(
            f"[bold]{hop.slice}[/]",
            deed,
            duration(wire_ns) if place else "",
            duration(hop.left_ns - hop.arrived_ns),
            f"[cyan]{bar(hop.arrived_ns - start_ns, hop.left_ns - start_ns, end_ns - start_ns)}[/]",
        )
    table.caption = f"{duration(end_ns - start_ns)} from end to end"
    return table


def bar(begin_ns: int, end_ns: int, whole_ns: int) -> str:
    """A piece of a line as wide as the whole way; never too short to be seen."""
    scale = _BAR_WIDTH / max(whole_ns, 1)
    begin = min(math.floor(begin_ns * scale), _BAR_WIDTH - 1)
    end = max(begin + 1, math.ceil(end_ns * scale))
    return f"{' ' * begin}{'━' * (end - begin)}"


def duration(ns: int) -> str:
    if abs(ns) < 1_000_000:
        return f"{ns / 1_000:.0f} µs"
    return f"{ns / 1_000_000:.1f} ms" if abs(ns) < 1_000_000_000 else f"{ns / 1_000_000_000:.2f} s"
