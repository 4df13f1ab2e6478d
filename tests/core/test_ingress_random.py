"""The retry loop in any order of events."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from braid.messages import Send
from services.connpoint.retrying import Batch
from tests.core.ingress_cases import EVEN, ODD, configured, confirm


class IngressMachine(RuleBasedStateMachine):
    """Against a model that keeps every batch and its state in plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.core = configured()
        self.now_s = 100.0
        self.state: dict[int, str] = {}  # sequence -> accepted, logged, confirmed, failed
        self.batches: dict[int, Batch] = {}
        self.unlogged: list[Batch] = []

    @rule(publisher=st.sampled_from([EVEN, ODD]), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4))
    def accept(self, publisher: int, sizes: list[int]) -> None:
        if not self.core.has_room(len(sizes), sum(sizes)):
            assert self.core.window_publications + len(sizes) > 10
            return
        batch = self.core.accept(publisher, [b"x" * size for size in sizes], self.now_s)
        assert batch.sequence == len(self.state) + 1
        self.state[batch.sequence] = "accepted"
        self.batches[batch.sequence] = batch
        self.unlogged.append(batch)

    @rule(count=st.integers(1, 4), failing=st.integers(0, 9))
    def log_answers(self, count: int, failing: int) -> None:
        """`failing` says which of them fails; mostly none."""
        for nth, batch in enumerate(self.unlogged[:count]):
            self.unlogged.pop(0)
            if nth == failing:
                self.state[batch.sequence] = "failed"
                self.core.on_log_failed(batch)
            else:
                self.state[batch.sequence] = "logged"
                self.check(self.core.on_logged(batch, self.now_s, 0))

    @rule(publishers=st.lists(st.sampled_from([EVEN, ODD]), min_size=1, max_size=4))
    def publish(self, publishers: list[int]) -> None:
        for publisher in publishers:
            self.accept(publisher, [1])
        self.log_answers(len(self.unlogged), 9)

    @rule(places=st.lists(st.integers(0, 11), min_size=1, max_size=4))
    def confirm(self, places: list[int]) -> None:
        """Any that were sent, in any order, also those that are confirmed already."""
        known = [s for s, state in self.state.items() if state in ("logged", "confirmed")][-12:]
        chosen = [known[place % len(known)] for place in places if known]
        dropped = confirm(self.core, *chosen)
        assert dropped == [s for s in dict.fromkeys(chosen) if self.state[s] == "logged"]
        self.state.update(dict.fromkeys(dropped, "confirmed"))

    @rule(passing_s=st.sampled_from([0.1, 0.5, 2.0, 9.0]))
    def tick(self, passing_s: float) -> None:
        self.now_s += passing_s
        self.check(self.core.on_tick(self.now_s))

    @rule()
    def slice_returned(self) -> None:
        self.core.on_slice_returned(self.now_s)

    def check(self, sends: list[Send]) -> None:
        for send in sends:
            for message in send.messages:
                assert self.state[message.sequence] == "logged"
                below = {s: state for s, state in self.state.items() if s <= message.watermark}
                assert set(below.values()) <= {"confirmed", "failed"}
                assert message.watermark < message.sequence
                batch = self.batches[message.sequence]
                before = [
                    s
                    for s, state in self.state.items()
                    if s < message.sequence and state == "logged" and self.batches[s].publisher == batch.publisher
                ]
                assert message.previous == max(before, default=0)

    @invariant()
    def window_is_what_is_neither_confirmed_nor_failed(self) -> None:
        inside = [self.batches[s] for s, state in self.state.items() if state in ("accepted", "logged")]
        assert self.core.window_publications == sum(len(batch.contents) for batch in inside)
        assert self.core.window_bytes == sum(len(content) for batch in inside for content in batch.contents)
        assert self.core.is_drained is (not inside)


TestIngressMachine = IngressMachine.TestCase
TestIngressMachine.settings = settings(
    derandomize=True, deadline=None, max_examples=50, stateful_step_count=30, database=None
)
