"""Fixtures for all tests."""

from tests.service.zookeeper_fixture import zookeeper

__all__ = ["zookeeper"]
