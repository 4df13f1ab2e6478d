"""Small scalings whose transcripts tell every message, for people to read and for tests to compare."""

from typing import Any

from braid import messages
from braid.scaling import Ask, ScalingRecord
from braid.topology import Configuration
from tests.simulation.cluster import Simulation
from tests.simulation.network import Node
from tests.simulation.nodes import SimulatedSlice
from tests.simulation.scaling import ScalingSimulation

SUBSCRIPTIONS = 12
PUBLICATIONS = 24


class OneMatcherBecomesTwo(ScalingSimulation):
    """Two access points, so that a cut has two parts; a little traffic before, during and after."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        del self.zookeeper.coordinators[1:]
        self.ledger.on_delivered = self._on_delivered  # type: ignore[method-assign]  # watched by the test

    def _sizes(self) -> list[int]:
        return [1, 2, 1, 1]

    def add_slice(self, name: str) -> SimulatedSlice:
        slice = super().add_slice(name)
        handle = slice.on_messages

        def on_messages(sender: Node, batch: list[Any]) -> None:
            for message in batch:
                if told := describe(message):
                    self.scheduler.note(f"{sender.name} → {name}: {told}")
            handle(sender, batch)

        slice.on_messages = on_messages  # type: ignore[method-assign]  # watched by the test
        return slice

    def _plan_traffic(self) -> None:
        self.zookeeper.coordinators[0].start()
        for number in range(SUBSCRIPTIONS):
            self._at(0.1 + 0.2 * number, self._subscribe, number)
        for number in range(PUBLICATIONS):
            self.scheduler.at(0.3 + 0.09 * number, self._publish)
        self.scheduler.at(0.7, self._ask_for_two)

    def _ask_for_two(self) -> None:
        self.zookeeper.ask(ScalingRecord("scaling-1", Ask({"matcher": 2}), self.scheduler.now_s))

    def _on_delivered(self, subscriber: str, id: str) -> None:
        type(self.ledger).on_delivered(self.ledger, subscriber, id)
        self.scheduler.note(f"{subscriber} gets {id}")


class TheReceiverDies(OneMatcherBecomesTwo):
    """Before all state has arrived, so everything goes back."""

    def add_slice(self, name: str) -> SimulatedSlice:
        slice = super().add_slice(name)
        if name == "matcher-2":
            hear = slice.on_configuration

            def on_configuration(configuration: Configuration) -> None:
                hear(configuration)
                if configuration.change is not None and slice.incarnation == 1:
                    self.scheduler.at(0.01, self._kill_receiver)

            slice.on_configuration = on_configuration  # type: ignore[method-assign]  # watched by the test
        return slice

    def _kill_receiver(self) -> None:
        receiver = next(slice for slice in self.slices if slice.name == "matcher-2")
        receiver.crash()
        self._at(0.5, self._restart, receiver)


STORIES: dict[str, type[Simulation]] = {
    "one-matcher-becomes-two": OneMatcherBecomesTwo,
    "the-receiver-dies": TheReceiverDies,
}


def describe(message: Any) -> str:
    """One message in words; empty for those that every publication has on its way back."""
    told = ""
    match message:
        case messages.Publications() | messages.MatchRequest():
            told = f"{message.sequence}, epoch {message.epoch}"
        case messages.Partial():
            found = [id for _, matches in message.matched for _, ids, _ in matches for id in ids]
            told = f"{message.sequence}, epoch {message.epoch}: {' '.join(sorted(set(found))) or 'nothing'}"
        case messages.Subscribe():
            told = f"{message.record.id}, epoch {message.epoch}"
        case messages.SubscriptionStored():
            told = f"{message.id}, epoch {message.epoch}"
        case messages.AddMatcherState(epoch, chunk, records, removed, _, ends):
            kept, ended = " ".join(sorted(record.id for record in records)), " ".join(f"without {id}" for id in removed)
            end = {"": "", "copy": ", all is copied", "state": ", the last one"}[ends]
            told = f"to epoch {epoch}, chunk {chunk}{end}: {kept} {ended}".rstrip()
        case messages.MatcherStateStored(epoch, chunk):
            told = f"to epoch {epoch}, chunk {chunk}"
        case messages.HandOverPrevious(epoch, number, _, chains, is_last):
            end = ", the last one" if is_last else ""
            told = f"to epoch {epoch}, part {number}{end}: {' '.join(chains) or 'nothing'}"
        case messages.PreviousHandedOver(epoch, number):
            told = f"to epoch {epoch}, part {number}"
        case messages.ChangeMatcherOnExitPoint(epoch, accesspoint, matchers):
            told = f"to epoch {epoch}: through {accesspoint} {matchers} matchers answer"
        case (
            messages.StartScale(epoch)
            | messages.ExitPointScaling(epoch)
            | messages.ChangeMatcher(epoch)
            | messages.ScaleEnd(epoch)
        ):
            told = f"to epoch {epoch}"
    return f"{type(message).__name__} {told}" if told else ""
