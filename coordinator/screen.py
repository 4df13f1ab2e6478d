"""What the launcher says to the person who started it."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from braid.config import Settings

DEFAULT_API = "http://127.0.0.1:8080"


def command_line() -> str:
    """How this person can call `braid`: by its name where that is found, else by its path, as short as it goes."""
    if shutil.which("braid"):
        return "braid"
    beside = Path(sys.executable).parent / "braid"
    return shlex.quote(os.path.relpath(beside) if beside.is_relative_to(Path.cwd()) else str(beside))


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
        is_default = data == Settings().cluster.data.absolute()
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
        braid = escape(command_line())
        lines += [
            f"""  [bold]{braid} sub "value > 40"[/]""",
            f"""  [bold]{braid} pub '{{"attributes":{{"value":41}}}}'[/]""",
            "",
            f"[dim]Stop it with Ctrl-C here, or with[/] {braid} down{'' if is_default else f' --data {data}'}",
        ]
        self._say("\n".join(lines))

    def _say(self, text: str) -> None:
        try:
            self._out.print(text)
        except (OSError, SystemExit):  # rich leaves the process when nobody reads; the cluster goes on
            self._out = Console(quiet=True)
