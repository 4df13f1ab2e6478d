"""Files that are cut off, missing or have other bits: found, reported, the rest served."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plyvel
import pytest
from msgspec.structs import replace

from braid.leveldb import settle
from services.matcher.storage import repairing
from services.matcher.storage.checking import Check
from services.matcher.storage.database import Database
from services.matcher.storage.dual import DualDB
from services.matcher.storage.keys import list_id
from services.matcher.storage.records import Damage, Filed, Kind
from services.matcher.storage.settings import StorageSettings
from tests.core.storage.cases import LAYOUTS, NOW_S, A, crash, everything, maintain_fully, subscription
from tests.core.storage.test_log_reading import headers

pytestmark = pytest.mark.slow

SETTINGS = StorageSettings(retention_s=60, retention_s_max=60, write_buffer_bytes=16 * 1024 * 1024)
COUNT = 5000


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 0x40
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def fill(root: Path, *, in_tables: bool, write_buffer_bytes: int = SETTINGS.write_buffer_bytes) -> Path:
    """A base of many subscriptions, closed. Its directory."""
    storage = DualDB(root, replace(SETTINGS, write_buffer_bytes=write_buffer_bytes), NOW_S)
    body = bytes(range(100))
    for begin in range(0, COUNT, 500):
        lists = [
            (list_id(str(n)), list_id("all")) if n % 100 == 0 else (list_id(str(n)),) for n in range(begin, begin + 500)
        ]
        filed = [Filed(subscription(f"s{begin + n}", body=body), names) for n, names in enumerate(lists)]
        storage.put(filed, NOW_S)
    storage.close()
    base = root / "dual" / "base-0"
    if in_tables:
        with plyvel.DB(str(base)) as database:
            database.compact_range()
        (root / "ledger.json").unlink()  # which has not seen that
        DualDB(root, SETTINGS, NOW_S).close()
    return base


def reopened(root: Path) -> tuple[DualDB, set[str], list[Damage]]:
    """Everything is read, as for a new index; then everything must be usable."""
    storage = DualDB(root, SETTINGS, NOW_S)
    found = {one.record.id for one in everything(storage, Kind.SUBSCRIPTION, NOW_S, 1000)}
    return storage, found, storage.damages


def largest(directory: Path, suffix: str) -> Path:
    return max(directory.glob("*" + suffix), key=lambda file: file.stat().st_size)


def assert_the_rest_is_served(root: Path, found: set[str], damages: list[Damage], storage: DualDB) -> None:
    (damage,) = damages
    lost = COUNT - len(found)
    assert damage.database == "dual/base-0"
    assert damage.lost_at_least <= lost  # of which some lie in two lists
    assert lost <= damage.lost_at_most
    # All that is left can be found by its list, and removed by its id; new ones are taken.
    for id in sorted(found)[:50]:
        assert {one.id for one in storage.get_subscribers([list_id(id[1:])], NOW_S, NOW_S)} == {id}
        assert storage.unsubscribe([id], NOW_S) == 1
        assert storage.get_subscribers([list_id(id[1:])], NOW_S, NOW_S) == []
    storage.subscribe(subscription("new"), [A], NOW_S)
    maintain_fully(storage, NOW_S + 1)
    storage.close()
    again, found_again, damages_again = reopened(root)
    assert found_again == found - set(sorted(found)[:50]) | {"new"}
    assert damages_again == []
    again.close()


@pytest.mark.parametrize(
    ("in_tables", "suffix", "hurt"),
    [
        (True, ".ldb", lambda file: flip(file, file.stat().st_size // 2)),
        (True, ".ldb", lambda file: flip(file, file.stat().st_size - 2)),
        (True, ".ldb", cut),
        (True, ".ldb", Path.unlink),
        (False, ".log", lambda file: flip(file, file.stat().st_size // 2)),
        (False, ".log", lambda file: flip(file, 3000)),
    ],
    ids=["bit of a block", "bit of the end", "table cut off", "table gone", "bit of a log", "early bit of a log"],
)
def test_a_damaged_file_is_found_and_the_rest_is_served(
    tmp_path: Path, in_tables: bool, suffix: str, hurt: Callable[[Path], None]
) -> None:
    base = fill(tmp_path, in_tables=in_tables)
    hurt(largest(base, suffix))
    storage, found, damages = reopened(tmp_path)
    (damage,) = damages
    assert len(found) < COUNT
    assert damage.lost_at_most >= 1
    assert Path(damage.kept_at).is_dir()
    assert_the_rest_is_served(tmp_path, found, damages, storage)


def test_no_bit_of_a_log_is_ever_taken_for_a_record(tmp_path: Path) -> None:
    """Wherever it flips: what comes back is what was written."""
    original = tmp_path / "original"
    base = fill(original, in_tables=False)
    size = largest(base, ".log").stat().st_size
    for number in range(12):
        root = tmp_path / str(number)
        shutil.copytree(original, root)
        flip(largest(root / "dual" / "base-0", ".log"), number * size // 12 + 37)
        storage, found, damages = reopened(root)
        assert len(damages) == 1
        assert COUNT - damages[0].lost_at_most <= len(found)
        for one in everything(storage, Kind.SUBSCRIPTION, NOW_S, 1000):
            assert isinstance(one.record.body, bytes)
            assert one.record.body == bytes(range(100))
        storage.close()
        shutil.rmtree(root)


@pytest.mark.parametrize("write_buffer_bytes", [64 * 1024, 1024 * 1024, 16 * 1024 * 1024])
@pytest.mark.parametrize("hurt", [cut, Path.unlink], ids=["cut off", "gone"])
def test_a_log_whose_end_is_missing_or_all_of_it_is_noticed(
    tmp_path: Path, write_buffer_bytes: int, hurt: Callable[[Path], None]
) -> None:
    """Also where it is not the last one, of which LevelDB says nothing."""
    base = fill(tmp_path, in_tables=False, write_buffer_bytes=write_buffer_bytes)
    log = largest(base, ".log")
    hurt(log)
    storage, found, damages = reopened(tmp_path)
    (damage,) = damages
    assert log.name in damage.files  # perhaps with a table that was not finished when the database was closed
    assert log.name in damage.reason
    assert_the_rest_is_served(tmp_path, found, damages, storage)


def test_a_database_that_is_missing_is_noticed_unless_it_had_passed(tmp_path: Path) -> None:
    storage = DualDB(tmp_path, SETTINGS, NOW_S)
    storage.put([Filed(subscription("a", until_s=NOW_S + 5), (A,)), Filed(subscription("b"), (A,))], NOW_S)
    storage.close()
    for path in (tmp_path / "dual").iterdir():
        shutil.rmtree(path)
    later = tmp_path / "later"
    shutil.copytree(tmp_path, later)
    storage = DualDB(tmp_path, SETTINGS, NOW_S)
    assert sorted((one.database, one.lost_at_most) for one in storage.damages) == [
        ("dual/10-100000", 1),
        ("dual/base-0", 1),
    ]
    storage.close()
    storage = DualDB(later, SETTINGS, NOW_S + 100)
    assert [one.database for one in storage.damages] == ["dual/base-0"]
    storage.close()


@pytest.mark.parametrize("name", ["MANIFEST", "CURRENT"])
def test_lost_bookkeeping_of_leveldb_loses_no_record(tmp_path: Path, name: str) -> None:
    base = fill(tmp_path, in_tables=True)
    for file in base.glob(name + "*"):
        file.unlink()
    storage, found, (damage,) = reopened(tmp_path)
    assert len(found) == COUNT
    assert damage.lost_at_most == 0
    storage.close()


def fill_with_tables(root: Path, *, is_closed: bool) -> Path:
    """Many tables, and something in a log; its MANIFEST."""
    storage = DualDB(root, replace(SETTINGS, write_buffer_bytes=64 * 1024), NOW_S)
    chance = random.Random(1)
    for begin in range(0, 800, 100):
        filed = [Filed(subscription(f"s{begin + n}", body=chance.randbytes(200)), (A,)) for n in range(100)]
        storage.put(filed, NOW_S)
    settle(storage._subscriptions.base._database)
    storage.put([Filed(subscription("last"), (A,))], NOW_S)
    storage.maintain(NOW_S + 5)
    storage.close() if is_closed else crash(storage)
    (manifest,) = (root / "dual" / "base-0").glob("MANIFEST*")
    assert len(headers(manifest.read_bytes())) > 3
    return manifest


def shortened(content: bytes, by: int | str) -> bytes:
    """Also by a whole record, which leaves one that looks as if it were complete."""
    return content[: headers(content)[-1][0]] if isinstance(by, str) else content[:-by]


def no_room(*_: object, **__: object) -> None:
    raise plyvel.IOError(b"IO error: 000042.ldb: No space left on device")


@pytest.mark.parametrize("where", ["keeping", "copying", "repairing", "checking", "opening"])
def test_a_repair_that_finds_no_room_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Everything can be read, only not now."""
    manifest = fill_with_tables(tmp_path, is_closed=True)
    manifest.write_bytes(shortened(manifest.read_bytes(), 3))
    base = manifest.parent
    before = {file.name: file.read_bytes() for file in base.iterdir()}

    def copy_a_part(_: Path, copy: Path) -> None:
        copy.mkdir()
        (copy / "000005.ldb").write_bytes(b"as much as there was room for")
        raise shutil.Error([(base, copy, "[Errno 28] No space left on device")])

    def open_elsewhere(database: Database) -> None:
        if database.path == base:
            no_room()
        really_open(database)

    really_open = Database.open
    with monkeypatch.context() as patch:
        match where:
            case "keeping":
                patch.setattr(repairing, "free_name", no_room)
            case "opening":
                patch.setattr(Database, "open", open_elsewhere)
            case "copying":
                patch.setattr(shutil, "copytree", copy_a_part)
            case "repairing":
                patch.setattr(plyvel, "repair_db", no_room)
            case _:
                patch.setattr(Check, "_check_others", no_room)
        for _ in range(2):
            with pytest.raises((plyvel.IOError, OSError), match="No space left"):
                DualDB(tmp_path, SETTINGS, NOW_S)
            assert {file.name: file.read_bytes() for file in base.iterdir()} == before
            assert [path.name for path in base.parent.iterdir()] == ["base-0"]
    storage, found, (damage,) = reopened(tmp_path)
    assert (len(found), damage.lost_at_least) == (801, 0)
    storage.close()


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("by", [1, 7, 20, 200, "a record"])
def test_a_manifest_that_is_shorter_loses_no_record(tmp_path: Path, is_closed: bool, by: int | str) -> None:
    """LevelDB takes its end for the trace of a crash, and removes all tables that it does not name any more."""
    manifest = fill_with_tables(tmp_path, is_closed=is_closed)
    manifest.write_bytes(shortened(manifest.read_bytes(), by))
    storage, found, (damage,) = reopened(tmp_path)
    assert len(found) == 801
    assert (damage.database, damage.files, damage.lost_at_least) == ("dual/base-0", (manifest.name,), 0)
    storage.close()
    storage, found, damages = reopened(tmp_path)
    assert (len(found), damages) == (801, [])
    storage.close()


