"""The command line as its users start it: in this process, or as one of its own."""

import asyncio
import sys
from collections.abc import Awaitable

from typer.testing import CliRunner, Result

from braid.cli.app import app

runner = CliRunner(env={"BRAID_URL": None, "COLUMNS": "160", "NO_COLOR": "1"})


async def braid(url: str, *arguments: str, input: str | None = None) -> Result:
    """In a thread, because the commands run an event loop of their own."""
    return await asyncio.to_thread(runner.invoke, app, ["--url", url, *arguments], input)


def start(url: str, *arguments: str) -> Awaitable[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "braid.cli", "--url", url, *arguments]
    return asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
