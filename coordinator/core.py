"""What the leading coordinator decides. Pure: events in, effects out; the time comes with each event.

Purpose: write the first configuration when as many slices as desired are there, and lead from one configuration to
the next when a scaling is asked for. The number of matchers is part of where subscriptions are placed, so a
configuration that exists is changed by a scaling only, whatever the settings say.

States
    standby     another coordinator leads, or the connection is lost
    reading     what stands in ZooKeeper is not known
    waiting     there is no configuration; waits for the desired slices
    idle        a configuration is in force, and no scaling runs
    gathering   a scaling was asked for; waits until every slice of it is registered
    copying, moving, changing, flushing, ending
                the phases of a change, as they stand in ZooKeeper; `coordinator.scaling` decides how they end

Invariants: a state is entered when it is known to stand in ZooKeeper, not when its write is sent; effects that touch
ZooKeeper come only while leading, one at a time, and while one is under way news is noted but nothing is decided; a
configuration is written only over the version that was read; after a write whose end is not known everything is read
again. Who follows a scaling may be told of it late, so a request is never believed but read. The time of a stage is
taken from when this coordinator first saw it since its election, and so is the time since a matcher went missing: one
that leads again waits as long as a new one.
"""

import enum
from collections.abc import Mapping

from braid.config import Slices
from braid.coordination_events import Deposed, Elected, ReportsChanged, ScalingChanged, SlicesChanged
from braid.machine import IllegalEvent, Machine, Transition, in_each
from braid.scaling import ScalingRecord
from braid.topology import Registration
from coordinator.desired import await_first, compare, desired_numbers
from coordinator.events import (
    Answer,
    AttemptFailed,
    ConfigurationRead,
    ConfigurationWritten,
    Effects,
    Event,
    Inform,
    ReadConfiguration,
    RecordWritten,
    Sweep,
    Tick,
    WriteConfiguration,
    WriteRecord,
)
from coordinator.scaling import DECISIONS, Deadlines, Known, Wait, Write
from coordinator.standing import Standing

REMIND_S = 10.0  # how often a wait is mentioned
RETRY_S = 0.3


class State(enum.Enum):
    STANDBY = "standby"
    READING = "reading"
    WAITING = "waiting"
    IDLE = "idle"
    GATHERING = "gathering"
    COPYING = "copying"
    MOVING = "moving"
    CHANGING = "changing"
    FLUSHING = "flushing"
    ENDING = "ending"


