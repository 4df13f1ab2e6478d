"""Chains that several matchers remembered of one topic become one, as if nobody had been interrupted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.matching import previous as module
from braid.matching.chains import (
    Chain,
    Position,
    Remembered,
    decode_attributes,
    encode_attributes,
    encode_chain,
    merged,
    read_chain,
)
from braid.matching.previous import ChainChanges, PreviousPublications, Published


def entry(origin: str, sequence: int, attributes: bytes = b"{}") -> Remembered:
    return Remembered(Position(origin, sequence, 0), attributes)


def names(chain: Chain) -> list[str]:
    return [f"{one.position.origin}{one.position.sequence}" for one in chain if one.position is not None]


def chain(*positions: str) -> Chain:
    return [entry(text[0], int(text[1:])) for text in positions]


def test_what_only_the_other_one_has_comes_before_all_else() -> None:
    assert names(merged(chain("a5", "b2"), chain("a3", "b1"))) == ["a3", "b1", "a5", "b2"]
    assert names(merged([], chain("a3", "b1"))) == ["a3", "b1"]
    assert names(merged(chain("a3"), [])) == ["a3"]


def test_but_behind_what_both_have_before_it() -> None:
    assert names(merged(chain("a3", "a9"), chain("a2", "a3", "b1"))) == ["a2", "a3", "b1", "a9"]


def test_an_origin_never_overtakes_itself() -> None:
    assert names(merged(chain("a1"), chain("a2"))) == ["a1", "a2"]
    assert names(merged(chain("b1", "a3"), chain("b1", "a2", "a4"))) == ["b1", "a2", "a3", "a4"]


def test_attributes_of_the_same_publication_are_joined() -> None:
    mine, theirs = [entry("a", 1, b'{"n":1}')], [entry("a", 1, b'{"m":2,"n":1}')]
    assert merged(mine, theirs) == [entry("a", 1, b'{"m":2,"n":1}')]
    assert mine == [entry("a", 1, b'{"n":1}')]


def test_what_does_not_come_again_has_no_position() -> None:
    once = Remembered(None, b'{"n":1}')
    assert merged([once], [once]) == [once, once]


def test_it_is_written_and_read() -> None:
    whole = [Remembered(None, b"{}"), entry("a", 7, b'{"n":1}')]
    assert read_chain(encode_chain(whole)) == whole
    assert read_chain(b"\xff") == read_chain(b"") == []


# What is remembered, and taken elsewhere


def take(memory: PreviousPublications, number: int, position: Position, looked_at: str = "n", topic: str = "t") -> None:
    memory.remember([Published(topic, {"n": number, "m": -number})], {looked_at}, [position])


def watched() -> PreviousPublications:
    memory = PreviousPublications()
    memory.watch()
    return memory


def test_changes_are_told_once() -> None:
    memory = watched()
    assert memory.take_changes() is None
    take(memory, 1, Position("a", 1, 0))
    value = encode_chain([entry("a", 1, b'{"n":1}')])
    assert memory.take_changes() == ChainChanges({"t": value})
    take(memory, 1, Position("a", 1, 0))
    assert memory.take_changes() is None
    take(memory, 1, Position("a", 1, 0), "m")  # somebody looks at another attribute by now
    assert memory.take_changes() == ChainChanges({"t": encode_chain([entry("a", 1, b'{"m":-1,"n":1}')])})
    memory.clear()
    assert memory.take_changes() == ChainChanges({}, is_cleared=True)
    memory.clear()
    assert memory.take_changes() is None


def test_topics_that_are_forgotten_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = watched()
    for number in range(3):
        take(memory, number, Position("a", number + 1, 0), topic=f"t{number}")
    memory.take_changes()
    monkeypatch.setattr(module, "BYTES_MAX", memory.bytes)
    take(memory, 2, Position("a", 9, 0), topic="t2")
    changes = memory.take_changes()
    assert changes is not None
    assert changes.chains["t0"] is None


def test_nobody_watches_nothing_is_noted() -> None:
    memory = PreviousPublications()
    take(memory, 1, Position("a", 1, 0))
    assert memory.take_changes() is None


def test_what_is_handed_over_is_there_when_somebody_looks_and_merged_in_the_end() -> None:
    memory = watched()
    take(memory, 5, Position("a", 5, 0))
    memory.take_changes()
    value = encode_chain([entry("a", 4, b'{"n":4}')])
    memory.hand_over({"t": value, "u": value, "v": value})
    assert memory.attributes_of("u") == {"n": 4}
    assert memory.merge_some(1)
    assert not memory.merge_some(1)
    changes = memory.take_changes()
    assert changes is not None
    assert list(changes.chains) == ["u", "t", "v"]
    assert changes.chains["t"] == encode_chain([entry("a", 4, b'{"n":4}'), entry("a", 5, b'{"n":5}')])
    assert len(memory) == 3


def test_what_is_restored_is_cut_when_it_is_confirmed() -> None:
    memory = PreviousPublications()
    memory.restore({"t": encode_chain([entry("a", number, b'{"n":1}') for number in (3, 4, 5)])})
    memory.on_confirmed("a", 4)
    assert read_chain(memory.chain_of("t") or b"") == [entry("a", 4, b'{"n":1}'), entry("a", 5, b'{"n":1}')]
    assert memory.bytes == 256 + 1 + 2 * (128 + 7)


steps = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("tu"), st.sampled_from(["", "confirm", "start", "move"])),
    max_size=40,
)


@given(steps, st.data())
def test_starts_and_moves_change_no_answer(published: list[tuple[str, str, str]], data: st.DataObject) -> None:
    """One is never interrupted. The other is started again from what it wrote, or moves to two others, of which each
    looked at one of the attributes, and may know a part of it.
    """
    steady, disk = PreviousPublications(), dict[str, bytes]()
    moving = watched()
    sequences, confirmed = {"a": 0, "b": 0}, {"a": 0, "b": 0}
    sent: dict[Position, Published] = {}
    handed: list[dict[str, bytes]] = []
    for number, (origin, topic, then) in enumerate(published):
        sequences[origin] += 1
        position = Position(origin, sequences[origin], 0)
        sent[position] = Published(topic, {"n": number, "m": -number})
        judge(steady, moving, disk, [position], sent)
        if then == "confirm":
            confirmed[origin] = data.draw(st.integers(confirmed[origin], sequences[origin]))
            for memory in (steady, moving):
                memory.on_confirmed(origin, confirmed[origin])
        elif then:
            before, moving = moving, watched()
            if then == "start":
                moving.restore(disk)
            else:
                disk.clear()
                handed = [{topic: part_of(before, topic, name) for topic in before.topics()} for name in ("n", "m")]
            for chains in handed:  # also after a start: perhaps not all of it was merged before
                moving.hand_over(chains)
            moving.merge_some(data.draw(st.integers(0, 2)))
            for name, watermark in confirmed.items():
                moving.on_confirmed(name, watermark)
        unconfirmed = [position for position in sent if position.sequence > confirmed[position.origin]]
        if unconfirmed:
            judge(steady, moving, disk, data.draw(st.lists(st.sampled_from(unconfirmed), max_size=2)), sent)


def judge(
    steady: PreviousPublications,
    moving: PreviousPublications,
    disk: dict[str, bytes],
    positions: list[Position],
    sent: dict[Position, Published],
) -> None:
    for position in positions:
        published = [sent[position]]
        assert moving.before_each(published, [position]) == [
            None if before is None else {name: before[name] for name in ("n", "m")}
            for before in steady.before_each(published, [position])
        ]
        for memory in (steady, moving):
            memory.remember(published, {"n", "m"}, [position])
        changes = moving.take_changes()
        for topic, chain in ({} if changes is None else changes.chains).items():
            assert chain is not None
            disk[topic] = chain


def part_of(memory: PreviousPublications, topic: str, name: str) -> bytes:
    """What a matcher knows that looks at this attribute only."""
    whole = read_chain(memory.chain_of(topic) or b"")
    return encode_chain(
        [Remembered(one.position, encode_attributes({name: decode_attributes(one.attributes)[name]})) for one in whole]
    )
