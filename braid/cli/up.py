"""`braid up`: a cluster on this machine, in the foreground."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from braid.cli.running import examples

EXAMPLES = examples(
    "braid up",
    "braid up --data /var/lib/braid --port 9000",
    "braid up --slices matcher=2,exitpoint=2",
    "braid up --telemetry",
)


def up(
    *,
    data: Annotated[Path | None, typer.Option(help="Directory of all state on this machine.")] = None,
    port: Annotated[int | None, typer.Option(help="Of the first connection point; 0 lets the system choose.")] = None,
    zookeeper: Annotated[
        str | None, typer.Option(help="host:port,… of a ZooKeeper that runs already; else one is started.")
    ] = None,
    slices: Annotated[str | None, typer.Option(help="How many of each layer, such as matcher=2,exitpoint=2.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings; see 'braid config'.")] = None,
    telemetry: Annotated[
        bool, typer.Option("--telemetry", help="Slices write samples of themselves; see 'braid experiment follow'.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say only what goes wrong.")] = False,
) -> None:
    """Start a cluster on this machine and keep it up until Ctrl-C or 'braid down'."""
    given = {"--data": data, "--port": port, "--zookeeper": zookeeper, "--slices": slices, "--config": config}
    options = [text for name, value in given.items() if value is not None for text in (name, str(value))]
    options += [name for name, is_on in (("--telemetry", telemetry), ("--quiet", quiet)) if is_on]
    command = [sys.executable, "-m", "coordinator.launcher", *options]
    sys.stdout.flush()
    # The launcher takes the place of this process, so that signals from the terminal reach it directly.
    os.execv(command[0], command)
