"""Maps of anchors in ZooKeeper: each is a znode that never changes, named by its version.

A map is created in the transaction that asks for it, and removed by the leader when no scaling is under way and the
configuration does not name it. The second must not undo the first, so whoever asks for a map that is there already
writes it over: its znode then has a higher number than the one that the leader has looked at, and stays.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import structlog

from braid import znodes
from braid.anchor_map import AnchorMap
from braid.zookeeper_session import KazooException, NoNodeError, Watch, ZooKeeperSession

log = structlog.get_logger()

CACHED_MAX = 4  # the configuration names two at most


class MapStore:
    def __init__(self, session: ZooKeeperSession, paths: znodes.Paths) -> None:
        self._session = session
        self._paths = paths
        self._cached: dict[str, AnchorMap] = {}  # by version, the one that was used last at the end

    async def load(self, versions: Iterable[str], watch: Watch | None = None) -> dict[str, AnchorMap]:
        """Those that are there and whole. For one that is not, `watch` is called when it comes."""
        found: dict[str, AnchorMap] = {}
        for version in versions:
            map = self._cached.pop(version, None) or await self._read(version, watch)
            if map is not None:
                found[version] = self._cached[version] = map
        while len(self._cached) > CACHED_MAX:
            del self._cached[next(iter(self._cached))]
        return found

    async def add_to(self, transaction: Any, map: AnchorMap) -> None:
        """Adds the making of its znode. Fails with the transaction where somebody does the same in that moment."""
        path, payload = self._paths.map(map.version), map.encode()
        if await self._session.exists(path):
            transaction.set_data(path, payload)
        else:
            transaction.create(path, payload)

    async def sweep(self, proof: str) -> None:
        """Removes those that nobody names. `proof` is a znode that is there as long as this process leads: of two
        leaders the earlier one might take a znode that was made anew for the one that it has looked at.
        """
        looked_at = {
            version: await self._session.version_of(self._paths.map(version))
            for version in await self._session.children(self._paths.maps)
        }
        if not looked_at or await self._session.exists(self._paths.scaling):
            return  # one that is under way may name any of them, and is followed by another sweep
        try:
            named = await self._named()
        except msgspec.MsgspecError:
            return  # nothing is guessed; whoever reads the configuration says that it cannot be read
        for version, number in looked_at.items():
            if version not in named and number is not None:
                transaction = self._session.transaction()
                transaction.check(proof, -1)
                transaction.delete(self._paths.map(version), number)
                if any(isinstance(result, KazooException) for result in await self._session.commit(transaction)):
                    log.info("a map stays, it was asked for again or another coordinator leads", version=version)

    async def _named(self) -> list[str]:
        """By the configuration, which is read behind all else: what ended meanwhile stands in it."""
        try:
            payload, _ = await self._session.get(self._paths.configuration)
        except NoNodeError:
            return []
        return znodes.maps_named_in(payload)

    async def _read(self, version: str, watch: Watch | None) -> AnchorMap | None:
        path = self._paths.map(version)
        try:
            payload, _ = await self._session.get(path)
        except NoNodeError:
            if watch is not None:
                await self._session.exists(path, watch)
            return None
        try:
            map = AnchorMap.decode(payload)
        except ValueError as error:
            log.error("a map cannot be read", path=path, error=str(error))
            return None
        if map.version != version:
            log.error("a map is not the one that its name says", path=path, holds=map.version)
            return None
        return map
