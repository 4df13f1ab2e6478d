"""Errors for clients, as RFC 9457 problem documents: which field is wrong, why, and what to do."""

from typing import Any

import msgspec

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """Raised anywhere behind the door; turned into a problem document at the door."""

    def __init__(self, status: int, kind: str, title: str, detail: str, **members: Any) -> None:
        super().__init__(f"{title}: {detail}")
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail
        self.members = {name: value for name, value in members.items() if value is not None}

    def document(self) -> dict[str, Any]:
        return {
            "type": f"urn:braid:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **self.members,
        }

    def encode(self) -> bytes:
        return msgspec.json.encode(self.document())


def malformed(detail: str, **members: Any) -> Problem:
    """The bytes are not what the content type promises."""
    return Problem(400, "malformed", "The body could not be read", detail, **members)


def invalid(field: str, detail: str, **members: Any) -> Problem:
    """The body was read, but a field of it cannot be used."""
    return Problem(422, "invalid-field", "A field is not valid", detail, field=field, **members)


def unsupported(field: str, detail: str) -> Problem:
    return Problem(501, "unsupported", "Not available in this version", detail, field=field)


def limit_exceeded(limit: str, maximum: int, actual: int | None, field: str | None = None) -> Problem:
    """`limit` is the name of the setting, so that an operator finds it in `braid config`."""
    status = 413 if limit.endswith("bytes_max") or limit == "limits.batch_publications_max" else 422
    seen = "" if actual is None else f", this is {actual}"
    return Problem(
        status,
        "limit-exceeded",
        "A limit was exceeded",
        f"at most {maximum} allowed by the limit '{limit}'{seen}",
        limit=limit,
        maximum=maximum,
        actual=actual,
        field=field,
    )


def not_found(what: str, name: str) -> Problem:
    return Problem(404, "not-found", "Not found", f"there is no {what} '{name}'")


def overloaded(detail: str, retry_after_s: int = 1) -> Problem:
    return Problem(
        429, "overloaded", "Publishing faster than the cluster delivers", detail, retry_after_s=retry_after_s
    )


def unavailable(detail: str, retry_after_s: int = 1) -> Problem:
    return Problem(503, "unavailable", "Not available right now", detail, retry_after_s=retry_after_s)
