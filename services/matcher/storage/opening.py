"""Opening: finds all databases again, and holds them against the ledger."""

from collections.abc import Sequence
from pathlib import Path

from services.matcher.storage.database import DamagedError, Database
from services.matcher.storage.ledger import Ledger, Line
from services.matcher.storage.records import Damage
from services.matcher.storage.windows import Windows, end_of


def open_parts(root: Path, parts: Sequence[Windows], ledger: Ledger, damages: list[Damage], now_s: float) -> None:
    """Appends to `damages` what is not as it should be. Where it fails, the next one is told the same again."""
    root.mkdir(parents=True, exist_ok=True)
    known = ledger.read(damages)
    for part in parts:
        part.open(known)
    repaired = {damage.database for damage in damages}
    there = {database.name: database for part in parts for database in part.all()}
    for name, line in known.databases.items():
        database = there.get(name)
        if database is None:
            if end_of(name) > now_s:
                damages.append(_missing(name, line))
        elif name not in repaired and database.written < line.written:
            # LevelDB has taken what is left for all there was. Going through it counts what that is.
            _part_of(parts, database).repair(DamagedError(database, "the end of its log is missing"), line.entries)
    ledger.no_longer_closed()


def _missing(name: str, line: Line) -> Damage:
    return Damage(name, (), "the whole database is missing", 0, line.entries)


def _part_of(parts: Sequence[Windows], database: Database) -> Windows:
    return next(part for part in parts if database in part.all())
