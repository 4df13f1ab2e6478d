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
    common: list[Any] = [
        _bind,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*common, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[logs.level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    _take_in_libraries([*common, structlog.stdlib.add_logger_name], renderer)


def _bind(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {**_fields, **event}


def _take_in_libraries(processors: list[Any], renderer: Any) -> None:
    """Libraries (asyncio, kazoo, uvicorn) log through the standard module. Only what needs attention is kept, as a line
    of the same form: a traceback of several lines would be several events to whoever reads them.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=processors,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
