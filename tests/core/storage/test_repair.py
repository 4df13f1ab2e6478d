"""What a repair makes of what LevelDB's own one leaves: the newest version of each record, in all its lists."""

import shutil
import weakref
from collections.abc import Sequence
from math import inf
from pathlib import Path

import plyvel
import pytest
from msgspec.structs import astuple

from services.matcher.storage import keys, removing
from services.matcher.storage.database import DamagedError, Database
from services.matcher.storage.dual import DualDB
from services.matcher.storage.keys import list_id
from services.matcher.storage.records import Filed, Kind, Stored, StoredPublication
from services.matcher.storage.repeating import RepQueries
from tests.core.storage.cases import NOW_S, A, everything, publication, subscription
from tests.core.storage.test_damage import SETTINGS, flip, largest
from tests.core.storage.test_log_reading import headers

B, C = list_id("b"), list_id("c")
OLD, NEW = b"the old version", b"the new version"


def opened(root: Path) -> DualDB:
    return DualDB(root, SETTINGS, NOW_S)


def put_others(storage: DualDB, letter: str) -> None:
    for number in range(50):
        storage.put([Filed(subscription(f"{letter}{number}", body=bytes(50)), (A,))], NOW_S)


def log_of(root: Path, name: str = "base-0") -> Path:
    return largest(root / "dual" / name, ".log")


def window_of(root: Path) -> str:
    (name,) = (path.name for path in (root / "dual").iterdir() if not path.name.startswith("base"))
    return name


def subscriptions(storage: DualDB) -> dict[str, tuple[bytes, tuple[bytes, ...]]]:
    """Each is there once."""
    filed = everything(storage, Kind.SUBSCRIPTION, NOW_S, 1000)
    found = {one.record.id: (one.record.body, one.lists) for one in filed}
    assert len(found) == len(filed)
    return found


def in_list(storage: DualDB, name: bytes, id: str) -> list[bytes]:
    return [one.body for one in storage.get_subscribers([name], NOW_S, NOW_S) if one.id == id]


def written_at(log: Path, text: bytes, occurrence: int = -1) -> int:
    """Where a log has it, of several places the last one."""
    content, found, at = log.read_bytes(), [], -1
    while (at := content.find(text, at + 1)) >= 0:
        found.append(at)
    return found[occurrence]


# Replacing that a crash interrupted


class CrashError(Exception):
    pass


def crash_while_replacing(root: Path, *, behind_the_write: bool, until_s: float) -> None:
    """The old version lies in the base. The storage as the crash left it is copied to `root`."""
    storage = opened(root.with_name("running"))
    storage.put([Filed(subscription("s1", body=OLD), (A,))], NOW_S)
    put_others(storage, "o")

    def write(
        filed: Sequence[tuple[Stored, Sequence[bytes]]], now_s: float, outdated: removing.Outdated
    ) -> list[Database]:
        if behind_the_write:
            storage._write_filed(filed, now_s, outdated)
        raise CrashError

    new = Filed(subscription("s1", until_s=until_s, body=NEW), (B,))
    with pytest.raises(CrashError):
        removing.replace(storage._subscriptions, new, write, NOW_S)
    storage._upkeep.measure(NOW_S)
    shutil.copytree(root.with_name("running"), root)
    storage.close()


@pytest.mark.parametrize("behind_the_write", [False, True])
@pytest.mark.parametrize("until_s", [NOW_S + 5, inf], ids=["to a window", "within the base"])
def test_a_bit_of_an_intent_keeps_no_storage_from_starting(
    tmp_path: Path, behind_the_write: bool, until_s: float
) -> None:
    """Whoever asked for it was told nothing, so the old version will do, and so will the new one: but only one."""
    root = tmp_path / "crashed"
    crash_while_replacing(root, behind_the_write=behind_the_write, until_s=until_s)
    log = log_of(root)
    flip(log, written_at(log, NEW, 0))  # that of the intent is written first
    storage = opened(root)
    assert {one.database for one in storage.damages} == {"dual/base-0"}
    assert "s1" in storage.damages[-1].reason
    found = subscriptions(storage)
    assert len(found) == 51
    assert found["s1"] in {(OLD, (A,)), (NEW, (B,))}
    assert storage.unsubscribe(["s1"], NOW_S) == 1
    assert in_list(storage, A, "s1") == in_list(storage, B, "s1") == []
    storage.close()
    storage = opened(root)
    assert storage.damages == []
    storage.close()


