"""LevelDB's logs, read without it: everything that was written, and all but a little where a bit has flipped."""

import random
import struct

import plyvel
import pytest

from services.matcher.storage.log_reading import Change, changes_in, is_broken, is_whole

BLOCK = 32 * 1024


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[Change]]:
    """A log of single puts and of batches, some longer than a block; and what is in it."""
    path = tmp_path_factory.mktemp("log")
    chance = random.Random(1)
    changes: list[Change] = []
    with plyvel.DB(str(path), create_if_missing=True, write_buffer_size=64 * 1024 * 1024) as database:
        for number in range(60):
            batch = database.write_batch()
            size = chance.choice((1, 1, 1, 20, 400))
            own: list[Change] = [(b"%d.%d" % (number, n), chance.randbytes(chance.randrange(300))) for n in range(size)]
            for key, value in own:
                assert value is not None
                batch.put(key, value)
            batch.delete(b"%d.0" % number)
            batch.write()
            changes += [*own, (b"%d.0" % number, None)]
    (log,) = path.glob("*.log")
    return log.read_bytes(), changes


def headers(log: bytes) -> list[tuple[int, int]]:
    """Where each piece begins, and its length."""
    found, at = [], 0
    while at + 7 <= len(log):
        left = BLOCK - at % BLOCK
        if left < 7:
            at += left
            continue
        (length,) = struct.unpack_from("<H", log, at + 4)
        found.append((at, length))
        at += 7 + length
    return found


def flipped(log: bytes, at: int, bit: int) -> bytes:
    return log[:at] + bytes((log[at] ^ 1 << bit,)) + log[at + 1 :]


def test_everything_is_read_in_its_order(written: tuple[bytes, list[Change]]) -> None:
    log, changes = written
    assert list(changes_in(log)) == changes
    assert not is_broken(log)
    assert list(changes_in(b"")) == []


@pytest.mark.parametrize("byte", range(7))
@pytest.mark.parametrize("bit", [0, *(pytest.param(bit, marks=pytest.mark.slow) for bit in (3, 7))])
def test_a_header_that_is_wrong_costs_its_batch_at_most(
    written: tuple[bytes, list[Change]], byte: int, bit: int
) -> None:
    log, changes = written
    pieces = headers(log)
    for at, _ in pieces[:: len(pieces) // 10]:
        lost = set(changes) - set(changes_in(flipped(log, at + byte, bit)))
        assert len({key.partition(b".")[0] for key, _ in lost}) <= 2  # another may be in the same piece


def test_a_length_that_is_wrong_is_noticed_also_in_the_last_block(written: tuple[bytes, list[Change]]) -> None:
    """LevelDB would take it for the trace of a crash."""
    log, _ = written
    last_block = len(log) // BLOCK * BLOCK
    at = next(at for at, _ in headers(log) if at >= last_block)
    assert is_broken(flipped(log, at + 5, 6))


@pytest.mark.parametrize("left", [0.1, 0.5, 0.93, 0.999])
def test_what_is_torn_off_at_the_end_is_no_damage(written: tuple[bytes, list[Change]], left: float) -> None:
    log, changes = written
    torn = log[: int(len(log) * left)]
    assert not is_broken(torn)
    read = list(changes_in(torn))
    assert read == changes[: len(read)]


def test_only_what_ends_with_a_whole_record_is_whole(written: tuple[bytes, list[Change]]) -> None:
    log, _ = written
    assert is_whole(log)
    assert is_whole(b"")
    begins = {at for at, _ in headers(log) if log[at + 6] in (1, 2)}
    whole = begins | {at + 7 + length for at, length in headers(log) if log[at + 6] in (1, 4)}
    for length in {*range(0, len(log), 101), *whole, *(at + 1 for at in begins)}:
        assert is_whole(log[:length]) == (length in whole), length
    assert not is_whole(log + bytes(7))
    assert not is_whole(log + bytes(100))
    at, length = headers(log)[-1]
    assert all(not is_whole(flipped(log, at + 4, bit)) for bit in range(8) if not length & 1 << bit)


def test_any_bit_costs_one_batch_at_most(written: tuple[bytes, list[Change]]) -> None:
    log, changes = written
    chance = random.Random(2)
    for _ in range(40):
        hurt = flipped(log, chance.randrange(len(log)), chance.randrange(8))
        lost = set(changes) - set(changes_in(hurt))
        assert len({key.partition(b".")[0] for key, _ in lost}) <= 2


@pytest.mark.parametrize("nonsense", [bytes(100), b"\xff" * 100, bytes(range(256)) * 300])
def test_nonsense_is_read_to_its_end(nonsense: bytes) -> None:
    assert all(isinstance(key, bytes) for key, _ in changes_in(nonsense))
    is_broken(nonsense)
