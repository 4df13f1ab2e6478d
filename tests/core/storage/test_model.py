"""Whatever happens in whatever order, a storage answers as the model does."""

import contextlib
import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import plyvel
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from services.matcher.storage.interface import Storage
from services.matcher.storage.keys import list_id
from services.matcher.storage.records import Filed, Kind, Reach, Stored, StoredPublication, StoredSubscription
from services.matcher.storage.repeating import RepQueries
from tests.core.storage.cases import LAYOUTS, NOW_S, SMALL, crash, everything, maintain_fully
from tests.core.storage.failing import FailingWrite
from tests.core.storage.model import Model

LISTS = [list_id(*levels) for levels in ((), ("1",), ("1", "4"), ("1", "4", "2"), ("1", "3"), ("2",), ("10",))]
some_lists = st.lists(st.sampled_from(LISTS), min_size=1, max_size=2, unique=True).map(tuple)
reaches = st.sampled_from(Reach)
ages = st.sampled_from([0.0, 0.0, 0.25, 1.0, 5.0])
pasts = st.sampled_from([math.inf, 10.0, 1.0, 0.0, -1.5])
lives = st.sampled_from([0.0, 0.5, 1.75, 4.0, 9.0, 31.0, 60.0, math.inf])
subscribers = st.sampled_from(["alice", "bob"])
SETTINGS = settings(
    max_examples=10,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class StorageMachine(RuleBasedStateMachine):
    layout = ""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="braid-storage-"))
        self.now_s = NOW_S
        self.model = Model(SMALL)
        self.made = 0
        self.reach: Reach | None = None  # of all operations, where they cannot differ
        self.storage: Storage
        self.told: list[Stored] = []

    @initialize(reach=reaches, first_base=st.sampled_from([0, 9]))
    def open_first(self, reach: Reach, first_base: int) -> None:
        if self.layout == "repeating":
            self.reach = reach
        self.open()
        if first_base:  # numbers of bases become longer
            parts = [part.part for part in self.storage._parts]  # type: ignore[attr-defined]  # all three are alike
            self.storage.close()
            shutil.rmtree(self.directory)
            for part in parts:
                (self.directory / part / f"base-{first_base}").mkdir(parents=True)
            self.open()

    def open(self) -> None:
        path = self.directory
        if self.reach is not None:
            self.storage = RepQueries(path, SMALL, self.now_s, self.reach)
        else:
            self.storage = LAYOUTS[self.layout](path, SMALL, self.now_s)
        self.storage.listen(self.told.extend, Kind.SUBSCRIPTION | Kind.PUBLICATION)
        assert self.storage.damages == []

    def new_id(self) -> str:
        self.made += 1
        return f"r{self.made}"

    @rule(
        lists=some_lists,
        reach=reaches,
        age=ages,
        past=pasts,
        life=lives,
        subscriber=subscribers,
        distinct=st.booleans(),
    )
    def subscribe(self, lists: Any, reach: Reach, age: float, past: float, life: float, **who: Any) -> None:
        if self.reach is not None:
            reach, who["distinct"] = self.reach, False
        made_s = self.now_s - age
        subscription = StoredSubscription(
            self.new_id(), who["subscriber"], made_s, made_s - past, self.now_s + life, who["distinct"]
        )
        past_ids = [one.id for one in self.storage.subscribe(subscription, lists, self.now_s, reach=reach)]
        if self.reach is None:
            assert past_ids == self.model.subscribe(subscription, lists, self.now_s, reach)
        else:
            until_s = min(made_s, subscription.until_s)
            is_past = subscription.from_s < made_s
            expected = self.model.data(lists, self.now_s, reach, from_s=subscription.from_s, until_s=until_s)
            assert past_ids == (expected if is_past else [])
            self.model.put(Filed(subscription, lists), self.now_s)

    @rule(lists=some_lists, reach=reaches, age=ages, life=lives, join=st.sampled_from([None, 1.0, math.inf]))
    def publish(self, lists: Any, reach: Reach, age: float, life: float, join: float | None) -> None:
        publication = StoredPublication(self.new_id(), self.now_s - age, self.now_s + life)
        if self.reach is not None:
            assert self.storage.publish(publication, lists, self.now_s).subscriptions == []
        else:
            join_from_s = None if join is None else self.now_s - join
            found = self.storage.publish(publication, lists, self.now_s, reach=reach, previous_from_s=join_from_s)
            expected = self.model.subscribers(lists, publication.made_s, self.now_s, reach)
            assert [one.id for one in found.subscriptions] == expected
            previous = [] if join is None else self.model.data(lists, self.now_s, reach, from_s=self.now_s - join)
            assert [one.id for one in found.publications] == previous
        self.model.put(Filed(publication, lists), self.now_s)

    @rule(choice=st.integers(0, 1000))
    def unsubscribe(self, choice: int) -> None:
        id = f"r{choice % (self.made + 1)}"
        assert self.storage.unsubscribe([id], self.now_s) == self.model.unsubscribe(id, self.now_s)

    @rule(choice=st.integers(0, 1000), lists=some_lists, life=lives)
    def replace(self, choice: int, lists: Any, life: float) -> None:
        valid = sorted(self.model.valid(Kind.SUBSCRIPTION, self.now_s))
        if valid:
            old = self.model.subscriptions[valid[choice % len(valid)]][0]
            new = StoredSubscription(old.id, old.subscriber, old.made_s, old.from_s, self.now_s + life, old.distinct)
            self.storage.replace(new, lists, self.now_s)
            self.model.replace(Filed(new, lists), self.now_s)

    @rule(choice=st.integers(0, 1000))
    def forget(self, choice: int) -> None:
        id = f"r{choice % (self.made + 1)}"
        was_there = id in self.model.valid(Kind.SUBSCRIPTION, self.now_s) or id in self.model.ended(self.now_s)
        assert self.storage.forget([id], self.now_s) == was_there
        self.model.subscriptions.pop(id, None)

    @rule(
        choice=st.integers(0, 1000),
        lists=some_lists,
        life=lives,
        number=st.integers(1, 4),
        then=st.sampled_from(["unsubscribe", "forget", "replace"]),
    )
    def replace_while_the_disk_is_full(self, choice: int, lists: Any, life: float, number: int, then: str) -> None:
        """Whoever is told that it failed cannot know what is there; what he does next counts."""
        valid = sorted(self.model.valid(Kind.SUBSCRIPTION, self.now_s))
        if not valid:
            return
        old = self.model.subscriptions[valid[choice % len(valid)]][0]
        new = StoredSubscription(old.id, old.subscriber, old.made_s, old.from_s, self.now_s + life, old.distinct)
        with FailingWrite(self.storage, number), contextlib.suppress(plyvel.IOError):
            self.storage.replace(new, lists, self.now_s)
        if then == "replace":
            self.storage.replace(new, lists, self.now_s)
            self.model.replace(Filed(new, lists), self.now_s)
        elif then == "forget" or not old.distinct:
            getattr(self.storage, then)([old.id], self.now_s)
            self.model.subscriptions.pop(old.id)
        else:
            self.storage.replace(old, self.model.subscriptions[old.id][1], self.now_s)
            assert self.storage.unsubscribe([old.id], self.now_s) == 1
            self.model.unsubscribe(old.id, self.now_s)

    @rule(choice=st.integers(0, 1000))
    def remove_publication(self, choice: int) -> None:
        valid = everything(self.storage, Kind.PUBLICATION, self.now_s)
        if valid:
            filed = valid[choice % len(valid)]
            assert self.storage.remove_publications([filed]) == 1
            del self.model.publications[filed.record.id]

    @rule(lists=some_lists, age=ages, reach=reaches)
    def repeat_a_publication(self, lists: Any, age: float, reach: Reach) -> None:
        """What is published again under the same id, time and lists is there once."""
        publication = StoredPublication(self.new_id(), self.now_s - age, self.now_s + 4.0)
        for _ in range(2):
            self.storage.put([Filed(publication, lists)], self.now_s)
        self.model.put(Filed(publication, lists), self.now_s)

    @rule(lists=some_lists, reach=reaches, past=pasts, limit=st.sampled_from([None, 1, 2]), until=pasts)
    def get_data(self, lists: Any, reach: Reach, past: float, limit: int | None, until: float) -> None:
        from_s = self.now_s - past
        until_s = math.inf if until == math.inf else self.now_s - until
        found = self.storage.get_data(lists, self.now_s, from_s=from_s, until_s=until_s, reach=reach, limit=limit)
        expected = self.model.data(lists, self.now_s, reach, from_s=from_s, until_s=until_s, limit=limit)
        assert [one.id for one in found] == expected

    @rule(lists=some_lists, reach=reaches, age=ages, past=pasts)
    def get_both(self, lists: Any, reach: Reach, age: float, past: float) -> None:
        published_s, from_s = self.now_s - age, self.now_s - past
        found = self.storage.get_data_and_subscribers(lists, published_s, self.now_s, from_s=from_s, reach=reach)
        assert [one.id for one in found.publications] == self.model.data(lists, self.now_s, reach, from_s=from_s)
        assert [one.id for one in found.subscriptions] == self.model.subscribers(lists, published_s, self.now_s, reach)
        alone = self.storage.get_subscribers(lists, published_s, self.now_s, reach=reach)
        assert alone == found.subscriptions

    @rule()
    def due(self) -> None:
        due = self.storage.due(self.now_s)
        answers = {one.subscription.id: [found.id for found in one.publications] for one in due}
        assert len(answers) == len(due)
        assert answers == ({} if self.reach is None else self.model.due(self.now_s, self.reach))

    @rule(seconds=st.sampled_from([0.25, 1.0, 2.0, 7.0, 40.0]))
    def advance(self, seconds: float) -> None:
        self.now_s += seconds

    @rule(steps=st.integers(1, 3), entries_max=st.integers(1, 5))
    def maintain(self, steps: int, entries_max: int) -> None:
        for _ in range(steps):
            self.storage.maintain(self.now_s, entries_max)

    @rule()
    def maintain_fully(self) -> None:
        maintain_fully(self.storage, self.now_s)

    @rule(lists=some_lists, steps=st.integers(1, 4), entries_max=st.integers(1, 3))
    def turn_over_the_base(self, lists: Any, steps: int, entries_max: int) -> None:
        """So many come and go that the base is rewritten; something else may happen while it is half done."""
        for place in range(8):
            lasting = StoredSubscription(self.new_id(), "carol", self.now_s)
            self.storage.put([Filed(lasting, lists)], self.now_s)
            self.model.put(Filed(lasting, lists), self.now_s)
            if place:
                assert self.storage.unsubscribe([lasting.id], self.now_s) == 1
                self.model.unsubscribe(lasting.id, self.now_s)
        self.now_s += 1.0
        for _ in range(steps):
            self.storage.maintain(self.now_s, entries_max)

    @rule()
    def restart(self) -> None:
        self.storage.close()
        self.open()

    @rule()
    def crash(self) -> None:
        crash(self.storage)
        self.open()

    @rule(lists=some_lists, life=lives, is_publication=st.booleans())
    def put_while_the_disk_is_full(self, lists: Any, life: float, is_publication: bool) -> None:
        """It is there if nobody was told otherwise, because its database was not there before."""
        id, ends_s = self.new_id(), self.now_s + life
        record: Stored = StoredSubscription(id, "dave", self.now_s, until_s=ends_s)
        if is_publication:
            record = StoredPublication(id, self.now_s, ends_s)
        with FailingWrite(self.storage), contextlib.suppress(plyvel.IOError):
            self.storage.put([Filed(record, lists)], self.now_s)
            self.model.put(Filed(record, lists), self.now_s)

    @rule(number=st.integers(1, 4), steps=st.integers(1, 4), entries_max=st.integers(1, 5))
    def maintain_while_the_disk_is_full(self, number: int, steps: int, entries_max: int) -> None:
        with FailingWrite(self.storage, number):
            for _ in range(steps):
                with contextlib.suppress(plyvel.IOError):
                    self.storage.maintain(self.now_s, entries_max)

    @invariant()
    def all_records_are_there(self) -> None:
        for kind in Kind:
            filed = everything(self.storage, kind, self.now_s)
            assert {one.record.id: one.lists for one in filed} == self.model.valid(kind, self.now_s)

    @invariant()
    def distinct_ones_that_have_ended_are_remembered(self) -> None:
        ended = {one.id: one.until_s for one in self.storage.ended(self.now_s)}
        assert ended == self.model.ended(self.now_s)

    @invariant()
    def all_that_is_valid_is_found(self) -> None:
        """From the root, which is on one line with everything."""
        root, now_s = [LISTS[0]], self.now_s
        found = self.storage.get_data_and_subscribers(root, now_s, now_s, from_s=-math.inf, reach=Reach.LINE)
        assert [one.id for one in found.publications] == self.model.data(root, now_s, Reach.LINE)
        assert [one.id for one in found.subscriptions] == self.model.subscribers(root, now_s, now_s, Reach.LINE)

    @invariant()
    def only_what_has_expired_is_told(self) -> None:
        for record in self.told:
            expires_s = record.until_s if isinstance(record, StoredSubscription) else record.expires_s
            assert expires_s <= self.now_s

    def teardown(self) -> None:
        self.storage.close()
        shutil.rmtree(self.directory)


class DualMachine(StorageMachine):
    layout = "dual"


class TwoMachine(StorageMachine):
    layout = "two"


class RepeatingMachine(StorageMachine):
    layout = "repeating"


TestDual = DualMachine.TestCase
TestDual.settings = SETTINGS
TestTwo = pytest.mark.slow(TwoMachine.TestCase)
TestTwo.settings = SETTINGS
TestRepeating = pytest.mark.slow(RepeatingMachine.TestCase)
TestRepeating.settings = SETTINGS


@pytest.mark.slow
@pytest.mark.parametrize("machine", [DualMachine, TwoMachine, RepeatingMachine])
def test_longer(machine: type[StorageMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=50))
