"""`braid scale` and `braid replace`: other slices, or another map of anchors, for a running cluster."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from braid.cli.running import Failure, examples, explained, new_client, run
from braid.cli.scaling_watch import hint, watch

EXAMPLES = examples(
    "braid scale matcher 3",
    "braid scale matcher=3 exitpoint=2",
    "braid scale matcher=3 --replace matcher-2",
    "braid scale --routing anchored",
    "braid scale --map map.json",
    "braid scale matcher 3 --routing anchored --map map.json",
    "braid scale --map none",
    "braid scale matcher 3 --json | jq .longest_pause_s",
    "braid scale matcher 3 --no-wait",
    "braid scale --watch scaling-1f0c6a04b7d2",
)
REPLACE_EXAMPLES = examples("braid replace matcher-2", "braid replace matcher-2 exitpoint-1 --json")
_FORMS = "expected a layer and a number, such as: braid scale matcher 3, or braid scale matcher=3 exitpoint=2"

Json = Annotated[bool, typer.Option("--json", help="Only the scaling as one JSON document, when it has ended.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Print the id of the scaling and leave.")]


def scale(
    context: typer.Context,
    layers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LAYER=NUMBER",
            help="Layers are accesspoint, matcher and exitpoint. For one layer also: LAYER NUMBER.",
            show_default=False,
        ),
    ] = None,
    *,
    replace: Annotated[
        list[str] | None,
        typer.Option("--replace", metavar="SLICE", help="Also put another slice in the place of this one."),
    ] = None,
    routing: Annotated[
        str | None,
        typer.Option(
            "--routing",
            metavar="NAME",
            help="Which matchers a publication visits: 'broadcast' (all), or 'anchored' (those of its anchors).",
        ),
    ] = None,
    map: Annotated[
        str | None,
        typer.Option(
            "--map",
            metavar="FILE",
            help="Where anchors lie that shall not lie where they hash to: a JSON file with 'parts' and 'words' or "
            "'anchors', as 'braid experiment map' makes one. 'none' takes away the map that is there.",
        ),
    ] = None,
    watched: Annotated[
        str | None, typer.Option("--watch", metavar="ID", help="Ask for nothing; show a scaling that was asked for.")
    ] = None,
    json: Json = False,
    no_wait: NoWait = False,
) -> None:
    """Change the slices, the routing or the map while publications flow, and show how far it is until it has ended.

    The exit code is 1 when it was aborted; then everything is as it was before. Ctrl-C leaves the scaling running.
    """
    if watched is not None:
        if layers or replace or routing or map or no_wait:
            raise typer.BadParameter("--watch only shows a scaling; leave out everything else but --json")
        run(_show(context.obj, watched, json))
        return
    if not layers and not replace and not routing and not map:
        raise typer.BadParameter(_FORMS)
    asked: dict[str, Any] = {"layers": numbers_of(layers or []), "replace": replace or [], "routing": routing}
    with explained():
        asked["map"] = None if map is None else read_map(map)
    run(_scale(context.obj, asked, as_json=json, wait=not no_wait))


def replace(
    context: typer.Context,
    slices: Annotated[list[str], typer.Argument(metavar="SLICE", help="Slices as 'braid status' shows them.")],
    json: Json = False,
    no_wait: NoWait = False,
) -> None:
    """Put other slices in the place of these, while publications flow; their state moves to the others.

    The exit code is 1 when it was aborted; then everything is as it was before. Ctrl-C leaves the scaling running.
    """
    run(_scale(context.obj, {"replace": slices}, as_json=json, wait=not no_wait))


def numbers_of(words: list[str]) -> dict[str, int]:
    """`matcher 3` or `matcher=3 exitpoint=2`; which layers and numbers there can be is for the cluster to say."""
    pairs = [(words[0], words[1])] if len(words) == 2 and "=" not in "".join(words) else []
    pairs = pairs or [(layer, number) for layer, _, number in (word.partition("=") for word in words)]
    if not all(layer and number.isascii() and number.isdecimal() and len(number) < 10 for layer, number in pairs):
        raise typer.BadParameter(_FORMS)
    if len({layer for layer, _ in pairs}) < len(pairs):
        raise typer.BadParameter("a layer is named twice")
    return {layer: int(number) for layer, number in pairs}


def read_map(name: str) -> dict[str, Any] | Literal["none"]:
    """What can stand in a map is for the cluster to say."""
    import msgspec

    if name == "none":
        return "none"
    try:
        return msgspec.json.decode(Path(name).read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise Failure(f"cannot read {name}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failure(
            f'{name} is no map, which is JSON such as {{"parts": 3, "words": {{"house": 0}}}}: {error}'
        ) from None


async def _scale(urls: list[str], asked: dict[str, Any], *, as_json: bool, wait: bool) -> None:
    """`asked` is what `Client.scale` takes."""
    from braid.client.errors import BraidError

    async with new_client(urls) as client:
        try:
            id = await client.scale(**asked)
        except BraidError as error:
            other = error.problem.get("scaling")
            if error.status != 409 or not isinstance(other, str):
                raise
            raise Failure(f"{other} is under way, and there is one scaling at a time. {hint(other)}") from None
        if wait:
            await watch(client, id, as_json)
        elif as_json:
            import msgspec

            typer.echo(msgspec.json.encode({"id": id}))
        else:
            typer.echo(id)


async def _show(urls: list[str], id: str, as_json: bool) -> None:
    async with new_client(urls) as client:
        await client.scaling(id)  # says at once when it is unknown, or when nothing answers
        await watch(client, id, as_json)
