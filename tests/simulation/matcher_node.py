"""A matcher under the simulator: its disk is a few dictionaries, written by one writer that takes its time.

As in the matcher's store, whatever nobody waits for may be written much later than what comes behind it, unless that is
about the same subscriptions.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from braid import messages
from braid.matching.checking import Seen
from braid.matching.meaning import read_publication
from braid.matching.previous import ChainChanges
from braid.messages import Kept, Send
from braid.scaling import ReportStep
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from services.matcher.core import MatcherCore
from services.matcher.effects import (
    Continue,
    Erase,
    ExpectForeign,
    Forget,
    Keep,
    KeepForeign,
    ReadKept,
    RemoveKept,
    Search,
    Store,
    StorePrevious,
    StoreState,
    WhenForgotten,
)
from services.matcher.filing import filed_publications, kept_batch
from services.matcher.searching import Judge
from services.matcher.storage.records import Cursor, StoredPublication
from services.matcher.transfer import Pace
from tests.simulation.network import Node
from tests.simulation.nodes import TickingSlice

Place = tuple[str, int, int]  # of a record: origin, sequence, place of its first publication


class SimulatedMatcher(TickingSlice):
    write_s = 0.02  # at most, each

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.disk: dict[str, SubscriptionRecord] = {}
        self.kept: dict[Place, messages.KeptBatch] = {}
        self.ever_kept: dict[Place, messages.KeptBatch] = {}  # also what was removed since
        self.foreign_expected = False
        self.previous: dict[str, bytes] = {}  # what is remembered for `prev`, by topic

    def reset(self) -> None:
        choice = Random(f"{self.scheduler.seed} {self.name} {self.incarnation}").choice
        pace = Pace(
            looks=choice((1, 3, 500)),
            chunk_records_max=choice((1, 3)),
            changes_left_max=choice((0, 3)),
            sends=choice((1, 100)),
            chunks_under_way_max=choice((1, 4)),
        )
        self.core = MatcherCore(self.name, self.clock_ns, pace, keeps_publications=True, incarnation=self.incarnation)
        self.core.on_recovered(self.disk.values(), self.foreign_expected)
        self.core.on_previous_recovered(self.previous)
        self._written_s = self._bulk_written_s = 0.0
        self._in_bulk: Counter[str] = Counter()
        self._marks = 0
        self._second = int(self.scheduler.now_s)
        self._pieces = choice((2, 20))  # batches that are read at once
        self._continuing = False

    def on_configuration(self, configuration: Configuration) -> None:
        self.hearing.configuration = configuration
        self.perform(self.core.on_configuration(configuration))

    def on_peer_up(self, peer: Node) -> None:
        self.perform(self.core.scaling.on_peer_up(peer.name))
        if peer.layer == "accesspoint":
            self.perform(self.core.on_accesspoint_up(peer.name))

    def handle(self, sender: Node, kind: type[Any], run: list[Any]) -> None:
        changes_something = kind in (messages.MatchRequest, messages.Subscribe, messages.Unsubscribe)
        if changes_something:
            run = self.core.taken(sender.name, run)
        if kind is messages.MatchRequest:
            self.perform(self.core.on_match_requests(run, self.scheduler.now_s, self.clock_ns()))
            return
        core, name = self.core, sender.name
        effects: Sequence[Any]
        for message in run:
            match message:
                case messages.Subscribe():
                    effects = core.on_subscribe(name, message)
                case messages.Unsubscribe():
                    effects = core.on_unsubscribe(name, message)
                case messages.AnchorsKnown():
                    effects = core.on_anchors_known(name, message)
                case messages.FindSubscriptions():
                    effects = core.on_find_subscriptions(name, message)
                case messages.FindPublications():
                    effects = core.on_find_publications(name, message)
                case _:
                    effects = self._handle_scaling(name, message)
            self.perform(effects)

    def _handle_scaling(self, name: str, message: Any) -> Sequence[Any]:
        self.hearing.note(name, message)
        scaling = self.core.scaling
        effects: Sequence[Any]
        match message:
            case messages.StartScale():
                effects = scaling.on_start_scale(name, message.epoch)
            case messages.AddMatcherState():
                effects = scaling.on_add_matcher_state(name, message)
            case messages.MatcherStateStored():
                effects = scaling.on_matcher_state_stored(name, message)
            case messages.HandOverPublications():
                effects = scaling.on_hand_over_publications(name, message)
            case messages.PublicationsHandedOver():
                effects = scaling.on_publications_handed_over(name, message)
            case messages.HandOverPrevious():
                effects = scaling.on_hand_over_previous(name, message)
            case messages.PreviousHandedOver():
                effects = scaling.on_previous_handed_over(name, message)
            case messages.ChangeMatcherOnExitPoint():
                effects = self.core.on_change_matcher_on_exit_point(name, message)
            case messages.ExitPointScaling():
                effects = scaling.on_exit_point_scaling(name, message.epoch)
            case messages.ChangeMatcher():
                effects = scaling.on_change_matcher(name, message.epoch)
            case messages.ScaleEnd():
                effects = scaling.on_scale_end(name, message.epoch)
            case _:
                raise AssertionError(message)
        return effects

    def on_tick(self) -> None:
        now_s = self.scheduler.now_s
        self.perform(self.core.on_tick(now_s))
        if int(now_s) > self._second:
            self._second = int(now_s)
            self.perform(self.core.on_second(now_s))

    def perform(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            match effect:
                case Send() | ReportStep():
                    super().perform([effect])
                case Continue():
                    self._continue_soon()
                case _:
                    self._write(effect)

    def _continue_soon(self) -> None:
        if self._continuing:
            return
        self._continuing = True
        incarnation = self.incarnation

        def go_on() -> None:
            if self.alive and self.incarnation == incarnation:
                self._continuing = False
                self.perform(self.core.on_continue())

        self.scheduler.at(self.scheduler.random.uniform(0, 0.02), go_on)

    def _write(self, effect: Any) -> None:
        """One writer; in each of the two lines in the order in which they were asked for."""
        incarnation, random = self.incarnation, self.scheduler.random
        ids = _ids_of(effect)
        in_bulk = _nobody_waits_for(effect) or any(self._in_bulk[id] for id in ids)
        if effect == ExpectForeign(True):
            self._marks += 1
        marks = self._marks
        self._written_s = max(self._written_s, self.scheduler.now_s + random.uniform(0, self.write_s))
        written_s = self._written_s
        if in_bulk:
            self._in_bulk.update(ids)
            later_s = random.choice((0, 0, 0, 0.01, 0.05))
            written_s = self._bulk_written_s = max(self._bulk_written_s, written_s) + later_s

        def written() -> None:
            if not self.alive or self.incarnation != incarnation:
                return
            if in_bulk:
                self._in_bulk.subtract(ids)
            if effect != ExpectForeign(False) or marks == self._marks:
                self._on_written(effect)

        self.scheduler.at(written_s - self.scheduler.now_s, written)

    def _on_written(self, effect: Any) -> None:
        match effect:
            case Store(record, answer):
                self.disk[record.id] = record
                self.perform(self.core.on_written(answer))
            case Erase(ids, answer):
                self._erase(ids)
                if answer is not None:
                    self.perform(self.core.on_written(answer))
            case Forget(ids):
                self._erase(ids)
            case StoreState() if self.chunk_fails():
                self.perform(self.core.scaling.on_state_not_stored(effect))
            case StoreState(records, _, removed):
                self.foreign_expected = True
                self.disk.update({record.id: record for record in records})
                self._erase(removed)
                self.perform(self.core.scaling.on_state_stored(effect))
            case ExpectForeign(expected):
                self.foreign_expected = expected
            case WhenForgotten():
                self.perform(self.core.on_all_forgotten())
            case _:
                self._on_publications_written(effect)

    def chunk_fails(self) -> bool:
        """The disk is full, say."""
        return False

    def _on_publications_written(self, effect: Any) -> None:
        match effect:
            case Keep(ticket, batches):
                self._keep(batches)
                self.perform(self.core.on_kept(ticket))
            case StorePrevious():
                self._keep_previous(effect.changes)
                self.perform(self.core.on_previous_stored(effect))
            case KeepForeign():
                self._keep(effect.batches)
                self.perform(self.core.scaling.on_foreign_kept(effect))
            case ReadKept(after, reader):
                self._read_kept(after, reader)
            case RemoveKept(batches):
                for batch in batches:
                    self.kept.pop(_place_of(batch), None)
            case Search():
                self.perform(self.core.on_searched(effect, self._search(effect.question), None))
            case _:
                raise AssertionError(effect)

    def _erase(self, ids: list[str]) -> None:
        for id in ids:
            self.disk.pop(id, None)

    def _keep(self, batches: list[messages.KeptBatch]) -> None:
        """As on disk, what lies in other lists is another record."""
        for filed in (one for batch in batches for one in filed_publications(batch, self.scheduler.now_s)):
            assert isinstance(filed.record, StoredPublication)
            part = kept_batch(filed.record)
            self.kept[_place_of(part)] = self.ever_kept[_place_of(part)] = part

    def _keep_previous(self, changes: ChainChanges) -> None:
        if changes.is_cleared:
            self.previous.clear()
        for topic, chain in changes.chains.items():
            if chain is None:
                self.previous.pop(topic, None)
            else:
                self.previous[topic] = chain

    def _read_kept(self, after: Cursor | None, reader: int) -> None:
        """A few at a time, in the order of their keys."""
        begin = ("", 0, 0) if after is None else (after.database, *map(int, after.key.split()))
        keys = sorted(key for key in self.kept if key > begin)
        some, more = keys[: self._pieces], keys[self._pieces :]
        after = Cursor(some[-1][0], b"%d %d" % some[-1][1:]) if more else None
        self.perform(self.core.scaling.on_kept_read([self.kept[key] for key in some], after, reader))

    def _search(self, question: messages.FindPublications) -> list[Kept]:
        judge = Judge(question.record)
        others = [Judge(record) for record in question.without]
        return [
            Kept(batch.published_s, batch.origin, batch.sequence, place, content, batch.previous)
            for batch in self.kept.values()
            if question.from_s <= batch.published_s < question.until_s
            for place, content in zip(batch.places, batch.contents, strict=True)
            if judge.accepts(Seen(read_publication(content), None))
            and not any(
                other.was_given(batch.published_s) and other.accepts(Seen(read_publication(content), None))
                for other in others
            )
        ]


def _place_of(batch: messages.KeptBatch) -> Place:
    return batch.origin, batch.sequence, batch.places[0]


def _nobody_waits_for(effect: Any) -> bool:
    match effect:
        case StoreState() | Forget() | WhenForgotten() | ExpectForeign(False) | Erase(_, None):
            return True
        case KeepForeign() | RemoveKept() | ReadKept(None):
            return True
        case _:
            return False


def _ids_of(effect: Any) -> list[str]:
    """Whose records it changes."""
    match effect:
        case Store(record):
            return [record.id]
        case Erase(ids) | Forget(ids):
            return ids
        case StoreState(records, _, removed):
            return [*(record.id for record in records), *removed]
        case _:
            return []