class Coordinator:
    """One per process; decides only while it leads."""

    def __init__(self, desired: Slices, deadlines: Deadlines | None = None) -> None:
        self.state = State.STANDBY
        self._desired = desired_numbers(desired)
        self._deadlines = deadlines or Deadlines()
        self._slices: Mapping[str, Registration] | None = None  # None: nobody told yet
        self._standing = Standing()
        self._attempt = 0  # counts reads and writes; an answer to an earlier one says nothing any more
        self._writing: Write | None = None  # what is under way
        self._read_at: float | None = None  # a failed attempt is repeated then
        self._asked = False  # another record than ours was seen since the last read began
        self._stage: tuple[str, State] | None = None  # the scaling and the state whose time is taken
        self._stage_since = 0.0
        self._absent_since: dict[str, float] = {}  # matchers of the scaling that are not registered
        self._remind_at = 0.0
        self._told_epoch: int | None = None  # since the election

    @property
    def is_scaling(self) -> bool:
        """Whether time matters: somebody waits for every step."""
        return self.state is not State.STANDBY and self._standing.scaling_id is not None

    def on_event(self, event: Event, now: float, clock_s: float = 0.0) -> Effects:
        """`now` only grows and is compared; `clock_s`, seconds since 1970, only goes into records."""
        if isinstance(event, Answer) and event.attempt < self._attempt:
            return []
        return MACHINE.step(self, event, now, clock_s)

    def on_elected(self, _event: Elected, _now: float, _clock_s: float) -> Effects:
        self._told_epoch = None
        return [Inform("leading", {}), self._read()]

    def on_deposed(self, _event: Deposed, _now: float, _clock_s: float) -> Effects:
        # Nobody can report while ZooKeeper is away, so the time of a stage begins anew when this one leads again.
        self.state, self._read_at, self._writing, self._stage = State.STANDBY, None, None, None
        self._attempt += 1
        return [Inform("no longer leading", {})]

    def on_slices_changed(self, event: SlicesChanged, now: float, clock_s: float) -> Effects:
        self._slices = event.slices
        return self._advance(now, clock_s)

    def on_reports_changed(self, event: ReportsChanged, now: float, clock_s: float) -> Effects:
        # Before it is read which change runs, those of any may be the ones that will be needed.
        if event.change == self._standing.scaling_id or self.state in (State.STANDBY, State.READING):
            self._standing.note_reports(event.change, event.reports)
        return self._advance(now, clock_s)

    def on_scaling_changed(self, event: ScalingChanged, _now: float, _clock_s: float) -> Effects:
        ours = self._standing.record
        if event.record is not None and (ours is None or event.record.id != ours.id):
            self._asked = True
        return [self._read()] if self._asked and self.state is State.IDLE else []

    def on_configuration_read(self, event: ConfigurationRead, now: float, clock_s: float) -> Effects:
        self._standing.note_read(event)
        if event.record is not None:
            self._asked = False  # there is only one at a time, so it was this one, or one that is gone
        return self._stand(now, clock_s, [])

    def on_configuration_written(self, event: ConfigurationWritten, now: float, clock_s: float) -> Effects:
        written, before = self._take_written(event), self._standing.configuration
        self._standing.configuration, self._standing.version = event.configuration, event.version
        effects: Effects = []
        if written.record is not None:
            effects = self._note_record(written.record)
        elif before is not None and before.change is not None and event.configuration.change is None:
            # Somebody removed the record while the change went on; another one may stand in its place.
            self._asked, self._standing.record = self._standing.record is not None, None
            effects = [Inform("scaling ended without its record", {"id": before.change.id}, warning=True), Sweep(None)]
        return self._stand(now, clock_s, effects)

    def on_record_written(self, event: RecordWritten, now: float, clock_s: float) -> Effects:
        self._take_written(event)
        return self._stand(now, clock_s, self._note_record(event.record))

    def on_attempt_failed(self, event: AttemptFailed, now: float, _clock_s: float) -> Effects:
        if self.state is not State.READING:
            self._take_written(event)
        self.state, self._read_at = State.READING, now + RETRY_S
        return [Inform("will read the configuration again", {"reason": event.reason}, warning=True)]

    def on_tick(self, _event: Tick, now: float, clock_s: float) -> Effects:
        if self._read_at is not None and now >= self._read_at:
            return [self._read()]
        if self._asked and self.state is State.IDLE:
            return [self._read()]
        return self._advance(now, clock_s)

    def _read(self) -> ReadConfiguration:
        self.state, self._read_at, self._asked = State.READING, None, False
        self._attempt += 1
        return ReadConfiguration(self._attempt)

    def _stand(self, now: float, clock_s: float, effects: Effects) -> Effects:
        """Takes the state that belongs to what stands in ZooKeeper, and goes on from there."""
        configuration, id = self._standing.configuration, self._standing.scaling_id
        if configuration is None:
            self.state, self._remind_at = State.WAITING, now
            return effects + self._advance(now, clock_s)
        in_force = configuration.in_force()
        if in_force.epoch != self._told_epoch:
            effects = [*effects, Inform("configuration in force", {"epoch": in_force.epoch})]
            if self._told_epoch is None:
                effects += [*compare(self._desired, in_force), Sweep(id)]
            self._told_epoch = in_force.epoch
        if id is None:
            self.state, self._stage = State.IDLE, None
            return effects
        self.state = State(configuration.change.phase) if configuration.change is not None else State.GATHERING
        if self._stage != (id, self.state):
            self._stage, self._stage_since, self._remind_at = (id, self.state), now, now + REMIND_S
            effects = [*effects, Inform("scaling", {"id": id, "phase": self.state.value})]
        return effects + self._advance(now, clock_s)

    def _advance(self, now: float, clock_s: float) -> Effects:
        """Decides what is to be written next, unless something is under way already."""
        if self._writing is not None:
            return []
        if self.state is State.WAITING:
            decision = await_first(self._desired, self._slices or {})
        elif self.state in _SCALING and self._slices is not None:
            decision = DECISIONS[self.state.value](self._known(self._slices, now, clock_s))
        else:
            return []
        if isinstance(decision, Wait):
            return self._remind(decision, now)
        self._writing = decision
        self._attempt += 1
        if decision.configuration is None:
            assert decision.record is not None, "something is to be written"
            return [*decision.informs, WriteRecord(self._attempt, decision.record)]
        assert self._standing.version is not None, "what is written over was read"
        version = self._standing.version
        effect = WriteConfiguration(self._attempt, decision.configuration, version, decision.record)
        return [*decision.informs, effect]

    def _known(self, slices: Mapping[str, Registration], now: float, clock_s: float) -> Known:
        standing, waited_s = self._standing, now - self._stage_since
        configuration = standing.configuration
        assert configuration is not None, "a scaling changes a configuration"
        absent = [name for name in configuration.union("matcher") if name not in slices]
        self._absent_since = {name: self._absent_since.get(name, now) for name in absent}
        absent_s = {name: min(now - since, waited_s) for name, since in self._absent_since.items()}
        return Known(
            configuration,
            standing.record_of_scaling,
            slices,
            standing.reports,
            waited_s,
            absent_s,
            clock_s,
            self._deadlines,
            standing.map,
        )

    def _take_written(self, answer: Answer) -> Write:
        if self._writing is None:
            raise IllegalEvent(f"{answer} while nothing is under way")
        written, self._writing = self._writing, None
        return written

    def _note_record(self, record: ScalingRecord) -> Effects:
        if record.state == "running":
            self._standing.record = record
            return []
        self._standing.record = None
        if record.state == "aborted":
            return [Inform("scaling aborted", {"id": record.id, "reason": record.reason}, warning=True), Sweep(None)]
        return [Inform("scaling done", {"id": record.id, "epoch": record.epoch, "moved": record.moved}), Sweep(None)]

    def _remind(self, wait: Wait, now: float) -> Effects:
        if now < self._remind_at:
            return []
        self._remind_at = now + REMIND_S
        if self.state is State.WAITING:
            return [Inform("waiting for slices", {"missing": wait.missing})]
        return [Inform("the scaling waits", {"phase": self.state.value, "missing": wait.missing})]


