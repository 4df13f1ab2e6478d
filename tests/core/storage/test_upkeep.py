"""Windows that pass, bases that are rewritten, a disk that is nearly full, listeners."""

import random
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from services.matcher.storage.database import Write
from services.matcher.storage.dual import DualDB
from services.matcher.storage.interface import Storage
from services.matcher.storage.keys import entry_key, list_id
from services.matcher.storage.records import Filed, Kind, StorageFullError, Stored
from services.matcher.storage.settings import WINDOWS_AHEAD, StorageSettings
from tests.core.storage.cases import LAYOUTS, NOW_S, SMALL, A, everything, maintain_fully, publication, subscription

pytestmark = pytest.mark.slow

INSTANT = ["dual", "two"]
FLUSHING = 4 * SMALL.write_buffer_bytes  # a table is written before its log goes


def databases(root: Path) -> set[str]:
    return {path.name for part in ("dual", "subscriptions", "publications") for path in (root / part).glob("*-*")}


def test_a_window_that_has_passed_is_dropped_whole(tmp_path: Path) -> None:
    storage = DualDB(tmp_path, SMALL, NOW_S)
    for number in range(50):
        storage.publish(publication(f"p{number}", expires_s=NOW_S + 1), [A], NOW_S)
    storage.subscribe(subscription("s", until_s=NOW_S + 1.5), [A], NOW_S)
    assert databases(tmp_path) == {"2-500000"}
    maintain_fully(storage, NOW_S + 1.9)
    assert databases(tmp_path) == {"2-500000"}
    maintain_fully(storage, NOW_S + 2)
    assert databases(tmp_path) == set()
    assert list((tmp_path / "trash").iterdir()) == []
    assert storage.usage().windows_dropped == 1
    storage.close()


@pytest.mark.parametrize("layout", INSTANT)
def test_the_number_of_databases_is_bounded(tmp_path: Path, layout: str) -> None:
    storage = LAYOUTS[layout](tmp_path, SMALL, NOW_S)
    for step in range(200):
        now_s = NOW_S + step / 2
        for life in (0.5, 3, 7, 9, 20, 31):
            storage.publish(publication(f"p{step}.{life}", now_s, expires_s=now_s + life), [A], now_s)
        storage.maintain(now_s, 10_000)
        assert len(databases(tmp_path)) <= len(SMALL.widths_s) * (WINDOWS_AHEAD + 2)
    storage.close()


def test_listeners_are_told_what_expired_and_nothing_else(tmp_path: Path) -> None:
    storage = DualDB(tmp_path, SMALL, NOW_S)
    told: list[Stored] = []
    both: list[Stored] = []
    storage.listen(told.extend)
    storage.listen(both.extend, Kind.SUBSCRIPTION | Kind.PUBLICATION)
    storage.subscribe(subscription("s1", until_s=NOW_S + 1), [A, list_id("b")], NOW_S)
    storage.subscribe(subscription("s2", until_s=NOW_S + 1), [A], NOW_S)
    storage.subscribe(subscription("s3", until_s=NOW_S + 7), [A], NOW_S)
    storage.publish(publication("p1", expires_s=NOW_S + 1), [A], NOW_S)
    storage.unsubscribe(["s2"], NOW_S)
    maintain_fully(storage, NOW_S + 3, entries_max=1)
    assert [one.id for one in told] == ["s1"]
    assert sorted(one.id for one in both) == ["p1", "s1"]
    storage.close()


def test_what_is_told_when_the_window_passed_while_nobody_was_there(tmp_path: Path) -> None:
    storage = DualDB(tmp_path, SMALL, NOW_S)
    storage.subscribe(subscription("s", until_s=NOW_S + 1), [A], NOW_S)
    storage.close()
    storage = DualDB(tmp_path, SMALL, NOW_S + 100)
    told: list[Stored] = []
    storage.listen(told.extend)
    assert everything(storage, Kind.SUBSCRIPTION, NOW_S + 100) == []
    maintain_fully(storage, NOW_S + 100)
    assert [one.id for one in told] == ["s"]
    storage.close()


def test_a_base_that_is_mostly_dead_is_rewritten_in_slices(tmp_path: Path) -> None:
    storage = DualDB(tmp_path, SMALL, NOW_S)
    told: list[Stored] = []
    storage.listen(told.extend)
    storage.put([Filed(subscription(f"a{n}"), (A,)) for n in range(10)], NOW_S)
    storage.put([Filed(subscription(f"b{n}", until_s=NOW_S + 200), (A,)) for n in range(30)], NOW_S)
    assert databases(tmp_path) == {"base-0"}
    now_s = NOW_S + 300
    assert storage.maintain(now_s, 1)
    for step in range(100):
        # Whoever reads, subscribes or goes in the meantime notices nothing.
        assert len(storage.get_subscribers([A], now_s, now_s)) == 10
        if step == 60:
            storage.subscribe(subscription("new", now_s), [A], now_s)
            assert storage.unsubscribe(["a0"], now_s) == 1
        storage.maintain(now_s, 1)
    assert databases(tmp_path) == {"base-1"}
    assert sorted(one.id for one in told) == sorted(f"b{n}" for n in range(30))
    storage.maintain(now_s + 2)
    assert storage.usage().entries == 10
    storage.close()


