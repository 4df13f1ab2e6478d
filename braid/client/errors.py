"""What can go wrong for a user of the client. Everything is a `BraidError`."""

from collections.abc import Mapping
from typing import Any


class BraidError(Exception):
    """An error with, when the server reported it, its problem document (RFC 9457)."""

    def __init__(self, message: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.problem: dict[str, Any] = dict(problem or {})

    @property
    def status(self) -> int | None:
        """The HTTP status of the problem; None when the server reported none."""
        status = self.problem.get("status")
        return status if isinstance(status, int) else None

    @property
    def field(self) -> str:
        """The path of the field that is wrong, such as `$.filter`; empty when it is not about a field."""
        return str(self.problem.get("field", ""))

    @property
    def detail(self) -> str:
        return str(self.problem.get("detail", "")) or str(self)


class ConnectionLost(BraidError):
    """There is no connection and the client has given up making one. Make a new client to go on."""


class Replaced(ConnectionLost):
    """A newer connection of the same subscriber took this one's place."""


class CallTimeout(BraidError, TimeoutError):
    """No answer in time. What was asked may have happened or may not."""


def from_problem(problem: Mapping[str, Any]) -> BraidError:
    """The exception for a problem document of the server."""
    title = str(problem.get("title", "the server refused the request"))
    detail = str(problem.get("detail", ""))
    field = f" (field {problem['field']})" if problem.get("field") else ""
    return BraidError(f"{title}: {detail}{field}" if detail else f"{title}{field}", problem)
