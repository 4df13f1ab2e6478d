"""Fixtures for all tests."""

import gc
import signal
from typing import Any

import pytest
from hypothesis import settings

from tests.distribution import Scheduling, in_order
from tests.service.zookeeper_fixture import zookeeper

__all__ = [
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_xdist_make_scheduler",
    "quick",
    "zookeeper",
]

QUICK_EXAMPLES_MAX = 10


def pytest_configure() -> None:
    """A shell that runs the tests in the background ignores Ctrl-C for them, and every process that a test starts would
    inherit that; some of them are told to stop by it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def is_quick(config: pytest.Config) -> bool:
    return bool(config.getoption("markexpr") == "not slow")


@pytest.fixture(scope="session")
def quick(pytestconfig: pytest.Config) -> bool:
    """Whether this run leaves out the slow tests."""
    return is_quick(pytestconfig)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A run without the slow tests tries each property with fewer examples than its test asks for; one with them begins
    with those that take long.

    Hypothesis has no public way to lower what a test says itself, so this sets what its decorators have left there.
    """
    if not is_quick(config):
        items[:] = in_order(items)
        return
    for item in items:
        test = getattr(item, "obj", None)
        wanted = getattr(test, "_hypothesis_internal_use_settings", None)
        if wanted is not None and wanted.max_examples > QUICK_EXAMPLES_MAX:
            test._hypothesis_internal_use_settings = settings(wanted, max_examples=QUICK_EXAMPLES_MAX)  # type: ignore[union-attr]  # it has settings


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()