@pytest.mark.parametrize("is_closed", [True, False])
def test_whatever_bit_of_a_manifest_flips_no_record_is_lost(tmp_path: Path, is_closed: bool) -> None:
    manifest = fill_with_tables(tmp_path / "original", is_closed=is_closed).relative_to(tmp_path / "original")
    content = (tmp_path / "original" / manifest).read_bytes()
    lengths = [at + place for at, _ in headers(content) for place in (4, 5)]
    for at in sorted({*lengths, *range(0, len(content), 37)}):
        root = tmp_path / str(at)
        shutil.copytree(tmp_path / "original", root)
        flip(root / manifest, at)
        storage, found, damages = reopened(root)
        assert (len(found), len(damages)) == (801, 1), at
        storage.close()
        shutil.rmtree(root)


@pytest.mark.parametrize("layout", ["dual", "two", "repeating"])
def test_damage_that_a_read_meets_is_repaired_on_the_way(tmp_path: Path, layout: str) -> None:
    storage = LAYOUTS[layout](tmp_path, SETTINGS, NOW_S)
    body = b"x" * 1000
    storage.put([Filed(subscription(f"s{n}", body=body), (list_id(str(n)),)) for n in range(3000)], NOW_S)
    storage.close()
    base = next(tmp_path.glob("*/base-0"))
    with plyvel.DB(str(base)) as database:
        database.compact_range()
    (tmp_path / "ledger.json").unlink()
    storage = LAYOUTS[layout](tmp_path, SETTINGS, NOW_S)
    file = largest(base, ".ldb")
    flip(file, file.stat().st_size // 2)
    found = sum(len(storage.get_subscribers([list_id(str(n))], NOW_S, NOW_S)) for n in range(3000))
    if storage.damages:  # unless it had all been read before
        (damage,) = storage.damages
        assert found == 3000 - damage.lost_at_most
    assert found > 2000
    storage.close()


def test_a_repair_that_a_crash_interrupted_is_taken_up(tmp_path: Path) -> None:
    fill(tmp_path, in_tables=False)
    part = tmp_path / "dual"
    shutil.copytree(part / "base-0", part / "base-0.repairing")
    (part / "base-0").rename(part / "base-0.repaired")
    repairing.finish_interrupted(part)
    assert [path.name for path in part.iterdir()] == ["base-0"]
    storage, found, damages = reopened(tmp_path)
    assert len(found) == COUNT
    assert damages == []
    storage.close()


def wrong_bit(ledger: bytes) -> bytes:
    at = ledger.index(b'"dual/base-0":[') + 15  # the first digit of how many entries were written
    return ledger[:at] + b"1" + ledger[at + 1 :]


@pytest.mark.parametrize(
    "hurt", [lambda ledger: ledger[:-5], lambda _: b"", wrong_bit], ids=["cut off", "empty", "bit"]
)
def test_an_unreadable_ledger_hinders_nobody_and_is_reported(tmp_path: Path, hurt: Callable[[bytes], bytes]) -> None:
    fill(tmp_path, in_tables=False)
    ledger = tmp_path / "ledger.json"
    hurt_ledger = hurt(ledger.read_bytes())
    ledger.write_bytes(hurt_ledger)
    storage, found, (damage,) = reopened(tmp_path)
    assert len(found) == COUNT
    assert (damage.database, damage.files) == ("ledger.json", ("ledger.json",))
    assert (damage.lost_at_least, damage.lost_at_most) == (0, 0)
    assert Path(damage.kept_at).read_bytes() == hurt_ledger
    assert storage.usage().damaged_bytes == len(hurt_ledger)
    storage.close()
    storage, found, damages = reopened(tmp_path)
    assert (len(found), damages) == (COUNT, [])
    storage.close()


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("byte", [0, 5, 6], ids=["checksum", "length", "type"])
@pytest.mark.parametrize("piece", [10, 300, -20, -3])
def test_what_lies_behind_a_damaged_record_of_a_log_is_served(
    tmp_path: Path, is_closed: bool, byte: int, piece: int
) -> None:
    """LevelDB's own repair would give it up, up to the end of the log or of the block."""
    storage = DualDB(tmp_path / "running", SETTINGS, NOW_S)
    for number in range(600):
        storage.put([Filed(subscription(f"s{number}", body=bytes(200)), (A,))], NOW_S)
    storage.maintain(NOW_S + 5)
    if not is_closed:
        shutil.copytree(tmp_path / "running", tmp_path / "one")
    storage.close()
    if is_closed:
        (tmp_path / "running").rename(tmp_path / "one")
    log = largest(tmp_path / "one" / "dual" / "base-0", ".log")
    flip(log, headers(log.read_bytes())[piece][0] + byte)
    storage, found, (damage,) = reopened(tmp_path / "one")
    lost = 600 - len(found)
    assert lost <= 2  # one record, or what else lies in the same piece
    assert damage.lost_at_least <= lost <= damage.lost_at_most
    assert Path(damage.kept_at).is_dir()
    storage.close()
    storage, found_again, damages = reopened(tmp_path / "one")
    assert (found_again, damages) == (found, [])
    storage.close()


def test_a_log_of_which_only_the_length_is_left_is_noticed(tmp_path: Path) -> None:
    """As after a power failure: LevelDB takes zeros for the end."""
    fill(tmp_path, in_tables=False)
    log = largest(tmp_path / "dual" / "base-0", ".log")
    size = log.stat().st_size
    pieces = headers(log.read_bytes())
    half = pieces[len(pieces) // 2][0]
    log.write_bytes(log.read_bytes()[:half] + bytes(size - half))
    storage, found, damages = reopened(tmp_path)
    assert 0 < len(found) < COUNT
    assert Path(damages[0].kept_at).is_dir()
    assert_the_rest_is_served(tmp_path, found, damages, storage)


class FullDisk:
    """A LevelDB whose next write fails."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def write_batch(self, *, sync: bool) -> "FullDisk":
        return self

    def put(self, *_: object, **__: object) -> None: ...

    def write(self) -> None:
        raise plyvel.IOError(b"IO error: 000003.log: No space left on device")

    def compact_range(self, **_: object) -> None: ...

    def close(self) -> None:
        self._real.close()


def test_a_failed_write_is_said_and_the_next_one_is_read_again(tmp_path: Path) -> None:
    storage = DualDB(tmp_path, SETTINGS, NOW_S)
    storage.subscribe(subscription("s1"), [A], NOW_S)
    database = storage._subscriptions.base
    database._database = FullDisk(database._database)
    with pytest.raises(plyvel.IOError, match="No space"):
        storage.put([Filed(subscription("s2"), (A,))], NOW_S)
    storage.put([Filed(subscription("s3"), (A,))], NOW_S)
    assert {one.id for one in storage.get_subscribers([A], NOW_S, NOW_S)} == {"s1", "s3"}
    assert storage.damages == []
    storage.close()
    storage, found, damages = reopened(tmp_path)
    assert (found, damages) == ({"s1", "s3"}, [])
    storage.close()
