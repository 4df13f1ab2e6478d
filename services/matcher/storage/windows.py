"""The databases of one part of a storage: one for each window of expiry, and the base for what lasts longer.

A record lies in the narrowest window that its life spans at most `WINDOWS_AHEAD` times, so that what has expired and is
still on disk is never more than what lives, and the number of databases is bounded. When a window has passed, its
database is taken out and goes to the trash whole; nothing in it is looked at one by one on the way.
"""

import math
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TypeVar

from services.matcher.storage.database import DamagedError, Database
from services.matcher.storage.ledger import Line, Lines, what_is_missing
from services.matcher.storage.records import Damage, Kind
from services.matcher.storage.repairing import finish_interrupted, forget_moved, repair, what_is_broken
from services.matcher.storage.settings import MADE_AHEAD_S_MAX, WINDOWS_AHEAD, StorageSettings

T = TypeVar("T")
_BASE = "base"
_SUBSCRIPTION = int(Kind.SUBSCRIPTION)


class Windows:
    def __init__(self, root: Path, part: str, settings: StorageSettings, on_damage: Callable[[Damage], None]) -> None:
        self.part = part
        self._directory = root / part
        self._damaged = root / "damaged"
        self._settings = settings
        self._widths_s = settings.widths_s
        self._on_damage = on_damage
        self._windows: dict[tuple[int, int], Database] = {}
        self._bases: dict[int, Database] = {}  # two while one is rewritten, the older one first
        self.leaving: set[Database] = set()  # nothing that must stay is put there any more
        self.replacing: set[str] = set()  # ids of which what was intended may still be written down

    def open(self, known: Lines) -> None:
        """`known` is what was there when that was last written down."""
        self._directory.mkdir(parents=True, exist_ok=True)
        finish_interrupted(self._directory)
        repaired: list[Database] = []
        for name in sorted(filter(_is_ours, (path.name for path in self._directory.iterdir())), key=order_of):
            width, _, number = name.partition("-")
            database = self._make(width, int(number))
            if not self._open(database, known.databases.get(database.name, Line(0, 0)), known.closed):
                repaired.append(database)
        for database in repaired:
            self._forget_moved(database)

    def _make(self, width: str, number: int) -> Database:
        name = f"{width}-{number}"
        database = Database(f"{self.part}/{name}", self._directory / name, end_of(name), self._settings)
        if width == _BASE:
            self._bases[number] = database
        else:
            self._windows[int(width), number] = database
        return database

    def _open(self, database: Database, line: Line, was_closed: bool) -> bool:
        """Whether it was not damaged."""
        try:
            if missing := what_is_missing(database.path, line, was_closed) or what_is_broken(database.path):
                raise DamagedError(database, missing)
            database.open()
        except DamagedError as error:
            self._on_damage(repair(database, error.reason, self._damaged, self._settings, line.entries))
            return False
        return True

    # Where to write

    def place(self, kind: Kind, made_s: float, expires_s: float, now_s: float) -> Database:
        """The database of a record, which is made when it is the first."""
        if made_s > now_s + MADE_AHEAD_S_MAX:
            raise ValueError(
                f"made {made_s - now_s:.0f} s ahead of the clock; at most {MADE_AHEAD_S_MAX:.0f} s are taken"
            )
        place = self._place_of(made_s, expires_s)
        if place is None:
            return self.base
        database = self._windows.get(place)
        if database is None:
            database = self._make(str(place[0]), place[1])
            database.open()
        if kind is Kind.SUBSCRIPTION and database in self.leaving:
            return self.base
        return database

    def spanning(self, expires_s: float) -> list[Database]:
        """The windows in which something can lie that expires then, whatever the settings were when it was put."""
        places = {(width, int(expires_s // width)) for width, _ in self._windows}
        return [self._windows[place] for place in places if place in self._windows]

    def _place_of(self, made_s: float, expires_s: float) -> tuple[int, int] | None:
        lifetime_s = expires_s - made_s
        for width in self._widths_s:
            if lifetime_s <= width * WINDOWS_AHEAD:
                return width, int(expires_s // width)
        return None

    @property
    def base(self) -> Database:
        """The one that is written to."""
        return self._bases[max(self._bases)] if self._bases else self.new_base()

    def new_base(self) -> Database:
        database = self._make(_BASE, max(self._bases, default=-1) + 1)
        database.open()
        return database

    # Where to read

    def all(self) -> list[Database]:
        """Bases last: what moves there while somebody goes through all is not missed."""
        return [*(self._windows[place] for place in sorted(self._windows)), *self._bases.values()]

    def live(self, now_s: float) -> list[Database]:
        return [database for database in self.all() if database.end_s > now_s]

    def with_subscriptions(self, now_s: float) -> list[Database]:
        return [database for database in self._each() if database.end_s > now_s and database.kinds & _SUBSCRIPTION]

    def with_publications(self, now_s: float, from_s: float) -> list[Database]:
        """Those with none that is new enough are passed over."""
        return [database for database in self._each() if database.end_s > now_s and database.newest_s >= from_s]

    def with_either(self, now_s: float, from_s: float) -> list[Database]:
        return [
            database
            for database in self._each()
            if database.end_s > now_s and (database.kinds & _SUBSCRIPTION or database.newest_s >= from_s)
        ]

    def _each(self) -> Iterator[Database]:
        return chain(self._windows.values(), self._bases.values())

    def reading(self, work: Callable[[], T]) -> T:
        """Runs it, and runs it again after a repair where it meets a damaged database."""
        repaired: set[str] = set()
        while True:
            try:
                return work()
            except DamagedError as error:
                if error.database.name in repaired:
                    raise
                repaired.add(error.database.name)
                self.repair(error)

    def repair(self, error: DamagedError, known: int = 0) -> None:
        """`known` is how many entries it is known to have held."""
        self._on_damage(repair(error.database, error.reason, self._damaged, self._settings, known))
        self._forget_moved(error.database)

    def _forget_moved(self, repaired: Database) -> None:
        """Not what is copied to it from a database that goes."""
        going = {*self.leaving, *self._bases.values()} - {self._bases.get(max(self._bases, default=-1))}
        others = [one for one in self._each() if one is not repaired and one not in going and one.kinds & _SUBSCRIPTION]
        self.reading(lambda: forget_moved(repaired, others))

    # What goes

    def passed(self, now_s: float) -> list[Database]:
        return [database for database in self._windows.values() if database.end_s <= now_s]

    def take_out(self, database: Database) -> None:
        """Nobody finds it here any more; it is still open."""
        self._windows = {place: other for place, other in self._windows.items() if other is not database}
        self._bases = {number: other for number, other in self._bases.items() if other is not database}
        self.leaving.discard(database)

    def put_back(self, database: Database, *, leaving: bool) -> None:
        """It was taken out, and could not go."""
        if leaving:
            self.leaving.add(database)
        name = database.name.rpartition("/")[2]
        width, _, number = name.partition("-")
        if width == _BASE:
            self._bases = dict(sorted({**self._bases, int(number): database}.items()))
        else:
            self._windows = {**self._windows, (int(width), int(number)): database}

    def publication_windows(self) -> list[Database]:
        """Those that expire first are first."""
        found = [one for one in self._windows.values() if one.has(Kind.PUBLICATION) and one not in self.leaving]
        return sorted(found, key=lambda database: database.end_s)

    def bases(self) -> list[Database]:
        return list(self._bases.values())

    def close(self) -> None:
        for database in self._each():
            database.close()


def _is_ours(name: str) -> bool:
    width, _, number = name.partition("-")
    return number.isdigit() and (width == _BASE or width.isdigit())


def order_of(name: str) -> tuple[float, int]:
    """In which order the databases of a part are gone through: bases last."""
    width, _, number = name.rpartition("/")[2].partition("-")
    return math.inf if width == _BASE else int(width), int(number)


def end_of(name: str) -> float:
    """When everything in a database of this name has expired."""
    width, number = order_of(name)
    return math.inf if math.isinf(width) else width * (number + 1)
