"""All commands, and the options before them."""

from typing import Annotated

import typer

from braid.cli import bench, config, down, experiment, explain, history, pub, scale, status, sub, trace, up, webhook
from braid.cli.running import DEFAULT_URL, examples

app = typer.Typer(
    name="braid",
    help="An elastic content-based publish/subscribe broker.",
    epilog=examples("braid up", 'braid sub "value > 40"', 'braid pub \'{"attributes": {"value": 41}}\''),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"braid {version('braid-broker')}")
        raise typer.Exit


@app.callback()
def before(
    context: typer.Context,
    url: Annotated[
        str,
        typer.Option(envvar="BRAID_URL", help="Address of the API; several connection points are separated by commas."),
    ] = DEFAULT_URL,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    context.obj = [address.strip() for address in url.split(",") if address.strip()]


app.command("up", epilog=up.EXAMPLES)(up.up)
app.command("down", epilog=down.EXAMPLES)(down.down)
app.command("status", epilog=status.EXAMPLES)(status.status)
app.command("scale", epilog=scale.EXAMPLES)(scale.scale)
app.command("replace", epilog=scale.REPLACE_EXAMPLES)(scale.replace)
app.command("sub", epilog=sub.EXAMPLES)(sub.sub)
app.add_typer(webhook.webhook, name="webhook")
app.command("pub", epilog=pub.EXAMPLES)(pub.pub)
app.command("history", epilog=history.EXAMPLES)(history.history)
app.command("trace", epilog=trace.EXAMPLES)(trace.trace)
app.command("explain", epilog=explain.EXAMPLES)(explain.explain)
app.command("bench", epilog=bench.EXAMPLES)(bench.bench)
app.command("config", epilog=config.EXAMPLES)(config.config)
app.add_typer(experiment.experiment, name="experiment")
