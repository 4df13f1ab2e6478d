"""Compiles the matching engine before any matcher starts, in a process of its own.

A matcher that finds nothing compiled does it by itself, but then the cluster is not ready in time, and nobody sees why.
"""

import asyncio
import sys
from collections.abc import Callable

from braid.matching.compiled import is_complete
from coordinator.data_directory import DataDirectory
from coordinator.processes import Child, Command, describe_exit, tail

COMPILE_S_MAX = 600.0  # also for waiting until another process has compiled
COMPILER = "compiler"  # its name, and its group
ANNOUNCEMENT = "compiling the matching engine (once on a machine, about half a minute)"

CompilerArguments = Callable[[], list[str] | None]


class EngineNotCompiled(Exception):
    """The matching engine cannot be compiled; the message says why."""


def compiler_arguments() -> list[str] | None:
    """None when everything is compiled."""
    return None if is_complete() else [sys.executable, "-m", "braid.matching.warm"]


def compiler_command(arguments: list[str], data: DataDirectory) -> Command:
    return Command(COMPILER, COMPILER, arguments, data.log(COMPILER))


async def wait_compiled(compiler: Child) -> None:
    try:
        async with asyncio.timeout(COMPILE_S_MAX):
            code = await compiler.wait()
    except TimeoutError:
        raise _failure(compiler, f"was not compiled within {COMPILE_S_MAX:g} s") from None
    if code != 0:
        raise _failure(compiler, f"could not be compiled ({describe_exit(code)})")


def _failure(compiler: Child, what: str) -> EngineNotCompiled:
    log = compiler.command.log
    return EngineNotCompiled(
        f"the matching engine {what}. 'python -m braid.matching.warm' tries it again; the log is {log}:\n{tail(log)}"
    )
