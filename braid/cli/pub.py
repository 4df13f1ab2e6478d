"""`braid pub`: publishes what it is given or what it reads."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from braid.cli.inputs import Batch, read_all, without_blocking
from braid.cli.running import examples, new_client, run

if TYPE_CHECKING:
    from braid.client import Client

EXAMPLES = examples(
    'braid pub \'{"attributes": {"pollutant": "NO2", "value": 41.5}}\'',
    'braid pub \'{"topic": "rivers/jarama", "text": "Flooding", "zone": {"type": "point", "lat": 40.4, "lon": -3.7}}\'',
    "tail -f readings.ndjson | braid pub -",
    "braid pub @readings.json --rate 1000 --quiet",
)
_BATCHES_IN_FLIGHT = 8
_BATCH_MAX = 500
_BATCHES_PER_SECOND = 20  # with --rate


def pub(
    context: typer.Context,
    publications: Annotated[
        list[str] | None,
        typer.Argument(help="JSON: one object or an array; '-' reads standard input, '@file' a file (also NDJSON)."),
    ] = None,
    *,
    file: Annotated[Path | None, typer.Option(help="The same as @file.")] = None,
    publisher: Annotated[
        str | None, typer.Option(help="Publications of one publisher stay in order, over connections too.")
    ] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="At most so many publications per second.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print the ids.")] = False,
) -> None:
    """Publish, and print the id of each publication that was accepted."""
    sources = [*(publications or []), *([f"@{file}"] if file else [])]
    if not sources:
        raise typer.BadParameter("nothing to publish: give JSON, '-' for standard input, or @file")
    run(_pub(context.obj, sources, publisher, rate, quiet))


async def _pub(urls: list[str], sources: list[str], publisher: str | None, rate: float | None, quiet: bool) -> None:
    async with new_client(urls, publisher=publisher) as client:
        await _Publisher(client, quiet).publish_all(without_blocking(read_all(sources)), rate)


class _Flight(NamedTuple):
    first: int  # how many publications were sent before it
    answer: asyncio.Task[list[str]]


class _Publisher:
    """Sends as input arrives, with a few batches in flight, and prints ids in order as their answers arrive."""

    def __init__(self, client: "Client", quiet: bool) -> None:
        self._client = client
        self._quiet = quiet
        self._flying: asyncio.Queue[_Flight | Exception | None] = asyncio.Queue(_BATCHES_IN_FLIGHT)
        self._sent = 0
        self._due: float | None = None

    async def publish_all(self, batches: AsyncIterator[Batch], rate: float | None) -> None:
        sending = asyncio.create_task(self._send_all(batches, rate))
        try:
            while (flight := await self._flying.get()) is not None:
                if isinstance(flight, Exception):
                    raise flight
                await self._land(flight)
        finally:
            sending.cancel()
            await asyncio.gather(sending, *self._abandoned(), return_exceptions=True)

    async def _send_all(self, batches: AsyncIterator[Batch], rate: float | None) -> None:
        try:
            async for batch in batches:
                await self._send(batch, rate)
        except Exception as error:
            await self._flying.put(error)  # behind what was sent before it
        else:
            await self._flying.put(None)

    async def _send(self, batch: Batch, rate: float | None) -> None:
        size = _BATCH_MAX if rate is None else max(1, min(_BATCH_MAX, int(rate / _BATCHES_PER_SECOND)))
        for start in range(0, len(batch), size):
            part = batch[start : start + size]
            if rate is not None:
                await self._pace(len(part) / rate)
            await self._flying.put(_Flight(self._sent, asyncio.create_task(self._client.publish(part))))
            self._sent += len(part)

    async def _pace(self, takes_s: float) -> None:
        """What was missed while there was no input is made up for at most for a second."""
        clock = asyncio.get_running_loop().time
        self._due = max(self._due or clock(), clock() - 1)
        await asyncio.sleep(self._due - clock())
        self._due += takes_s

    async def _land(self, flight: _Flight) -> None:
        from braid.client.errors import BraidError

        try:
            ids = await flight.answer
        except BraidError as error:
            if error.problem:
                error.problem["detail"] = "\n".join([error.detail, *_where(error.field, flight.first)])
            raise
        if not self._quiet:
            typer.echo("\n".join(ids))

    def _abandoned(self) -> list[asyncio.Task[list[str]]]:
        flights = [self._flying.get_nowait() for _ in range(self._flying.qsize())]
        tasks = [flight.answer for flight in flights if isinstance(flight, _Flight)]
        for task in tasks:
            task.cancel()
        return tasks


def _where(field: str, first: int) -> list[str]:
    lines = []
    if field.startswith("$.publications["):
        inside = int(field.removeprefix("$.publications[").partition("]")[0])
        lines.append(f"in publication {first + inside + 1} of the input")
    if first:
        lines.append(f"the first {first} publications were accepted")
    return lines
