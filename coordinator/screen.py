"""What the launcher says to the person who started it."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.status import Status

DEFAULT_API = "http://127.0.0.1:8080"


class Screen:
    def __init__(self, quiet: bool) -> None:
        self._out = Console(quiet=quiet, highlight=False, soft_wrap=True)
        self._errors = Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: Status | None = None

    def step(self, what: str) -> None:
        """What is being done now; on a terminal it replaces the step before."""
        if not self._out.is_terminal:
            self._say(f"{escape(what)} …")
        elif self._status is None:
            self._status = self._out.status(f"[dim]{escape(what)} …[/]")
            self._status.start()
        else:
            self._status.update(f"[dim]{escape(what)} …[/]")

    def settle(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def note(self, what: str) -> None:
        self._say(f"[yellow]{escape(what)}[/]")

    def error(self, what: str) -> None:
        self.settle()
        self._errors.print(f"[red]error:[/] {escape(what)}")

    def ready(self, api: Sequence[str], data: Path, seconds: float) -> None:
        self.settle()
        lines = [f"[green]Braid is ready[/] [dim]after {seconds:.1f} s[/]", ""]
        lines += [f"  API        [cyan]{address}[/]" for address in api]
        lines += [
            f"  reference  [cyan]{api[0]}/docs[/]",
            f"  logs       {escape(str(data / 'logs'))}",
            "",
            "Try it in two other terminals:",
        ]
        if api[0] != DEFAULT_API:
            lines.append(f"  [bold]export BRAID_URL={api[0]}[/]")
        lines += [
            """  [bold]braid sub "value > 40"[/]""",
            """  [bold]braid pub '{"attributes":{"value":41}}'[/]""",
            "",
            "[dim]Stop it with Ctrl-C here, or with[/] braid down",
        ]
        self._say("\n".join(lines))

    def _say(self, text: str) -> None:
        try:
            self._out.print(text)
        except (OSError, SystemExit):  # rich leaves the process when nobody reads; the cluster goes on
            self._out = Console(quiet=True)