def test_an_intent_whose_removal_was_hit_does_not_bring_back_what_ended_later(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    storage.put([Filed(subscription("s1", body=OLD), (A,))], NOW_S)
    storage.replace(subscription("s1", body=NEW), (A,), NOW_S)
    put_others(storage, "o")
    storage.unsubscribe(["s1"], NOW_S)
    storage.close()
    log = log_of(tmp_path)
    flip(log, written_at(log, b"\x00\x00rs1") + 4)
    storage = opened(tmp_path)
    assert len(storage.damages) == 1
    assert "s1" not in subscriptions(storage)
    storage.close()


def test_a_bit_of_a_note_keeps_no_storage_from_starting(tmp_path: Path) -> None:
    storage = RepQueries(tmp_path, SETTINGS, NOW_S)
    storage.subscribe(subscription("s1"), [A], NOW_S)
    storage.due(NOW_S + 100)
    storage.close()
    log = largest(tmp_path / "queries" / "base-0", ".log")
    flip(log, written_at(log, b"\x00\x00aasked") + 14)
    storage = RepQueries(tmp_path, SETTINGS, NOW_S + 101)
    assert [one.database for one in storage.damages] == ["queries/base-0"]
    assert [one.record.id for one in everything(storage, Kind.SUBSCRIPTION, NOW_S + 101)] == ["s1"]
    storage.close()
    storage = RepQueries(tmp_path, SETTINGS, NOW_S + 102)
    assert storage.damages == []
    storage.close()


def test_a_bit_of_the_counters_costs_no_record(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    put_others(storage, "o")
    storage.close()
    with plyvel.DB(str(tmp_path / "dual" / "base-0")) as database:
        database.compact_range()
    (tmp_path / "ledger.json").unlink()  # which has not seen that
    opened(tmp_path).close()
    log = log_of(tmp_path)
    flip(log, written_at(log, keys.COUNTERS_KEY) + 12)
    storage = opened(tmp_path)
    (damage,) = storage.damages
    assert (damage.lost_at_least, damage.lost_at_most) == (0, 0)
    assert len(subscriptions(storage)) == 50
    storage.close()


# Versions of a subscription


def in_tables(root: Path) -> None:
    """What was written so far leaves the log."""
    with plyvel.DB(str(root / "dual" / "base-0")) as database:
        database.compact_range()
    (root / "ledger.json").unlink()


def change(root: Path, old: tuple[bytes, ...], new: tuple[bytes, ...], *, compacted: bool = False) -> Path:
    """A closed storage in which a subscription was changed, in the middle of its log; that log."""
    storage = opened(root)
    storage.put([Filed(subscription("s1", body=OLD), old)], NOW_S)
    if compacted:
        storage.close()
        in_tables(root)
        storage = opened(root)
    put_others(storage, "o")
    storage.replace(subscription("s1", body=NEW), new, NOW_S)
    put_others(storage, "p")
    storage.close()
    return log_of(root)


def entry_at(log: Path, name: bytes, occurrence: int = -1) -> int:
    """Where the id begins of an entry of the subscription that was changed."""
    return written_at(log, keys.entry_key(name, Kind.SUBSCRIPTION, NOW_S, "s1"), occurrence) + len(name) + 10


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("new", [(B,), (B, C), (C, B)])
@pytest.mark.parametrize("old", [(A,), (A, C)])
def test_a_removal_that_was_hit_does_not_undo_the_change(
    tmp_path: Path, old: tuple[bytes, ...], new: tuple[bytes, ...], compacted: bool
) -> None:
    log = change(tmp_path, old, new, compacted=compacted)
    flip(log, entry_at(log, A) + 1)
    storage = opened(tmp_path)
    assert len(storage.damages) == 1
    found = subscriptions(storage)
    assert len(found) == 101
    assert found["s1"] == (NEW, new)
    assert in_list(storage, A, "s1") == []
    assert all(in_list(storage, name, "s1") == [NEW] for name in new)
    assert storage.unsubscribe(["s1"], NOW_S) == 1
    assert all(in_list(storage, name, "s1") == [] for name in (A, B, C))
    storage.close()


@pytest.mark.parametrize("place", [-1, 12], ids=["all of the removal", "the entry in it"])
@pytest.mark.parametrize(("old_s", "new_s"), [(inf, NOW_S + 5), (NOW_S + 5, inf)], ids=["to a window", "to the base"])
def test_a_removal_that_was_hit_does_not_undo_a_change_to_another_database(
    tmp_path: Path, old_s: float, new_s: float, place: int
) -> None:
    storage = opened(tmp_path)
    storage.put([Filed(subscription("s1", until_s=old_s, body=OLD), (A,))], NOW_S)
    storage.put([Filed(subscription(f"o{number}", until_s=old_s), (A,)) for number in range(50)], NOW_S)
    storage.replace(subscription("s1", until_s=new_s, body=NEW), (B,), NOW_S)
    storage.put([Filed(subscription(f"p{number}", until_s=old_s), (A,)) for number in range(50)], NOW_S)
    storage.close()
    log = log_of(tmp_path, "base-0" if old_s == inf else window_of(tmp_path))
    flip(log, written_at(log, keys.entry_key(A, Kind.SUBSCRIPTION, NOW_S, "s1")) + place)
    storage = opened(tmp_path)
    assert len(storage.damages) == 1
    found = subscriptions(storage)
    assert len(found) == 101
    assert found["s1"] == (NEW, (B,))
    assert in_list(storage, A, "s1") == []
    storage.close()


def test_what_is_being_copied_stays_in_the_copy_that_is_repaired(tmp_path: Path) -> None:
    """The database that it comes from has it too, and goes."""
    storage = opened(tmp_path)
    put_others(storage, "o")
    windows = storage._subscriptions
    storage._upkeep._rewrite(windows, windows.base)
    storage.maintain(NOW_S, 25)
    windows.repair(DamagedError(windows.base, "for a test"))
    while storage.maintain(NOW_S, 25):
        pass
    assert [base.name for base in windows.bases()] == ["dual/base-1"]
    assert len(subscriptions(storage)) == 50
    storage.close()


def test_a_removal_that_hits_another_one_is_counted(tmp_path: Path) -> None:
    """The bit makes the removal of one subscription that of another one's entry."""
    storage = opened(tmp_path)
    ids = ["s1", "s" + chr(ord("1") ^ 0x40)]
    storage.put([Filed(subscription(id, body=OLD), (A,)) for id in ids], NOW_S)
    put_others(storage, "o")
    storage.unsubscribe(["s1"], NOW_S)
    storage.close()
    log = log_of(tmp_path)
    flip(log, entry_at(log, A) + 1)
    storage = opened(tmp_path)
    (damage,) = storage.damages
    assert ids[1] not in subscriptions(storage)
    assert damage.lost_at_most >= 1
    assert storage.unsubscribe([ids[1]], NOW_S) == 0
    storage.close()


@pytest.mark.parametrize("new", [(B,), (B, C), (C, B)])
@pytest.mark.parametrize("old", [(A,), (A, C)])
def test_a_filing_by_id_that_was_hit_does_not_undo_the_change(
    tmp_path: Path, old: tuple[bytes, ...], new: tuple[bytes, ...]
) -> None:
    """What is left of it says where the old version lay."""
    log = change(tmp_path, old, new)
    flip(log, written_at(log, keys.by_id_key("s1")) + 4)
    storage = opened(tmp_path)
    assert len(storage.damages) == 1
    found = subscriptions(storage)
    assert len(found) == 101
    assert found["s1"] == (NEW, new)
    assert storage.unsubscribe(["s1"], NOW_S) == 1
    assert all(in_list(storage, name, "s1") == [] for name in (A, B, C))
    storage.close()


@pytest.mark.parametrize("hit", [B, C])
def test_one_entry_that_was_hit_is_written_again_from_another(tmp_path: Path, hit: bytes) -> None:
    log = change(tmp_path, (A,), (B, C))
    flip(log, entry_at(log, hit) + 10)
    storage = opened(tmp_path)
    (damage,) = storage.damages
    assert (damage.lost_at_least, damage.lost_at_most) == (0, 0)
    assert subscriptions(storage)["s1"] == (NEW, (B, C))
    assert in_list(storage, B, "s1") == in_list(storage, C, "s1") == [NEW]
    storage.close()


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("new", [(A,), (B,), (A, C)])
def test_a_change_behind_a_damaged_record_is_not_undone(
    tmp_path: Path, new: tuple[bytes, ...], compacted: bool
) -> None:
    """LevelDB gives up what lies behind it, and has the old version."""
    log = change(tmp_path, (A,), new, compacted=compacted)
    flip(log, headers(log.read_bytes())[20][0] + 5)
    storage = opened(tmp_path)
    (damage,) = storage.damages
    found = subscriptions(storage)
    assert found["s1"] == (NEW, new)
    assert in_list(storage, A, "s1") == ([NEW] if A in new else [])
    assert len(found) >= 99  # one record, or what else lies in the same piece
    assert 101 - len(found) <= damage.lost_at_most
    storage.close()
    storage = opened(tmp_path)
    assert (subscriptions(storage), storage.damages) == (found, [])
    storage.close()


@pytest.mark.parametrize("compacted", [False, True])
def test_a_removal_behind_a_damaged_record_is_not_undone(tmp_path: Path, compacted: bool) -> None:
    storage = opened(tmp_path)
    storage.put([Filed(subscription("s1", body=OLD), (A,))], NOW_S)
    if compacted:
        storage.close()
        in_tables(tmp_path)
        storage = opened(tmp_path)
    put_others(storage, "o")
    storage.replace(subscription("s1", body=NEW), (A,), NOW_S)
    storage.unsubscribe(["s1"], NOW_S)
    storage.close()
    log = log_of(tmp_path)
    flip(log, headers(log.read_bytes())[20][0] + 5)
    storage = opened(tmp_path)
    assert len(storage.damages) == 1
    found = subscriptions(storage)
    assert "s1" not in found
    assert len(found) >= 48
    storage.close()


# Publications


def keep(root: Path, count: int = 300) -> Path:
    """Publications, each in three lists, in a closed window; its log."""
    storage = opened(root)
    for number in range(count):
        filed = Filed(publication(f"p{number:03}", body=b"%03d" % number + bytes(100)), (B, A, C))
        storage.put([filed], NOW_S)
    storage.close()
    return log_of(root, window_of(root))


def publications(storage: DualDB, name: bytes) -> set[str]:
    return {one.id for one in storage.get_data([name], NOW_S)}


@pytest.mark.parametrize("hit", [A, C])
def test_a_further_entry_of_a_publication_that_was_hit_is_written_again(tmp_path: Path, hit: bytes) -> None:
    log = keep(tmp_path)
    key = keys.entry_key(hit, Kind.PUBLICATION, NOW_S, "p123")
    flip(log, written_at(log, key) + len(key) + 20)
    storage = opened(tmp_path)
    (damage,) = storage.damages
    assert (damage.lost_at_least, damage.lost_at_most) == (0, 0)
    assert [len(publications(storage, name)) for name in (A, B, C)] == [300] * 3
    assert {one.lists for one in everything(storage, Kind.PUBLICATION, NOW_S)} == {(B, A, C)}
    storage.close()


def test_a_publication_whose_first_entry_was_hit_is_served_from_its_other_lists(tmp_path: Path) -> None:
    """Nothing else knows of the list of that one."""
    log = keep(tmp_path)
    key = keys.entry_key(B, Kind.PUBLICATION, NOW_S, "p123")
    flip(log, written_at(log, key) + len(key) + 20)
    storage = opened(tmp_path)
    (damage,) = storage.damages
    assert (damage.lost_at_least, damage.lost_at_most) == (1, 1)
    assert [len(publications(storage, name)) for name in (A, B, C)] == [300, 299, 300]
    lists = {one.record.id: one.lists for one in everything(storage, Kind.PUBLICATION, NOW_S)}
    assert len(lists) == 300
    assert lists.pop("p123") == (A, C)
    assert set(lists.values()) == {(B, A, C)}
    storage.close()


class Counted(StoredPublication, frozen=True, gc=True, weakref=True):
    """A record of which is known for how long somebody has it."""


def test_a_repair_has_few_records_in_memory_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, and also where many of them are filed anew."""
    log = keep(tmp_path)
    for number in range(0, 300, 3):
        key = keys.entry_key((A, B, C)[number % 2], Kind.PUBLICATION, NOW_S, f"p{number:03}")
        flip(log, written_at(log, key) + len(key) + 20)
    decode = keys._decode_publication
    alive: set[int] = set()
    most = decoded = 0

    def counted(packed: bytes) -> Counted:
        nonlocal most, decoded
        record = Counted(*astuple(decode(packed)))
        decoded += 1
        alive.add(decoded)
        weakref.finalize(record, alive.discard, decoded)
        most = max(most, len(alive))
        return record

    monkeypatch.setattr(keys, "_decode_publication", counted)
    storage = opened(tmp_path)
    assert len(storage.damages) == 1
    assert decoded >= 900
    assert most <= 5  # the entries of one record, and the one before it
    monkeypatch.undo()
    assert len(everything(storage, Kind.PUBLICATION, NOW_S)) == 300
    storage.close()


@pytest.mark.slow
@pytest.mark.parametrize("part", ["base", "window"])
def test_whatever_bit_flips_little_is_undone_or_lost_and_that_is_counted(tmp_path: Path, part: str) -> None:
    """And each subscription is there once, in the lists of its version and in no other."""
    original, lists = tmp_path / "original", (A, B, C)
    changes = [((A,), (B,)), ((A, C), (B, C)), ((C,), (B, C)), ((C, B), (B, C)), ((A, B, C), (C,)), ((A,), (A,))]
    storage = opened(original)
    until_s = {"base": inf, "window": NOW_S + 5}[part]
    for number, (old, _) in enumerate(changes):
        storage.put([Filed(subscription(f"s{number}", until_s=until_s, body=OLD), old)], NOW_S)
    for id in ("moves", "ends", "stays"):
        storage.put([Filed(subscription(id, until_s=until_s), (A, C))], NOW_S)
    for number, (_, new) in enumerate(changes):
        storage.replace(subscription(f"s{number}", until_s=until_s, body=NEW), new, NOW_S)
    storage.replace(subscription("moves", until_s=NOW_S + 5 if until_s == inf else inf), (B,), NOW_S)
    storage.unsubscribe(["ends"], NOW_S)
    expected = subscriptions(storage)
    storage.close()
    log = log_of(original, "base-0" if part == "base" else window_of(original)).relative_to(original)
    for at in range(0, (original / log).stat().st_size, 23):
        root = tmp_path / str(at)
        shutil.copytree(original, root)
        flip(root / log, at)
        storage = opened(root)
        found = subscriptions(storage)
        found.pop("ends", None)
        undone = [id for id in expected if found.get(id) != expected[id]]
        assert len(undone) <= min(2, storage.damages[0].lost_at_most), (at, undone)  # those of one piece
        for name in lists:
            assert {one.id for one in storage.get_subscribers([name], NOW_S, NOW_S)} - {"ends"} == {
                id for id, (_, names) in found.items() if name in names
            }
        assert storage.unsubscribe(list(found), NOW_S) == len(found)
        assert {one.id for one in storage.get_subscribers(lists, NOW_S, NOW_S)} <= {"ends"}
        storage.close()
        shutil.rmtree(root)
