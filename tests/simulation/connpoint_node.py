"""A connection point under the simulator: its subscribers and publishers are entries of the ledger."""

import math
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from braid import messages
from braid.config import Ingress
from braid.messages import Send
from braid.selector import hash64
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration, Registration
from services.connpoint.delivery import DeliveryCore
from services.connpoint.earlier import relied_on
from services.connpoint.ingress import IngressCore
from services.connpoint.parting import last_words
from services.connpoint.questions import Answers
from services.connpoint.retrying import Batch
from services.connpoint.unconfirmed import Unconfirmed
from tests.simulation.network import Node
from tests.simulation.nodes import TickingSlice

Question = messages.Subscribe | messages.Unsubscribe | messages.FindSubscriptions | messages.FindPublications


class SimulatedConnPoint(TickingSlice):
    """Subscribers and publishers are ledger entries: what was acknowledged, and what arrived."""

    def __init__(self, *arguments: Any, settings: Ingress, ledger: Any) -> None:
        super().__init__(*arguments)
        self.settings = settings
        self.ledger = ledger
        self.disk: dict[tuple[str, int], tuple[int, list[bytes], float]] = {}
        self._logged_s = 0.0
        self._refs = 0
        self.asked_again = 0

    def reset(self) -> None:
        self.ingress = IngressCore(f"{self.name}.{self.incarnation:x}", self.settings)
        recovered = [(origin, sequence, *value) for (origin, sequence), value in sorted(self.disk.items())]
        self.ingress.on_recovered(recovered, self.scheduler.now_s)
        self.delivery = DeliveryCore(self.name, self.clock_ns)
        self.questions: dict[int, Question] = {}
        self._found: dict[int, Answers] = {}  # by question
        # By question, for whom others are looked for, and who was given its past by then and is not noted.
        self._asking: dict[int, tuple[SubscriptionRecord, dict[str, SubscriptionRecord]]] = {}
        self._given: dict[str, SubscriptionRecord] = {}
        self._path: dict[str, int] = {}

    def publish(self, publisher: int, ids: list[str], sensor: int, contents: list[bytes]) -> None:
        if not self.ingress.has_room(len(contents), sum(map(len, contents))):
            return
        batch = self.ingress.accept(publisher, contents, self.scheduler.now_s)
        incarnation = self.incarnation

        def logged() -> None:
            if self.alive and self.incarnation == incarnation:
                self.disk[batch.origin, batch.sequence] = (publisher, contents, batch.accepted_s)
                self.ledger.on_acknowledged(publisher, ids, sensor, batch.accepted_s)
                self._send_logged(batch)

        # One writer: batches are logged in the order they were accepted.
        self._logged_s = max(
            getattr(self, "_logged_s", 0.0), self.scheduler.now_s + self.scheduler.random.uniform(0, 0.02)
        )
        self.scheduler.at(self._logged_s - self.scheduler.now_s, logged)

    def _send_logged(self, batch: Batch) -> None:
        self.perform(self.ingress.on_logged(batch, self.scheduler.now_s, 0))

    def subscribe(self, record: SubscriptionRecord) -> None:
        self.delivery.subscribers[record.id] = record.subscriber
        if record.distinct:
            self.delivery.distinct.add(record.id)
        if self._wants_past(record):
            self.delivery.catching_up.begin(record.id, record.subscriber, is_distinct=record.distinct)
        ref = self._next_ref()
        self.questions[ref] = messages.Subscribe(0, ref, self.name, record)
        self._ask(ref, self.incarnation)

    def unsubscribe(self, id: str) -> None:
        ref = self._next_ref()
        self.questions[ref] = messages.Unsubscribe(0, ref, self.name, id)
        self._ask(ref, self.incarnation)

    def _wants_past(self, record: SubscriptionRecord) -> bool:
        return record.from_s is not None and self.ledger.subscriptions[record.id].acknowledged_s is None

    def _find_earlier(self, record: SubscriptionRecord) -> None:
        """Then the past is looked for, without what they were given."""
        if not record.distinct:
            self._find_past(record, [])
            return
        ref = self._next_ref()
        self.questions[ref] = messages.FindSubscriptions(0, ref, self.name, subscriber=record.subscriber)
        self._asking[ref] = record, dict(self._given)
        self._ask(ref, self.incarnation)

    def _on_subscriptions_found(
        self,
        record: SubscriptionRecord,
        given: dict[str, SubscriptionRecord],
        answers: list[messages.SubscriptionsFound],
    ) -> None:
        """They are all of this connection point, so none is waited for."""
        others = [other for answer in answers for other in answer.records if other.id != record.id]
        self._find_past(record, relied_on(others, given))

    def _find_past(self, record: SubscriptionRecord, without: list[SubscriptionRecord]) -> None:
        assert record.from_s is not None
        ref = self._next_ref()
        self.questions[ref] = messages.FindPublications(
            0, ref, self.name, record, record.from_s, math.inf, 1_000_000, without
        )
        self._ask(ref, self.incarnation)

    def _next_ref(self) -> int:
        self._refs += 1
        return self._refs

    def _ask(self, ref: int, incarnation: int, again: bool = False) -> None:
        question = self.questions.get(ref)
        if self.alive and self.incarnation == incarnation and question is not None:
            accesspoints = self.zookeeper_configuration.in_force().accesspoints
            if isinstance(question, messages.FindPublications):
                all_of_them = self.zookeeper_configuration.union("accesspoint")
                self.perform([Send(accesspoint, [question]) for accesspoint in all_of_them])
            else:
                # Questions about one subscription keep their order through one access point.
                key = hash64(question.record.id if isinstance(question, messages.Subscribe) else question.id)
                self.perform([Send(accesspoints[key % len(accesspoints)], [question])])
            self.asked_again += again
            self.scheduler.at(1.0, lambda: self._ask(ref, incarnation, again=True))

    def on_configuration(self, configuration: Configuration) -> None:
        self.zookeeper_configuration = configuration
        self.ingress.on_configuration(configuration)
        self._say_last_words()

    def on_peer_up(self, peer: Node) -> None:
        self._say_last_words(peer.name)

    def _say_last_words(self, only_to: str = "") -> None:
        words = last_words(self.zookeeper_configuration) if self.last_words else []
        self.perform([word for word in words if only_to in ("", word.to)])

    def on_slices(self, slices: dict[str, Registration]) -> None:
        path = {name: r.incarnation for name, r in slices.items() if r.layer != "connpoint"}
        if any(self._path.get(name, i) != i for name, i in path.items()):
            self.ingress.on_slice_returned(self.scheduler.now_s)
        self._path.update(path)

    def handle(self, sender: Node, kind: type[Any], run: list[Any]) -> None:
        if kind is messages.Notifications:
            payloads, _, receipts = self.delivery.on_notifications(sender.name, run, 0)
            for subscriber, own in payloads.items():
                self._deliver(subscriber, own)
            self.perform(receipts)
        elif kind is messages.Confirmed:
            for message in run:
                confirmed = self.ingress.on_confirmed(message)
                self._forget(confirmed)
                self.perform(self.ingress.confirmed_elsewhere(confirmed, sender.name))
        else:
            for message in run:
                self._on_answer(message)

    def _forget(self, confirmed: list[Batch]) -> None:
        for batch in confirmed:
            del self.disk[batch.origin, batch.sequence]

    def _deliver(self, subscriber: str, payloads: list[bytes]) -> None:
        for payload in payloads:
            notification = msgspec.json.decode(payload)
            ids = notification["subscriptions"]
            for _ in range(1 + len(ids) - len(set(ids))):  # one that is named twice came twice
                self.ledger.on_delivered(subscriber, notification["publication"]["id"])

    def _on_found(self, message: messages.SubscriptionsFound | messages.PublicationsFound) -> None:
        """It is there when all matchers of one epoch have answered."""
        question = self.questions.get(message.ref)
        if question is None:
            return
        asked = tuple(message.asked) if isinstance(message, messages.PublicationsFound) else message.asked
        found = self._found.setdefault(message.ref, Answers()).take(message.matcher, message, asked)
        if found is None:
            return
        del self.questions[message.ref], self._found[message.ref]
        if isinstance(question, messages.FindPublications):
            self._on_publications_found(question, found)
        else:
            self._on_subscriptions_found(*self._asking.pop(message.ref), found)

    def _on_publications_found(
        self, question: messages.FindPublications, found: list[messages.PublicationsFound]
    ) -> None:
        past = {(kept.origin, kept.sequence, kept.place): kept for own in found for kept in own.found}
        record = question.record
        unconfirmed = Unconfirmed(own.under_way for own in found)
        if not unconfirmed.is_in_order(past.values(), self.scheduler.now_s):
            self._later(lambda: self._find_past(record, question.without))
            return
        before = unconfirmed.before(past.values(), question.from_s)
        for part in self.delivery.give_past(record.id, list(past.values()), lambda: self.scheduler.now_s, before):
            self._deliver(record.subscriber, part.contents)
        ref = self._next_ref()
        assert record.from_s is not None
        self._given[record.id] = replace(record, given_from_s=record.from_s)
        self.questions[ref] = messages.Subscribe(0, ref, self.name, record, record.from_s)
        self._ask(ref, self.incarnation)

    def _later(self, call: Callable[[], None]) -> None:
        incarnation = self.incarnation

        def again() -> None:
            if self.alive and self.incarnation == incarnation:
                call()

        self.scheduler.at(0.05, again)

    def _on_answer(self, message: Any) -> None:
        """What a matcher says of a subscription."""
        if isinstance(message, messages.PublicationsFound | messages.SubscriptionsFound):
            self._on_found(message)
            return
        if isinstance(message, messages.SubscriptionGone):
            self.delivery.subscribers.pop(message.id, None)
            return
        question = self.questions.pop(message.ref, None)
        if isinstance(question, messages.Subscribe):
            if self._wants_past(question.record) and question.given_from_s is None:
                self._find_earlier(question.record)
            else:
                self._given.pop(question.record.id, None)
                self.ledger.on_subscribed(question.record)
        elif question is not None:  # else it was asked again, and is answered again
            self.ledger.on_unsubscribed(message.id)
            self.delivery.subscribers.pop(message.id, None)

    def on_tick(self) -> None:
        again = self.ingress.on_tick(self.scheduler.now_s)
        self.ledger.on_sent_again(
            content for send in again for message in send.messages for content in message.contents
        )
        self.perform(again)
        self.delivery.on_tick(self.scheduler.now_s)
