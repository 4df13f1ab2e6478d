"""`braid status`: who is there, and whether the cluster can serve."""

import time
from typing import Annotated, Any

import typer

from braid.cli.running import examples, new_client, run

EXAMPLES = examples("braid status", "braid status --json | jq '.slices[].name'", "braid --url http://db7:8080 status")
_LAYERS = ("connpoint", "accesspoint", "matcher", "exitpoint")


def status(
    context: typer.Context, json: Annotated[bool, typer.Option("--json", help="As one JSON document.")] = False
) -> None:
    """Show every slice of the cluster; the exit code is 1 when it is not ready."""
    run(_status(context.obj, json))


async def _status(urls: list[str], as_json: bool) -> None:
    async with new_client(urls) as client:
        cluster = await client.cluster()
        reasons = await client.not_ready()
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode({**cluster, "ready": not reasons, "reasons": reasons}))
    else:
        _show(cluster, reasons)
    if reasons:
        raise typer.Exit(1)


def _show(cluster: dict[str, Any], reasons: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    epoch = cluster.get("epoch")
    console.print("[bold green]ready[/]" if not reasons else "[bold yellow]not ready[/]", end="")
    in_force = f"  epoch {epoch}, routing {cluster.get('routing')}{_map_shown(cluster.get('map'))}"
    console.print(in_force if epoch is not None else "  no configuration yet")
    for reason in reasons:
        console.print(f"  {reason}", markup=False)
    if change := cluster.get("change"):
        console.print(change_line(change), markup=False, soft_wrap=True)
    slices = sorted(cluster.get("slices", []), key=_place)
    # Most names say it, and without it everything fits into 80 columns.
    layer_first = ["layer"] if any(not slice["name"].startswith(slice["layer"]) for slice in slices) else []
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in (*layer_first, "slice", "address", "http", "process", "epoch", "up"):
        table.add_column(column, justify="right" if column in ("process", "up") else "left", no_wrap=True)
    for slice in slices:
        taken_in = "[yellow]waiting[/]" if slice.get("epoch") is None else str(slice["epoch"])
        table.add_row(
            *(slice[name] for name in layer_first),
            f"[bold]{slice['name']}[/]",
            slice.get("address", ""),
            slice.get("http", ""),
            str(slice.get("pid", "")),
            taken_in,
            up_time(time.time() - slice["incarnation"] / 1000) if slice.get("incarnation") else "",
        )
    console.print(table)


def change_line(change: dict[str, Any]) -> str:
    """`scaling-1f0c6a is moving: epoch 5 has 1 accesspoint, 3 matcher, 1 exitpoint`."""
    to = change.get("to", {})
    numbers = ", ".join(f"{len(to.get(f'{layer}s', []))} {layer}" for layer in _LAYERS[1:])
    numbers += _map_shown(to.get("map"))
    return f"  {change.get('id')} is {change.get('phase')}: epoch {to.get('epoch')} has {numbers}"


def _map_shown(map: dict[str, Any] | None) -> str:
    """`, map 61b1d7c2a9f0 of 50,000 anchors in 3 parts`; nothing where there is none."""
    return f", map {map['version']} of {map['anchors']:,} anchors in {map['parts']} parts" if map else ""


def _place(slice: dict[str, Any]) -> tuple[int, int, str]:
    """In the order of a publication's way; `matcher-10` after `matcher-9`."""
    layer, name = slice.get("layer", ""), slice.get("name", "")
    digits = name.rpartition("-")[2]
    return (
        _LAYERS.index(layer) if layer in _LAYERS else len(_LAYERS),
        int(digits) if digits.isdecimal() else 0,
        name,
    )


def up_time(seconds: float) -> str:
    """The two greatest units: `3d 4h`, `12m 5s`."""
    rest = max(0, int(seconds))
    parts = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, length)
        if count or unit == "s":
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
