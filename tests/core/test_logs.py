"""Logs: one line per event, whoever tells it."""

import json
import subprocess
import sys

TELLS = """
import logging
import structlog
from braid.config import Logs
from braid.logs import configure_logs, set_log_field

configure_logs(Logs(format="json"), slice="matcher-1")
set_log_field("epoch", 3)
structlog.get_logger().info("ours", moved=2)
try:
    raise ValueError("two\\nlines")
except ValueError:
    logging.getLogger("asyncio").error("Task exception was %s retrieved", "never", exc_info=True)
logging.getLogger("kazoo").info("nobody needs to know")
"""


def test_what_libraries_tell_is_one_line_of_the_same_form() -> None:
    told = subprocess.run([sys.executable, "-c", TELLS], capture_output=True, text=True, check=True)
    ours, theirs = (json.loads(line) for line in told.stderr.splitlines())
    assert (ours["event"], ours["level"], ours["moved"]) == ("ours", "info", 2)
    assert (ours["slice"], ours["epoch"]) == ("matcher-1", 3)
    assert theirs["event"] == "Task exception was never retrieved"
    assert (theirs["level"], theirs["slice"], theirs["epoch"], theirs["logger"]) == ("error", "matcher-1", 3, "asyncio")
    assert "ValueError: two" in theirs["exception"]
    assert ours.keys() - {"moved"} == theirs.keys() - {"logger", "exception"}
