"""How much of the disk is used: as it was last measured, and what is known to have come and gone since.

A write counts at once, by its size. A database that goes counts as one that lives or as trash, and never as both when
somebody writes: counted twice, it would take room that is there.
"""

from services.matcher.storage.database import Database
from services.matcher.storage.settings import StorageSettings
from services.matcher.storage.trash import Trash


class DiskUse:
    def __init__(self, trash: Trash, settings: StorageSettings) -> None:
        self._trash = trash
        self._settings = settings
        self._of_each: dict[str, int] = {}
        self._of_all = 0
        self.damaged = 0

    def measured(self, of_each: dict[str, int], damaged: int) -> None:
        """The databases that are not in the trash, by their names, and what is kept of damaged ones."""
        self._of_each = of_each
        self._of_all = sum(of_each.values()) + damaged
        self.damaged = damaged

    def written(self, database: Database, size: int) -> None:
        self._of_each[database.name] = self._of_each.get(database.name, 0) + size
        self._of_all += size

    def forget(self, database: Database) -> None:
        """It is counted in the trash from here on."""
        self._of_all -= self._of_each.pop(database.name, 0)

    def of(self, database: Database) -> int:
        return self._of_each.get(database.name, 0)

    @property
    def bytes(self) -> int:
        return self._of_all + self._trash.bytes

    @property
    def is_full(self) -> bool:
        return self.bytes >= self._settings.disk_bytes_max

    @property
    def is_nearly_full(self) -> bool:
        return self.bytes >= self._settings.disk_bytes_max * self._settings.evict_from
