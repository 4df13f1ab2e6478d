"""The real HTTP interface before a fake door, served once for all tests of a module."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.service.fake_door import Served, serving


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Served]:
    """A module that needs other settings has a fixture of its own by this name."""
    async with serving() as served:
        yield served


@pytest.fixture
def served(shared: Served) -> Served:
    """What the test before left at the door is gone."""
    shared.door.reset()
    return shared
