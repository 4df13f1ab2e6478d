"""`braid bench`: how much a running cluster does, and how long it takes."""

from typing import TYPE_CHECKING, Annotated

import typer

from braid.cli.running import Failure, examples, new_client, run, stderr_console

if TYPE_CHECKING:
    from benchmarks.running_cluster import Measured, Wanted

EXAMPLES = examples(
    "braid bench",
    "braid bench --subscriptions 10000 --seconds 30",
    "braid bench --rate 5000 --json",
)


def bench(
    context: typer.Context,
    *,
    subscriptions: Annotated[int, typer.Option(min=1, help="Made first; each publication matches one of them.")] = 1000,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600, help="How long to publish.")] = 10.0,
    rate: Annotated[
        float | None, typer.Option(min=1, help="So many publications a second; without it, as many as are taken.")
    ] = None,
    publishers: Annotated[int, typer.Option(min=1, max=64, help="Connections that publish.")] = 4,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Publications in one message, without --rate.")] = 200,
    json: Annotated[bool, typer.Option("--json", help="As one JSON document.")] = False,
) -> None:
    """Measure the cluster: publish, receive, and hold what came against what was sent.

    Its subscriptions go when it ends; what it publishes is kept as long as anything else. With several addresses in
    --url the first one is measured.
    """
    from benchmarks.running_cluster import Wanted

    run(_bench(context.obj, Wanted(context.obj[0].rstrip("/"), subscriptions, seconds, rate, publishers, batch), json))


async def _bench(urls: list[str], wanted: "Wanted", as_json: bool) -> None:
    async with new_client(urls[:1]) as client:  # says what to do where nobody answers
        await client.cluster()
    found = await _measured(wanted)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode(found))
    else:
        typer.echo("\n".join(lines_of(found)))
    if not found.is_right:
        raise Failure("not everything came once and in order; was a process started again meanwhile?")


async def _measured(wanted: "Wanted") -> "Measured":
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from benchmarks.running_cluster import measure

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=stderr_console(), transient=True) as progress:
        loading = progress.add_task("subscriptions", total=wanted.subscriptions)
        publishing = progress.add_task("publications", total=None, start=False)

        def on_loaded(count: int) -> None:
            progress.update(loading, completed=count)
            if count == wanted.subscriptions:
                progress.start_task(publishing)

        try:
            return await measure(wanted, on_loaded, lambda count: progress.advance(publishing, count))
        except (OSError, RuntimeError) as error:
            raise Failure(f"the measurement has ended: {error}") from None


def lines_of(found: "Measured") -> list[str]:
    latency = "  ".join(f"{name} {value:,.1f} ms" for name, value in found.latency_ms.items())
    return [
        f"subscriptions  {found.subscriptions:,}",
        f"publications   {found.published:,}, {found.delivered_per_s:,.0f}/s delivered",
        f"latency        {latency}",
        f"lost {found.lost:,}, twice {found.twice:,}, out of order {found.out_of_order:,}",
    ]
