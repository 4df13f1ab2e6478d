"""What the tests of webhooks share: a schedule without chance, facts, notifications, and a database in memory."""

from collections.abc import Iterator

from braid.config import Webhooks
from braid.deliver import Webhook
from braid.leveldb import Pages
from services.connpoint.delivery import Addressed
from services.connpoint.webhooks.facts import Facts
from services.connpoint.webhooks.schedule import Schedule
from services.connpoint.webhooks.shelves import Shelves

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
WEBHOOK = Webhook("https://example.com/hook", SECRET)
FACTS = Facts(WEBHOOK, "anna")


def schedule(chance: float = 1.0) -> Schedule:
    """With `chance` 1 pauses are as long as they can be."""
    return Schedule(
        retry_s=1.0, retry_s_max=60.0, attempts_max=5, refusals_max=2, age_s_max=1000.0, random=lambda: chance
    )


def addressed(number: int, id: str = "a-1", size: int = 0) -> Addressed:
    """The content says which one it is."""
    return Addressed(id, ("connpoint-1.a", number, 0), b'{"id":"p%d"}' % number + size * b" ")


class MemoryPages(Pages):
    """A database that survives whoever used it."""

    def __init__(self, disk: dict[bytes, bytes]) -> None:
        self.disk = disk

    def put(self, key: bytes, value: bytes) -> None:
        self.disk[key] = value

    def delete(self, key: bytes) -> None:
        self.disk.pop(key, None)

    def get(self, key: bytes) -> bytes | None:
        return self.disk.get(key)

    def scan(self, prefix: bytes, first: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        found = [(key, value) for key, value in self.disk.items() if key.startswith(prefix) and key >= first]
        return iter(sorted(found))


def shelves(disk: dict[bytes, bytes], **settings: int) -> tuple[Shelves, MemoryPages]:
    """As they are found on that disk."""
    made = Shelves(Webhooks.model_construct(**{**Webhooks().model_dump(), **settings}))
    pages = MemoryPages(disk)
    made.load(pages)
    return made, pages
