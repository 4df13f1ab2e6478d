"""Searching against a look at every publication: whatever is kept, whatever is asked, however small the pages are."""

import math
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from braid.instants import format_instant
from braid.matching.meaning import accepts, read_publication
from braid.messages import FindPublications, KeptBatch
from braid.subscription import SubscriptionRecord
from services.matcher import searching
from services.matcher.filing import filed_publications
from services.matcher.searching import Search
from services.matcher.storage.dual import DualDB
from services.matcher.storage.settings import StorageSettings
from tests.core.kept_cases import question
from tests.core.matching_cases import content, looked_back_to
from tests.core.matching_populations import Population

NOW_S = 1000.0
SETTINGS = StorageSettings(window_s=2, retention_s=40.0, retention_s_max=60.0)
ASKED_S = (NOW_S, NOW_S + 7.5, NOW_S + 20)  # when it is asked; some has expired by then


class Known(NamedTuple):
    """A publication as the model keeps it."""

    published_s: float
    expires_s: float
    key: tuple[str, int, int]
    content: bytes


def accepts_content(record: SubscriptionRecord, content: bytes) -> bool:
    publication = replace(read_publication(content), expires=None)
    return accepts(replace(record, from_s=None, until_s=None), publication, None, NOW_S)


def was_given(record: SubscriptionRecord, known: Known) -> bool:
    from_s = record.given_from_s if record.from_s is None else max(record.given_from_s, record.from_s)
    until_s = math.inf if record.until_s is None else record.until_s
    return from_s <= known.published_s < until_s and accepts_content(record, known.content)


class Story(Population):
    def batches(self, several: int) -> list[KeptBatch]:
        """Many of one moment, and some of them sent again."""
        chance = self.chance
        moments = [NOW_S - chance.randrange(0, 3000) / 100 for _ in range(several // 3)]
        sequences = [chance.randint(1, several) for _ in range(several)]
        made = {sequence: self._batch(sequence, chance.choice(moments)) for sequence in sequences}
        return [made[sequence] for sequence in sequences]

    def _batch(self, sequence: int, published_s: float) -> KeptBatch:
        contents = [self._content() for _ in range(self.chance.randint(1, 4))]
        places = sorted(self.chance.sample(range(9), len(contents)))
        return KeptBatch(f"connpoint-{sequence % 3}.a", sequence, 0, published_s, places, contents)

    def _content(self) -> bytes:
        given = self.content()
        if self.chance.random() < 0.3:
            return content({"n": 1}, expires=format_instant(NOW_S + self.chance.choice([1, 7.5, 7.501, 30])))
        return given

    def judged(self, id: str) -> SubscriptionRecord:
        """One that looks at nothing before; every other matches much."""
        while looked_back_to((given := self.record(id)).filter):
            pass
        return replace(given, filter="") if self.chance.random() < 0.5 else given

    def question(self) -> FindPublications:
        chance = self.chance
        without = []
        for number in range(chance.choice([0, 0, 1, 3])):
            from_s, until_s = sorted(NOW_S - chance.randrange(0, 3000) / 100 for _ in range(2))
            other = self.judged(f"other-{number}")
            began_s = chance.choice([None, from_s - 5])
            without.append(replace(other, given_from_s=from_s, from_s=began_s, until_s=until_s))
        from_s, until_s = sorted(NOW_S - chance.randrange(-100, 3100) / 100 for _ in range(2))
        return question(
            1,
            self.judged("s-1"),
            from_s=chance.choice([-math.inf, from_s]),
            until_s=chance.choice([math.inf, until_s]),
            limit=chance.choice([1, 5, 1000]),
            without=without,
        )


def all_answers(storage: DualDB, asked: FindPublications, now_s: float) -> list[tuple[str, int, int]]:
    """As connection points ask: from where the last answer came to."""
    found: list[tuple[str, int, int]] = []
    until_s = asked.until_s
    while True:
        search = Search(replace(asked, until_s=until_s))
        while not search.is_done:
            search.step(storage, now_s)
        moments = [kept.published_s for kept in search.found]
        assert moments == sorted(moments, reverse=True)
        assert all(moment_s < until_s for moment_s in moments)
        found += [(kept.origin, kept.sequence, kept.place) for kept in search.found]
        if search.reached_s is None:
            return found
        assert all(moment_s > search.reached_s for moment_s in moments)
        assert math.nextafter(search.reached_s, math.inf) < until_s
        until_s = math.nextafter(search.reached_s, math.inf)


def check(seed: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    story = Story(seed)
    for name, several in (
        ("RECORDS_AT_ONCE", [2, 5, 50]),
        ("PUBLICATIONS_AT_ONCE", [1, 7, 200]),
        ("LOOKED_AT_MAX", [3, 40, 20_000]),
        ("FOUND_BYTES_MAX", [1, 2000, 1024 * 1024]),
        ("LISTS_MAX", [1, 3, 64]),
    ):
        monkeypatch.setattr(searching, name, story.chance.choice(several))
    storage = DualDB(path, SETTINGS, NOW_S)
    known: dict[tuple[str, int, int], Known] = {}
    for batch in story.batches(60):
        storage.put(list(filed_publications(batch, NOW_S)), NOW_S)
        for place, given in zip(batch.places, batch.contents, strict=True):
            expires = read_publication(given).expires
            expires_s = batch.published_s + 40.0 if expires is None else expires.timestamp()
            key = batch.origin, batch.sequence, place
            known[key] = Known(batch.published_s, min(expires_s, batch.published_s + 60.0), key, given)
    met = 0
    for now_s in ASKED_S:
        for asked in (story.question() for _ in range(6)):
            wanted = [
                one.key
                for one in known.values()
                if one.expires_s > now_s
                and asked.from_s <= one.published_s < asked.until_s
                and accepts_content(asked.record, one.content)
                and not any(was_given(other, one) for other in asked.without)
            ]
            assert sorted(all_answers(storage, asked, now_s)) == sorted(wanted), asked
            met += len(wanted)
    storage.close()
    return met


@pytest.mark.parametrize("seed", range(8))
def test_finds_what_a_look_at_everything_finds(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(seed, tmp_path, monkeypatch) > 20


@pytest.mark.slow
def test_finds_it_with_many_more_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(check(seed, tmp_path / str(seed), monkeypatch) for seed in range(100, 120)) > 2000
