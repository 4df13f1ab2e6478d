"""`braid config`: the settings in force, and where each came from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from braid.cli.running import Failure, examples, explained

if TYPE_CHECKING:
    from braid.config import Loaded

EXAMPLES = examples(
    "braid config",
    "braid config --config production.toml --json",
    "BRAID_INGRESS__FSYNC=always braid config",
)


class Setting(NamedTuple):
    key: str
    value: Any
    source: str
    description: str


def config(
    file: Annotated[
        Path | None, typer.Option("--config", help="TOML file; else $BRAID_CONFIG, else braid.toml if there is one.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As one JSON document.")] = False,
) -> None:
    """Show every setting: its value, whether a file, the environment or the default gave it, and what it means."""
    with explained():
        from braid.config import ConfigError, load

        try:
            settings = list_settings(load(file))
        except ConfigError as error:
            raise Failure(str(error)) from None
        if json:
            import msgspec

            typer.echo(msgspec.json.encode({setting.key: setting._asdict() for setting in settings}))
        else:
            _show(settings)


def list_settings(loaded: "Loaded") -> list[Setting]:
    from braid.config import flatten

    sections = type(loaded.settings).model_fields
    listed = []
    for key, value in flatten(loaded.settings).items():
        section, _, name = key.partition(".")
        model: Any = sections[section].annotation
        description = model.model_fields[name].description or ""
        listed.append(Setting(key, value, loaded.source_of(key), description))
    return listed


def _show(settings: list[Setting]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("setting", "value", "from", "meaning"):
        table.add_column(column, overflow="fold")
    for setting in settings:
        changed = setting.source != "default"
        table.add_row(
            Text(setting.key, "bold"),
            Text(str(setting.value), "cyan"),
            Text(setting.source, "yellow" if changed else "dim"),
            Text(setting.description, "dim"),
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(
        '\nSet them in braid.toml ([ingress] fsync = "always") or as BRAID_INGRESS__FSYNC=always.', markup=False
    )
