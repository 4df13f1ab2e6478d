"""The exit point: collects the partials of each batch, merges them, and sees to it that they arrive.

A batch's way here, per (origin, sequence):

    gathering ──all partials──▶ held ──its publisher's previous one released──▶ released ──all received──▶ done

Invariants:
- Notifications of one publisher are released in the order it published, although partials complete in any order:
  a batch whose `previous` is neither released nor below the watermark is held.
- A batch is confirmed to its origin once, and only when every connection point concerned has received it
  or is gone; a repetition of a done one is answered with the confirmation again and delivered to nobody.
- A connection point that crashed is gone for those of its subscriptions that are delivered over connections. For those
  with an address it is waited for (`away.py`).
- Memory is bounded by the windows of the origins: `done` is pruned by the watermark that every message carries.
"""

from collections.abc import Callable, Collection
from typing import Literal

import msgspec

from braid.messages import Confirmed, ConfirmedElsewhere, Hop, Match, Notifications, Partial, Received, Send
from braid.seen import SeenSequences
from braid.source_logs import is_source
from braid.standing_in import owner_of
from services.exitpoint.away import Away, addressed_only
from services.exitpoint.scaling import ExitPointScaling

_ATTEMPTS_MAX = 8  # of one batch, the latest; before there are more of them, each had minutes


class Attempt(msgspec.Struct):
    """What came of one time that a batch was sent. Sent again, it may match what was subscribed to meanwhile."""

    heard: set[str] = msgspec.field(default_factory=set)  # matchers whose partial is in
    matched: dict[str, list[Match]] = msgspec.field(default_factory=dict)  # by connection point


class Gather(msgspec.Struct):
    """One batch on its way through this exit point."""

    epoch: int
    previous: int
    publisher: int
    since_s: float
    state: Literal["gathering", "held", "released"] = "gathering"
    attempts: dict[int, Attempt] = msgspec.field(default_factory=dict)  # while it is gathering
    matched: dict[str, list[Match]] = msgspec.field(default_factory=dict)  # by connection point, when it is whole
    awaiting: set[str] = msgspec.field(default_factory=set)  # connection points that have not received it yet
    hops: list[Hop] | None = None


