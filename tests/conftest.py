"""Fixtures for all tests."""

import signal

from tests.service.zookeeper_fixture import zookeeper

__all__ = ["pytest_configure", "zookeeper"]


def pytest_configure() -> None:
    """A shell that runs the tests in the background ignores Ctrl-C for them, and every process that a test starts would
    inherit that; some of them are told to stop by it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