_SCALING = tuple(State(stage) for stage in DECISIONS)
_WRITING = (State.WAITING, *_SCALING)
_LEADING = (State.READING, State.IDLE, *_WRITING)


def _when_written(state: State, next_states: tuple[State, ...], does: str) -> Transition[State, Effects]:
    return Transition(state, ConfigurationWritten, next_states, does, Coordinator.on_configuration_written)


# Everything that may happen; what is not listed is a mistake.
MACHINE: Machine[State, Effects] = Machine(
    State.STANDBY,
    [
        Transition(State.STANDBY, Elected, (State.READING,), "reads", Coordinator.on_elected),
        *in_each(_LEADING, Deposed, (State.STANDBY,), "forgets what is under way", Coordinator.on_deposed),
        Transition(
            State.READING,
            ConfigurationRead,
            (State.WAITING, State.IDLE, *_SCALING),
            "goes on where it stands",
            Coordinator.on_configuration_read,
        ),
        Transition(State.READING, AttemptFailed, (), "reads again after a pause", Coordinator.on_attempt_failed),
        *in_each(_WRITING, AttemptFailed, (State.READING,), "reads after a pause", Coordinator.on_attempt_failed),
        _when_written(State.WAITING, (State.IDLE, State.GATHERING), "as many slices as desired were registered"),
        Transition(
            State.GATHERING,
            RecordWritten,
            (State.GATHERING, State.IDLE),
            "says what is to be started, or that it is refused, given up or done already",
            Coordinator.on_record_written,
        ),
        _when_written(State.GATHERING, (State.COPYING,), "every slice was registered"),
        _when_written(State.COPYING, (State.MOVING, State.IDLE), "nearly all was copied, or somebody died and it ends"),
        _when_written(State.MOVING, (State.CHANGING, State.IDLE), "all state was stored, or somebody died and it ends"),
        _when_written(State.CHANGING, (State.FLUSHING,), "exit points and matchers had switched"),
        _when_written(State.FLUSHING, (State.ENDING,), "access points had sent what they held"),
        _when_written(State.ENDING, (State.IDLE,), "matchers and slices that leave had drained"),
        Transition(
            State.IDLE,
            ScalingChanged,
            (State.IDLE, State.READING),
            "reads what is asked for",
            Coordinator.on_scaling_changed,
        ),
        Transition(State.IDLE, Tick, (State.IDLE, State.READING), "reads what is asked for", Coordinator.on_tick),
        *in_each((State.STANDBY, State.READING, *_WRITING), Tick, (), "looks at deadlines", Coordinator.on_tick),
        *in_each(
            (State.STANDBY, State.READING, *_WRITING), ScalingChanged, (), "notes it", Coordinator.on_scaling_changed
        ),
        *in_each(State, SlicesChanged, (), "writes what may follow now", Coordinator.on_slices_changed),
        *in_each(State, ReportsChanged, (), "writes what may follow now", Coordinator.on_reports_changed),
    ],
)
