"""DualDB: both lists of an id side by side in one database, told apart by a flag in the key."""

from pathlib import Path

from services.matcher.storage.list_storage import ListStorage
from services.matcher.storage.reading import BOTH, Found, Query
from services.matcher.storage.records import Kind
from services.matcher.storage.settings import StorageSettings

_PART = "dual"


class DualDB(ListStorage):
    def __init__(self, root: Path, settings: StorageSettings, now_s: float) -> None:
        super().__init__(root, dict.fromkeys(Kind, _PART), settings, now_s)

    def _read(self, query: Query) -> Found:
        """Where both kinds are wanted, one range of each database has them."""
        if query.wanted == BOTH:
            return self._read_part(self._subscriptions, query, BOTH)
        return super()._read(query)