@pytest.mark.parametrize("is_changed", [False, True])
def test_distinct_ones_that_have_ended_and_are_forgotten_do_not_pile_up(tmp_path: Path, is_changed: bool) -> None:
    """They are written over when they end, and before that where their past was noted."""
    storage, now_s = DualDB(tmp_path, SMALL, NOW_S), NOW_S
    storage.subscribe(subscription("live"), [A], now_s)
    for turn in range(8):
        several = [subscription(f"{turn}-{number}", now_s, distinct=True) for number in range(20)]
        storage.put([Filed(one, (A,)) for one in several], now_s)
        for one in several if is_changed else ():
            storage.replace(one, [A], now_s)
        storage.unsubscribe([one.id for one in several], now_s)
        for _ in range(4):
            now_s += 10
            maintain_fully(storage, now_s)
    maintain_fully(storage, now_s + SMALL.rewrite_check_s)
    assert storage.usage().entries <= 20
    assert [one.record.id for one in everything(storage, Kind.SUBSCRIPTION, now_s)] == ["live"]
    storage.close()


@pytest.mark.parametrize("layout", INSTANT)
@pytest.mark.parametrize("change", ["replace", "unsubscribe"])
def test_what_changes_while_half_of_it_might_be_copied_is_found_once(tmp_path: Path, layout: str, change: str) -> None:
    """Its first entry lies behind its second one in the order of the keys."""
    storage = LAYOUTS[layout](tmp_path, SMALL, NOW_S)
    storage.put([Filed(subscription("s"), (A, list_id()))], NOW_S)
    gone = [Filed(subscription(f"gone{n}"), (A,)) for n in range(8)]
    storage.put(gone, NOW_S)
    storage.unsubscribe([one.record.id for one in gone], NOW_S)
    now_s = NOW_S + 1
    storage.maintain(now_s, 1)
    assert databases(tmp_path) == {"base-0", "base-1"}
    if change == "replace":
        storage.replace(subscription("s"), [A], now_s)
    else:
        assert storage.unsubscribe(["s"], now_s) == 1
    for _ in range(3):
        assert storage.get_subscribers([list_id()], now_s, now_s) == []
        assert [one.id for one in storage.get_subscribers([A], now_s, now_s)] == (["s"] if change == "replace" else [])
        maintain_fully(storage, now_s + 2)
    storage.close()


@pytest.mark.parametrize("is_moving", [True, False])
def test_upkeep_repairs_what_it_cannot_read(tmp_path: Path, is_moving: bool) -> None:
    """A record that LevelDB takes for a good one."""
    storage = DualDB(tmp_path, StorageSettings(), NOW_S)
    storage.put([Filed(subscription(f"s{number}"), (A,)) for number in range(50)], NOW_S)
    base = storage._subscriptions.base
    base.write(Write(others=[(entry_key(A, Kind.SUBSCRIPTION, NOW_S, "s7"), b"1234\x00nonsense")]))
    if is_moving:
        storage._upkeep._rewrite(storage._subscriptions, base)
    maintain_fully(storage, NOW_S + StorageSettings().rewrite_check_s)
    (damage,) = storage.damages
    assert damage.lost_at_least == 1
    assert len(everything(storage, Kind.SUBSCRIPTION, NOW_S)) == 49
    storage.close()


@pytest.mark.parametrize("layout", INSTANT)
def test_at_the_bound_of_the_disk_the_oldest_publications_go_first(tmp_path: Path, layout: str) -> None:
    settings = replace(SMALL, disk_bytes_max=400_000)
    storage = LAYOUTS[layout](tmp_path, settings, NOW_S)
    chance = random.Random(1)
    for number in range(7):
        storage.subscribe(
            subscription(f"s{number}", until_s=NOW_S + 1 + number, body=chance.randbytes(1000)), [A], NOW_S
        )
    for number in range(700):
        now_s = NOW_S + number / 1000
        storage.publish(
            publication(f"p{number}", now_s, expires_s=now_s + 1 + number / 100, body=chance.randbytes(1000)),
            [A],
            now_s,
        )
        if number % 20 == 0:
            maintain_fully(storage, now_s)
        assert storage.usage().disk_bytes <= settings.disk_bytes_max + FLUSHING
    now_s = NOW_S + 0.7
    maintain_fully(storage, now_s)
    usage = storage.usage()
    assert usage.windows_evicted >= 1
    left = {one.record.id for one in everything(storage, Kind.PUBLICATION, now_s)}
    assert usage.publications_evicted >= 700 - len(left)
    assert "p699" in left
    assert "p0" not in left
    # Not one subscription is lost, in whichever window it lay.
    assert len(storage.get_subscribers([A], now_s, now_s)) == 7
    storage.close()


