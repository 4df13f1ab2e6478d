"""Structured logs: one line per event, with the slice and the epoch on every line."""

import logging
import sys
from typing import Any

import structlog

from braid.config import Logs

_fields: dict[str, Any] = {}


def set_log_field(name: str, value: Any) -> None:
    """From now on it stands on every line of this process."""
    _fields[name] = value


def configure_logs(logs: Logs, **fields: Any) -> None:
    """Sets up structlog for this process; `fields` (slice, process) stand on every line."""
    _fields.clear()
    _fields.update(fields)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if logs.format == "console"
        else structlog.processors.JSONRenderer()
    )

    def bind(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {**_fields, **event}

    structlog.configure(
        processors=[
            bind,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[logs.level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    # Libraries (kazoo, uvicorn) log through the standard module; only what needs attention is kept.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s %(message)s", force=True)