class Origin:
    """What is known of one incarnation of a connection point that accepts publications, or of a partition of Kafka."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.log = name.rpartition(".")[0]  # a connection point, or a log that one of them sees to
        self.gathers: dict[int, Gather] = {}
        self.done = SeenSequences()
        self.successors: dict[int, list[int]] = {}  # held batches by the one they wait for
        self.heard_s = 0.0


class ExitPointCore:
    def __init__(
        self,
        name: str,
        clock_ns: Callable[[], int],
        gathers_max: int,
        gather_s_max: float,
        away_s_max: float = 60.0,
    ) -> None:
        self._name = name
        self._clock_ns = clock_ns  # only stamps the hops of traced publications
        self._gathers_max = gathers_max
        self._gather_s_max = gather_s_max
        self._origins: dict[str, Origin] = {}
        self._connpoints: dict[str, int] = {}  # registered connection points and their incarnation
        self._owners: dict[str, str] = {}  # the connection point of each log, as long as the same are registered
        self._away = Away(away_s_max)
        self.scaling = ExitPointScaling(name)
        self.gathers = 0
        self.dropped = 0
        self.undeliverable = 0
        self.stale = 0
        self._outgoing: dict[str, list[Notifications]] = {}
        self._confirmed: dict[str, Confirmed] = {}
        self.on_released: Callable[[Gather], None] | None = None  # for telemetry

    # Data

    def on_partials(self, batch: list[Partial], now_s: float, arrived_ns: int) -> list[Send]:
        for partial in batch:
            origin = self._origin(partial.origin, now_s)
            if partial.watermark > origin.done.watermark:
                self._advance(origin, partial.watermark)
            self.scaling.check(partial)
            self._on_partial(origin, partial, now_s, arrived_ns)
        return self._effects()

    def _origin(self, name: str, now_s: float) -> Origin:
        origin = self._origins.get(name)
        if origin is None:
            origin = self._origins[name] = Origin(name)
        origin.heard_s = now_s
        return origin

    def _on_partial(self, origin: Origin, partial: Partial, now_s: float, arrived_ns: int) -> None:
        sequence = partial.sequence
        if sequence in origin.done:
            self._confirm(origin, sequence, None)
            return
        gather = origin.gathers.get(sequence)
        if gather is None or (gather.state == "gathering" and partial.epoch > gather.epoch):
            if gather is None:
                # What held batches wait for is let in beyond the bound, or they would fill it for ever.
                if self.gathers >= self._gathers_max and sequence not in origin.successors:
                    self.dropped += 1
                    return
                self.gathers += 1
            gather = Gather(partial.epoch, partial.previous, partial.publisher, now_s)
            origin.gathers[sequence] = gather
        elif partial.epoch < gather.epoch:
            self.stale += 1
            return
        if gather.state == "released":
            return
        # Sent again, it may no longer have to wait: what came before has been confirmed meanwhile.
        gather.previous = min(gather.previous, partial.previous)
        # A held batch is complete: what a newer epoch or a later attempt says of it is in it already.
        if gather.state == "gathering" and not self._is_gathered(gather, partial, arrived_ns):
            return
        self._release_in_order(origin, sequence, gather)

    def _is_gathered(self, gather: Gather, partial: Partial, arrived_ns: int) -> bool:
        """Whether this partial makes one attempt whole, whichever of them is the first."""
        attempt = gather.attempts.get(partial.attempt)
        if attempt is None:
            attempt = gather.attempts[partial.attempt] = Attempt()
            while len(gather.attempts) > _ATTEMPTS_MAX:
                del gather.attempts[min(gather.attempts)]
        if partial.matcher not in attempt.heard:
            attempt.heard.add(partial.matcher)
            for connpoint, matches in partial.matched:
                merged = attempt.matched.get(connpoint)
                attempt.matched[connpoint] = matches if merged is None else _merge(merged, matches)
            if partial.hops is not None:
                gather.hops = [*partial.hops, (self._name, arrived_ns, 0)]
        if not _is_whole(partial, attempt.heard):
            return False
        gather.matched, gather.attempts = attempt.matched, {}
        return True

    def on_received(self, connpoint: str, batch: list[Received]) -> list[Send]:
        for received in batch:
            origin = self._origins.get(received.origin)
            if origin is None:
                continue
            traces = dict(received.traces)
            for sequence in received.sequences:
                gather = origin.gathers.get(sequence)
                if gather is not None and connpoint in gather.awaiting:
                    if sequence in traces:
                        gather.hops = traces[sequence]
                    gather.awaiting.discard(connpoint)
                    if not gather.awaiting:
                        self._finish(origin, sequence, gather)
        return self._effects()

    def on_confirmed_elsewhere(self, batch: list[ConfirmedElsewhere], now_s: float) -> list[Send]:
        """Its publisher came here from another exit point, which is done with these."""
        for message in batch:
            origin = self._origin(message.origin, now_s)  # what waits for these may come behind them
            for done in message.sequences:
                origin.done.add(done)
                gather = origin.gathers.get(done)
                if gather is not None and gather.state != "released":
                    del origin.gathers[done]
                    self.gathers -= 1
                for sequence, waiting in self._successors(origin, done):
                    self._release(origin, sequence, waiting)
        return self._effects()

    # Connection points come and go

    def on_connpoints(self, registered: dict[str, int]) -> list[Send]:
        """The registered connection points by name, with their incarnation."""
        for name, incarnation in list(self._connpoints.items()):
            # An older one is old news: a link of the newer incarnation is here already.
            if name not in registered or registered[name] > incarnation:
                self._forget(name)
        self._connpoints = {name: max(new, self._connpoints.get(name, 0)) for name, new in registered.items()}
        self._owners = {}
        return self._effects()

    def on_connpoint_up(self, connpoint: str, incarnation: int) -> list[Send]:
        """A link is there, perhaps again: what the same incarnation has not received is sent once more."""
        known = self._connpoints.get(connpoint)
        if known is not None and known < incarnation:
            self._forget(connpoint)
        if known is None:
            self._owners = {}
        self._connpoints[connpoint] = max(incarnation, known or 0)
        for origin in self._origins.values():
            for sequence in sorted(origin.gathers):
                gather = origin.gathers[sequence]
                if connpoint in gather.awaiting:
                    self._notify(origin, sequence, gather, connpoint)
        return self._effects()

    def _forget(self, connpoint: str) -> None:
        """Its subscribers are gone with it, so nobody waits for these any more, except for those with an address."""
        for origin in self._origins.values():
            for sequence, gather in list(origin.gathers.items()):
                if connpoint not in gather.awaiting or self._still_awaits(gather, connpoint):
                    continue
                gather.awaiting.discard(connpoint)
                if not gather.awaiting:
                    self._finish(origin, sequence, gather)

    def _still_awaits(self, gather: Gather, connpoint: str) -> bool:
        """Whether the batch waits for a connection point that is not there; only for what it will still want then."""
        matches = gather.matched[connpoint]
        left = addressed_only(matches) if self._away.is_awaited(connpoint) else []
        self.undeliverable += left != matches
        gather.matched[connpoint] = left
        return bool(left)

    def on_tick(self, now_s: float) -> list[Send]:
        """Lets go of what nobody will complete: an origin that lives would have sent it again."""
        for connpoint in self._away.on_tick(now_s, self._connpoints):
            self._forget(connpoint)
        sends = self._effects()  # before the origins that they go to are forgotten
        before_s = now_s - self._gather_s_max
        for name, origin in list(self._origins.items()):
            if origin.heard_s >= before_s:
                continue
            for sequence, gather in list(origin.gathers.items()):
                if gather.state != "released" and gather.since_s < before_s:
                    del origin.gathers[sequence]
                    self.gathers -= 1
                    self.dropped += 1
            if not origin.gathers and not self._is_running(origin):
                del self._origins[name]
        return sends

    def _is_running(self, origin: Origin) -> bool:
        incarnation = self._connpoints.get(origin.log)
        return incarnation is not None and origin.name == f"{origin.log}.{incarnation:x}"

    # Order

    def _release_in_order(self, origin: Origin, sequence: int, gather: Gather) -> None:
        if self._must_wait(origin, gather.previous):
            if gather.state == "gathering":
                gather.state = "held"
            waiting = origin.successors.setdefault(gather.previous, [])
            if sequence not in waiting:
                waiting.append(sequence)
            return
        self._release(origin, sequence, gather)

    def _must_wait(self, origin: Origin, previous: int) -> bool:
        if previous == 0 or previous in origin.done:
            return False
        before = origin.gathers.get(previous)
        return before is None or before.state != "released"

    def _release(self, origin: Origin, sequence: int, gather: Gather) -> None:
        """Sends it to every connection point concerned, then whatever waited for it."""
        ready = [(sequence, gather)]
        while ready:
            sequence, gather = ready.pop()
            gather.state = "released"
            if self.on_released is not None:
                self.on_released(gather)
            for connpoint in gather.matched:
                if connpoint in self._connpoints:
                    gather.awaiting.add(connpoint)
                    self._notify(origin, sequence, gather, connpoint)
                elif self._still_awaits(gather, connpoint):
                    gather.awaiting.add(connpoint)
            if not gather.awaiting:
                self._finish(origin, sequence, gather)
            ready += self._successors(origin, sequence)

    def _successors(self, origin: Origin, sequence: int) -> list[tuple[int, Gather]]:
        waiting = [(after, origin.gathers.get(after)) for after in origin.successors.pop(sequence, ())]
        return [(after, gather) for after, gather in waiting if gather is not None and gather.state == "held"]

    def _advance(self, origin: Origin, watermark: int) -> None:
        before = origin.done.watermark
        origin.done.advance(watermark)
        for previous in _passed(origin.successors, before, watermark):
            for sequence, gather in self._successors(origin, previous):
                self._release(origin, sequence, gather)
        for sequence in _passed(origin.gathers, before, watermark):  # confirmed through another exit point
            del origin.gathers[sequence]
            self.gathers -= 1

    # Effects

    def _notify(self, origin: Origin, sequence: int, gather: Gather, connpoint: str) -> None:
        hops = gather.hops
        if hops is not None and hops[-1][2] == 0:
            hops = [*hops[:-1], (self._name, hops[-1][1], self._clock_ns())]
            gather.hops = hops
        notification = Notifications(
            gather.epoch,
            origin.name,
            sequence,
            origin.done.watermark,
            gather.publisher,
            gather.matched[connpoint],
            hops,
        )
        outgoing = self._outgoing.get(connpoint)
        if outgoing is None:
            self._outgoing[connpoint] = [notification]
        else:
            outgoing.append(notification)

    def _finish(self, origin: Origin, sequence: int, gather: Gather) -> None:
        del origin.gathers[sequence]
        self.gathers -= 1
        origin.done.add(sequence)
        self._confirm(origin, sequence, gather)

    def _confirm(self, origin: Origin, sequence: int, gather: Gather | None) -> None:
        confirmed = self._confirmed.get(origin.name)
        if confirmed is None:
            epoch = gather.epoch if gather is not None else 0
            confirmed = self._confirmed[origin.name] = Confirmed(epoch, origin.name, [], [])
        confirmed.sequences.append(sequence)
        if gather is not None and gather.hops is not None:
            last = gather.hops[-1]
            hops = gather.hops if last[2] else [*gather.hops[:-1], (last[0], last[1], self._clock_ns())]
            confirmed.traces.append((sequence, hops))

    def _effects(self) -> list[Send]:
        """Everything the handler gave rise to, one send for each connection point."""
        sends = [Send(connpoint, messages) for connpoint, messages in self._outgoing.items()]
        for name, confirmed in self._confirmed.items():
            log = self._origins[name].log
            if is_source(log):
                # Who reads it is settled between Kafka and the connection points; whoever does not, ignores this.
                sends += [Send(connpoint, [confirmed]) for connpoint in self._connpoints]
                continue
            owner = self._owner_of(log)
            sends.append(Send(owner, [confirmed]))
            if confirmed.traces:
                sends += self._traces_for_others(owner, confirmed)
        self._outgoing = {}
        self._confirmed = {}
        return sends

    def _owner_of(self, log: str) -> str:
        owner = self._owners.get(log)
        if owner is None:
            owner = self._owners[log] = owner_of(log, self._connpoints)
        return owner

    def _traces_for_others(self, owner: str, confirmed: Confirmed) -> list[Send]:
        """A trace is asked for where the publication was accepted."""
        accepted = [(hops[0][0], (sequence, hops)) for sequence, hops in confirmed.traces]
        return [
            Send(connpoint, [Confirmed(confirmed.epoch, confirmed.origin, [], [trace])])
            for connpoint, trace in accepted
            if connpoint != owner and connpoint in self._connpoints
        ]


def _passed(known: Collection[int], before: int, watermark: int) -> list[int]:
    """Those of the known sequences that a watermark passed, without a look at all of them when it moved a little."""
    if watermark - before < len(known):
        return [sequence for sequence in range(before + 1, watermark + 1) if sequence in known]
    return sorted(sequence for sequence in known if sequence <= watermark)


def _is_whole(partial: Partial, heard: set[str]) -> bool:
    """Whether all have answered that were asked with this one.

    Sent again, a batch may visit other matchers; any time it was sent, those were asked that have to be.
    """
    if partial.asked is None:
        return len(heard) >= partial.partials
    return heard.issuperset(partial.asked)


def _merge(left: list[Match], right: list[Match]) -> list[Match]:
    """The matches of two matchers, in the order of the batch; ids of the same publication come together."""
    by_place = {place: (place, ids, content) for place, ids, content in left}
    for place, ids, content in right:
        known = by_place.get(place)
        by_place[place] = (place, ids if known is None else [*known[1], *ids], content)
    return [by_place[place] for place in sorted(by_place)]