def test_when_nothing_can_be_given_up_records_are_refused(tmp_path: Path) -> None:
    storage = DualDB(tmp_path, replace(SMALL, disk_bytes_max=500_000), NOW_S)
    chance = random.Random(1)

    def fill() -> None:
        for number in range(1000):
            storage.subscribe(subscription(f"s{number}", body=chance.randbytes(1000)), [A], NOW_S)
            maintain_fully(storage, NOW_S)

    with pytest.raises(StorageFullError):
        fill()
    usage = storage.usage()
    assert usage.refused == 1
    assert usage.disk_bytes <= 2 * 500_000  # LevelDB writes what it compacts before it removes what it has read
    there = len(storage.get_subscribers([A], NOW_S, NOW_S))
    assert there > 200
    # What goes makes room again.
    assert storage.unsubscribe([f"s{number}" for number in range(there)], NOW_S) == there
    maintain_fully(storage, NOW_S + 2)
    storage.subscribe(subscription("new"), [A], NOW_S + 2)
    storage.close()


@pytest.mark.parametrize("layout", INSTANT)
def test_the_disk_holds_at_most_twice_what_lives_after_ten_turnovers(tmp_path: Path, layout: str) -> None:
    settings = StorageSettings(window_s=5, retention_s=60, retention_s_max=60)
    storage = LAYOUTS[layout](tmp_path, settings, NOW_S)
    body = b"a text of the usual length of a post, some hundred and forty bytes of words, as it is published " * 2
    for step in range(400):
        now_s = NOW_S + step / 2
        filed = [
            Filed(publication(f"p{step}.{n}", now_s, expires_s=now_s + 20, body=body), (list_id(str(n)),))
            for n in range(50)
        ]
        storage.put(filed, now_s)
        maintain_fully(storage, now_s)
    live = everything(storage, Kind.PUBLICATION, now_s, 500)
    live_bytes = sum(len(one.record.body) + 60 for one in live)
    assert len(live) == 40 * 50
    assert storage.usage().disk_bytes <= 2 * live_bytes
    storage.close()


def slices_ms(storage: Storage, now_s: float) -> list[float]:
    times = []
    more = True
    while more:
        begin = time.perf_counter()
        more = storage.maintain(now_s)
        times.append((time.perf_counter() - begin) * 1000)
    return times


def test_dropping_a_large_window_takes_short_slices(tmp_path: Path) -> None:
    settings = StorageSettings(window_s=100, retention_s=300, retention_s_max=400)
    storage = DualDB(tmp_path, settings, NOW_S)
    for begin in range(0, 200_000, 1000):
        filed = [
            Filed(publication(f"p{n}", expires_s=NOW_S + 50, body=b"x" * 100), (list_id(str(n)),))
            for n in range(begin, begin + 1000)
        ]
        storage.put(filed, NOW_S)
    times = slices_ms(storage, NOW_S + 100)
    assert databases(tmp_path) == set()
    # Two in a hundred may have been interrupted by whatever else the machine does.
    assert sorted(times)[int(len(times) * 0.98) - 1] < 50
    storage.close()


def test_the_tenth_base_follows_the_ninth_also_after_a_start_in_the_middle(tmp_path: Path) -> None:
    """By their names as texts it would not."""
    (tmp_path / "dual" / "base-9").mkdir(parents=True)
    storage = DualDB(tmp_path, StorageSettings(), NOW_S)
    storage.put([Filed(subscription(f"s{number:02}"), (A,)) for number in range(50)], NOW_S)
    windows = storage._subscriptions
    storage._upkeep._rewrite(windows, windows.base)
    storage.maintain(NOW_S, 20)
    storage.close()
    storage = DualDB(tmp_path, StorageSettings(), NOW_S)
    windows = storage._subscriptions
    assert [base.name for base in windows.bases()] == ["dual/base-9", "dual/base-10"]
    assert len({one.record.id for one in everything(storage, Kind.SUBSCRIPTION, NOW_S)}) == 50
    storage.maintain(NOW_S + 2, 30)
    storage.put([Filed(subscription("new"), (A,))], NOW_S + 2)
    maintain_fully(storage, NOW_S + 4)
    assert [base.name for base in windows.bases()] == ["dual/base-10"]
    assert len({one.record.id for one in everything(storage, Kind.SUBSCRIPTION, NOW_S + 4)}) == 51
    storage.close()
