"""`braid down`: stops the cluster that `braid up` started."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from braid.cli.running import Failure, examples, explained

EXAMPLES = examples("braid down", "braid down --data /var/lib/braid")
LAUNCHER = "coordinator.launcher"


def down(
    data: Annotated[
        Path | None, typer.Option(help="The directory that 'braid up' was given; else the configured one.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0, help="How many seconds to wait for the end.")] = 60.0,
) -> None:
    """Stop the cluster on this machine and wait until it has ended."""
    with explained():
        _stop((data or _configured_data()) / "cluster.json", timeout)


def _stop(file: Path, timeout_s: float) -> None:
    import psutil

    cluster = _read(file)
    if cluster is None:
        typer.echo(f"no cluster is running (there is no {file})")
        return
    launcher = _launcher_of(cluster)
    if launcher is None:
        typer.echo(f"no cluster is running (process {cluster['pid']}, named in {file}, is no longer its launcher)")
        return
    try:
        launcher.terminate()
        typer.echo(f"stopping the cluster (process {launcher.pid}, {len(cluster.get('slices', {}))} slices)")
        launcher.wait(timeout_s)
    except psutil.NoSuchProcess:
        pass
    except psutil.AccessDenied:
        raise Failure(f"process {launcher.pid} belongs to somebody else; stop it as that user") from None
    except psutil.TimeoutExpired:
        raise Failure(
            f"the cluster is still stopping after {timeout_s:g} s; see the logs in {file.parent / 'logs'}, "
            f"or end it at once with: kill -9 {launcher.pid}"
        ) from None
    typer.echo("stopped")


def _read(file: Path) -> dict[str, Any] | None:
    try:
        cluster = json.loads(file.read_text())
        if isinstance(cluster, dict) and isinstance(cluster.get("pid"), int):
            return cluster
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Failure(f"{file} cannot be read: {error}") from None
    raise Failure(f"{file} does not say which process the cluster is; was it written by 'braid up'?")


def _launcher_of(cluster: dict[str, Any]) -> Any:
    """The process, or None. One of that number may be another one by now, which must not be touched."""
    import psutil

    try:
        process = psutil.Process(cluster["pid"])
        return process if LAUNCHER in process.cmdline() else None
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        raise Failure(f"process {cluster['pid']} belongs to somebody else; stop it as that user") from None


def _configured_data() -> Path:
    from braid.config import ConfigError, load

    try:
        return load().settings.cluster.data
    except ConfigError as error:
        raise Failure(str(error)) from None
