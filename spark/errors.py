"""What a user of an experiment can do something about."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from braid.cli.running import Failure, explained


class ExperimentError(Exception):
    """The message says what is wrong and what to do."""


@contextmanager
def shown_errors() -> Iterator[None]:
    """Around a whole program: expected errors are shown as all commands show them, and end it."""
    try:
        with explained():
            try:
                yield
            except ExperimentError as error:
                raise Failure(str(error)) from None
    except typer.Exit as ended:
        sys.exit(ended.exit_code)
