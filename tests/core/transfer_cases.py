"""A transfer from matcher-1 to matcher-2 with a small pace: what it was told, what it looked at and what it sent."""

from collections.abc import Iterable

from braid.id_tables import IdSet
from braid.messages import AddMatcherState, Calls
from braid.selector import BroadcastSelector
from braid.subscription import SubscriptionRecord
from services.matcher.transfer import Pace, Transfer
from tests.core.scaling_cases import NEW, record

MANY = [f"s-{number}" for number in range(200)]
OTHERS = [id for id in MANY if NEW.matcher_of(id) == "matcher-2"]
OWN = [id for id in MANY if NEW.matcher_of(id) == "matcher-1"]
PACE = Pace(looks=50, chunk_records_max=10, changes_left_max=5, chunks_under_way_max=4)


class Sender:
    """Subscriptions are changed with `put` and `end`, as calls would do it."""

    def __init__(
        self,
        ids: Iterable[str] = MANY,
        selector: BroadcastSelector = NEW,
        *,
        calls: dict[str, Calls] | None = None,
        pace: Pace = PACE,
    ) -> None:
        self.records = {id: record(id) for id in ids}
        self.calls = calls or {}
        self.got: list[str] = []  # which were looked at
        self.left = IdSet()
        self.sent: list[AddMatcherState] = []
        self.stored = 0
        self.transfer = Transfer(
            "matcher-1",
            selector,
            ids=list(self.records),
            called=list(self.calls),
            get=self.get,
            calls_of=self.calls.get,
            leaving=self.left,
            pace=pace,
        )

    def get(self, id: str) -> SubscriptionRecord | None:
        self.got.append(id)
        return self.records.get(id)

    def put(self, id: str, filter: str = "") -> None:
        self.records[id] = record(id, filter)
        self.transfer.on_changed(id)

    def end(self, id: str) -> None:
        """Also takes it out of those that leave, as whoever removes a subscription does."""
        self.records.pop(id, None)
        self.left.discard(id)
        self.transfer.on_changed(id)

    def go_on(self) -> list[int]:
        """The numbers of the chunks that are sent now."""
        sends = self.transfer.go_on()
        assert all(send.to == "matcher-2" for send in sends)
        chunks = [message for send in sends for message in send.messages]
        self.sent += chunks
        return [message.chunk for message in chunks]

    def store(self) -> None:
        """Everything that was sent."""
        for message in self.sent[self.stored :]:
            self.transfer.on_stored("matcher-2", message.chunk)
        self.stored = len(self.sent)

    def hand_over(self) -> None:
        """Until there is no more to do."""
        while self.transfer.wants_to_go_on or self.stored < len(self.sent):
            self.store()
            self.go_on()

    def ids(self) -> list[str]:
        return [known.id for message in self.sent for known in message.records]

    def at_receiver(self) -> dict[str, SubscriptionRecord]:
        """What it has when it takes the chunks in their order."""
        there: dict[str, SubscriptionRecord] = {}
        for message in self.sent:
            there.update({known.id: known for known in message.records})
            for id in message.removed:
                there.pop(id, None)
        return there
