"""The secret of a webhook at the command line: whatever stands there itself is shown to everybody by `ps`."""

import os
import sys
from pathlib import Path

import typer

_LENGTH_MAX = 1000  # read; more than any secret has


def read_secret(given: str) -> str:
    """From standard input for `-`, from a file for `@FILE`, from the environment for `env:NAME`; else it is itself."""
    if given == "-":
        return _found(sys.stdin.read(_LENGTH_MAX), "standard input")
    if given.startswith("@"):
        try:
            with Path(given[1:]).open(encoding="ascii") as file:
                return _found(file.read(_LENGTH_MAX), given[1:])
        except OSError as error:
            raise typer.BadParameter(f"{given[1:]} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise typer.BadParameter(f"{given[1:]} holds no secret: a secret is ASCII") from None
    if given.startswith("env:"):
        return _found(os.environ.get(given[4:], ""), f"the environment variable {given[4:]}")
    return given


def _found(text: str, where: str) -> str:
    if not text.strip():
        raise typer.BadParameter(f"there is no secret in {where}")
    return text.strip()


def secret_option(meaning: str) -> typer.models.OptionInfo:
    how = "- reads it from standard input, @FILE from a file, env:NAME from the environment: 'ps' shows arguments."
    option: typer.models.OptionInfo = typer.Option(parser=read_secret, metavar="SECRET", help=f"{meaning} {how}")
    return option
