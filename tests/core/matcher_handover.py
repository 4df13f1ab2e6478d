"""Two matchers, wired to each other: every channel between them, their disks and ZooKeeper is a queue.

Subscriptions come, change and end while the copy is made, on two ways, and behind the cut earlier calls are repeated.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from braid.messages import (
    AddMatcherState,
    ChangeMatcher,
    ChangeMatcherOnExitPoint,
    ExitPointScaling,
    HandOverPrevious,
    MatcherStateStored,
    PreviousHandedOver,
    ScaleEnd,
    Send,
    StartScale,
    Subscribe,
    Unsubscribe,
)
from braid.scaling import ReportStep
from braid.selector import BroadcastSelector
from braid.subscription import SubscriptionRecord
from braid.topology import PHASES, REVERSIBLE, Change, Configuration, Phase, Target
from services.matcher.core import MatcherCore
from services.matcher.effects import Continue, Erase, ExpectForeign, Forget, Store, StorePrevious, StoreState
from services.matcher.transfer import Pace
from tests.core.scaling_cases import record

NAMES = ("matcher-1", "matcher-2")
ACCESSPOINTS = ("accesspoint-1", "accesspoint-2")
IDS = [f"s-{number}" for number in range(24)]
PACE = Pace(looks=5, chunk_records_max=2, changes_left_max=1, chunks_under_way_max=4)
CALLS_MAX = 40


class Handover:
    """One scaling; a test says which of the queues moves next."""

    def __init__(self, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        self.settled = Configuration(1, ACCESSPOINTS, before, ("exitpoint-1",), epochs=1)
        self.target = Target(2, ACCESSPOINTS, after, ("exitpoint-1",))
        self.configuration = self.settled
        self.queues: dict[str, deque[Callable[[], None]]] = {}
        self.cores = {name: MatcherCore(name, lambda: 999, PACE) for name in NAMES}
        self.disks: dict[str, dict[str, SubscriptionRecord]] = {name: {} for name in NAMES}
        self.marks = dict.fromkeys(NAMES, False)
        self.reports: set[tuple[str, str]] = set()
        self.breaks = 0
        selector = BroadcastSelector(self.settled)
        for name, core in self.cores.items():
            own = [record(id) for id in IDS if selector.matcher_of(id) == name]
            self.disks[name] = {known.id: known for known in own}
            core.on_recovered(own)
            core.on_configuration(self.settled)
        self.known = {id: record(id) for id in IDS}
        self.calls: list[tuple[str, Subscribe | Unsubscribe]] = []  # with the access point that sent it first
        self.done: dict[str, int] = {}  # by id, the last call that was done
        for number in range(6):  # on their way when the scaling begins
            self.call(number, f"late-{number}", f"n = {number}")
        self.enter("copying")

    # Calls

    def call(self, number: int, id: str, filter: str | None) -> None:
        """Through one of the access points, which know who has it in the old epoch. No filter ends it."""
        ref = len(self.calls)
        if filter is None:
            message: Subscribe | Unsubscribe = Unsubscribe(1, ref, "connpoint-1", id)
        else:
            message = Subscribe(1, ref, "connpoint-1", record(id, filter))
        accesspoint = ACCESSPOINTS[number % 2]
        self.calls.append((accesspoint, message))
        self.send(accesspoint, BroadcastSelector(self.settled).matcher_of(id), [message])

    def may_call(self) -> bool:
        """Once they know of `moving`, access points keep calls back."""
        change = self.configuration.change
        return change is not None and change.phase == "copying" and len(self.calls) < CALLS_MAX

    def call_any(self, choice: int) -> None:
        """About few of them, so that one meets several."""
        id = [*IDS[:5], "late-1", "new-1", "new-2"][choice % 8]
        self.call(choice // 8, id, None if choice // 16 % 3 == 0 else f"n = {choice // 16}")

    def may_repeat(self) -> bool:
        change = self.configuration.change
        return change is not None and change.phase in ("flushing", "ending") and len(self.calls) > 0

    def repeat(self, choice: int) -> None:
        """Its answer was lost: whoever made the call repeats it, also when it has made others since."""
        accesspoint, message = self.calls[choice % len(self.calls)]
        again = msgspec.structs.replace(message, epoch=2)
        target = self.configuration.target()
        assert target is not None
        self.send(accesspoint, BroadcastSelector(target).matcher_of(_id_of(again)), [again])

    def take(self, message: Subscribe | Unsubscribe) -> None:
        """A call arrives; one that a later one has overtaken says nothing any more."""
        id = _id_of(message)
        if message.ref < self.done.get(id, -1):
            return
        self.done[id] = message.ref
        if isinstance(message, Subscribe):
            self.known[id] = message.record
        else:
            self.known.pop(id, None)

    # What may happen next

    def actions(self) -> dict[str, Callable[[], None]]:
        found = {name: partial(self._move, queue) for name, queue in self.queues.items() if queue}
        following = self._following()
        if following is not None:
            found["coordinator"] = partial(following)
        return dict(found)

    def _move(self, queue: deque[Callable[[], None]]) -> None:
        queue.popleft()()

    def _following(self) -> Callable[[], None] | None:
        change = self.configuration.change
        if change is None:
            return None
        taking_part = set(self.configuration.union("matcher"))
        awaited: dict[Phase, tuple[str, set[str]]] = {
            "copying": ("copied", taking_part),
            "moving": ("change-ready", taking_part),
            "changing": ("done", taking_part),
            "flushing": ("done", set()),
            "ending": ("drained", taking_part),
        }
        step, names = awaited[change.phase]
        if not all((name, step) in self.reports for name in names):
            return None
        if change.phase == "ending":
            return self.end
        return partial(self.enter, PHASES[PHASES.index(change.phase) + 1])

    def break_link(self) -> None:
        self.breaks += 1
        for name, other in (NAMES, NAMES[::-1]):
            self.queues.pop(f"{name} to {other}", None)
        for name, other in (NAMES, NAMES[::-1]):
            self.perform(name, self.cores[name].scaling.on_peer_up(other))

    def give_up(self) -> None:
        self.write(msgspec.structs.replace(self.settled, epochs=2))

    # Coordinator and access points

    def enter(self, phase: Phase) -> None:
        self.write(msgspec.structs.replace(self.settled, change=Change("scaling-1", phase, self.target, {})))
        for accesspoint in ACCESSPOINTS:
            for matcher in self.configuration.union("matcher"):
                self.send(accesspoint, matcher, self._said(phase, accesspoint, matcher))

    def _said(self, phase: Phase, accesspoint: str, matcher: str) -> list[Any]:
        match phase:
            case "copying" | "flushing":
                return []
            case "moving":
                return [StartScale(2)]
            case "changing":
                return self._cut(accesspoint, matcher)
            case "ending":
                return [ScaleEnd(2)]

    def _cut(self, accesspoint: str, matcher: str) -> list[Any]:
        cut: list[Any] = [ExitPointScaling(2), ChangeMatcher(2)]
        if matcher in self.settled.matchers:
            cut.insert(0, ChangeMatcherOnExitPoint(2, accesspoint, len(self.target.matchers)))
        return cut

    def end(self) -> None:
        self.write(Configuration(2, ACCESSPOINTS, self.target.matchers, ("exitpoint-1",), epochs=2))

    def write(self, configuration: Configuration) -> None:
        """Everybody hears of it at another time, and of the newest only."""
        self.configuration = configuration
        for name, core in self.cores.items():
            self.queues[f"zookeeper to {name}"] = deque(
                [lambda name=name, core=core: self.perform(name, core.on_configuration(configuration))]  # type: ignore[misc]  # bound now
            )

    # Channels

    def send(self, sender: str, receiver: str, messages: list[Any]) -> None:
        queue = self.queues.setdefault(f"{sender} to {receiver}", deque())
        queue.extend(lambda message=message: self.arrive(sender, receiver, message) for message in messages)  # type: ignore[misc]  # bound now

    def arrive(self, sender: str, receiver: str, message: Any) -> None:
        core, scaling = self.cores[receiver], self.cores[receiver].scaling
        match message:
            case Subscribe():
                effects = core.on_subscribe(sender, message)
                self.take(message)
            case Unsubscribe():
                effects = core.on_unsubscribe(sender, message)
                self.take(message)
            case StartScale(epoch):
                effects = scaling.on_start_scale(sender, epoch)
            case AddMatcherState():
                effects = scaling.on_add_matcher_state(sender, message)
            case MatcherStateStored():
                effects = scaling.on_matcher_state_stored(sender, message)
            case HandOverPrevious():
                effects = scaling.on_hand_over_previous(sender, message)
            case PreviousHandedOver():
                effects = scaling.on_previous_handed_over(sender, message)
            case ChangeMatcherOnExitPoint():
                effects = scaling.on_change_matcher_on_exit_point(sender, message)
            case ExitPointScaling(epoch):
                effects = scaling.on_exit_point_scaling(sender, epoch)
            case ChangeMatcher(epoch):
                effects = scaling.on_change_matcher(sender, epoch)
            case ScaleEnd(epoch):
                effects = scaling.on_scale_end(sender, epoch)
        self.perform(receiver, effects)

    def perform(self, name: str, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Send(receiver, messages) if receiver in NAMES:
                    self.send(name, receiver, messages)
                case Store() | StoreState() | StorePrevious() | Erase() | Forget() | ExpectForeign():
                    queue = self.queues.setdefault(f"disk of {name}", deque())
                    queue.append(lambda effect=effect: self.written(name, effect))  # type: ignore[misc]  # bound now
                case Continue():
                    self.queues[f"later at {name}"] = deque(
                        [lambda: self.perform(name, self.cores[name].on_continue())]
                    )
                case ReportStep(_, step):
                    self.reports.add((name, step))

    def written(self, name: str, effect: Store | StoreState | StorePrevious | Erase | Forget | ExpectForeign) -> None:
        disk = self.disks[name]
        match effect:
            case Store(stored):
                disk[stored.id] = stored
            case StoreState(records, _, removed):
                disk.update({known.id: known for known in records})
                for id in removed:
                    disk.pop(id, None)
                self.perform(name, self.cores[name].scaling.on_state_stored(effect))
            case StorePrevious():
                self.perform(name, self.cores[name].on_previous_stored(effect))
            case Erase(ids) | Forget(ids):
                for id in ids:
                    disk.pop(id, None)
            case ExpectForeign(expected):
                self.marks[name] = expected

    # What must hold

    def check(self) -> None:
        """In the epoch in force, each subscription counts at exactly one matcher, whoever has heard what."""
        assert {core.scaling.violations for core in self.cores.values()} == {0}
        change = self.configuration.change
        if change is None or change.phase == "ending":
            return
        is_old = change.phase in REVERSIBLE
        counting = [
            known
            for name in (self.settled if is_old else self.target).matchers
            for known in self.counting(name, new_epoch=not is_old)
        ]
        assert sorted(counting, key=_by_id) == sorted(self.known.values(), key=_by_id)

    def counting(self, name: str, *, new_epoch: bool) -> list[SubscriptionRecord]:
        core = self.cores[name]
        hidden = core._holdings.shares.hidden(new_epoch=new_epoch)
        return [known for known in _records(core) if not any(known.id in ids for ids in hidden)]

    def check_end(self) -> None:
        assert self.configuration.change is None
        selector = BroadcastSelector(self.configuration)
        for name, core in self.cores.items():
            own = {id: known for id, known in self.known.items() if selector.matcher_of(id) == name}
            assert {known.id: known for known in _records(core)} == self.disks[name] == own
            assert not self.marks[name]


def _records(core: MatcherCore) -> list[SubscriptionRecord]:
    return [known for id in core.index.ids() if (known := core.index.get(id)) is not None]


def _by_id(known: SubscriptionRecord) -> str:
    return known.id


def _id_of(call: Subscribe | Unsubscribe) -> str:
    return call.record.id if isinstance(call, Subscribe) else call.id
