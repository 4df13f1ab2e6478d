"""TwoDB: the lists of subscriptions in one set of databases, those of publications in another."""

from pathlib import Path

from services.matcher.storage.list_storage import ListStorage
from services.matcher.storage.records import Kind
from services.matcher.storage.settings import StorageSettings


class TwoDB(ListStorage):
    def __init__(self, root: Path, settings: StorageSettings, now_s: float) -> None:
        names = {Kind.SUBSCRIPTION: "subscriptions", Kind.PUBLICATION: "publications"}
        super().__init__(root, names, settings, now_s)
