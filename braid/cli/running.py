"""Runs what a command does, and turns whatever goes wrong into a message that says what to do."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from braid.client import BraidError, Client, State

DEFAULT_URL = "http://127.0.0.1:8080"
INTERRUPTED = 130  # what shells expect of a command that Ctrl-C ended


class Failure(Exception):
    """Ends the command with this message."""


def examples(*lines: str) -> str:
    """For the end of a command's help: each on a line of its own."""
    return "\n\n".join(["[bold]Examples[/bold]", *(f"  {line}".replace("[", r"\[") for line in lines)])


def run(work: Coroutine[Any, Any, None]) -> None:
    """An asynchronous command. Ctrl-C cancels it, so that it can say goodbye to the cluster first."""
    with explained():
        asyncio.run(work)


@contextmanager
def explained() -> Iterator[None]:
    """Shows expected errors without a traceback, and ends the command with exit code 1."""
    try:
        yield
    except Failure as failure:
        complain(str(failure))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read our output has gone (`braid sub … | head`). Python would complain once more on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except Exception as error:
        # A command that has not loaded the client cannot have met its errors.
        errors = sys.modules.get("braid.client.errors")
        if errors is None or not isinstance(error, errors.BraidError):
            raise
        complain_of(error)
        raise typer.Exit(1) from None


def new_client(
    urls: list[str],
    *,
    subscriber: str | None = None,
    publisher: str | None = None,
    on_state: "Callable[[State], None] | None" = None,
) -> "Client":
    """A person at the terminal wants to know at once that nothing answers."""
    from braid.client import Client

    try:
        return Client(
            urls, subscriber=subscriber, publisher=publisher, on_state=on_state, connect_timeout_s=0, call_timeout_s=10
        )
    except ValueError as error:
        raise Failure(str(error)) from None


def stderr_console() -> "Console":
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def complain(message: str) -> None:
    from rich.text import Text

    stderr_console().print(Text.assemble(("error: ", "bold red"), message))


def complain_of(error: "BraidError") -> None:
    """The problem document as lines; a filter error brings its own line with a caret below it."""
    from rich.text import Text

    from braid.client.errors import ConnectionLost, Replaced

    if not error.problem.get("title"):
        complain(str(error))
        if isinstance(error, ConnectionLost) and not isinstance(error, Replaced):
            stderr_console().print("Is the cluster up? Start it with ./dev up, or say where it is with --url.")
        return
    complain(str(error.problem["title"]))
    lines = Text()
    if error.field:
        lines.append("  field  ", "dim").append(f"{error.field}\n", "bold")
    for line in error.detail.splitlines():
        lines.append(f"  {line}\n")
    if "retry_after_s" in error.problem:
        lines.append(f"  try again in {error.problem['retry_after_s']} s\n")
    stderr_console().print(lines, end="")
