"""What is remembered for `prev`, in a scaling: what this matcher hands over (`handing_previous.py`), and what it gets
(`taking_previous.py`). And behind it, until everything is merged and on disk.

Invariants: what is sent as the last is what was remembered when this matcher had answered the old epoch for the last
time; the last part of another matcher is acknowledged when all that it handed over is merged and on disk; where no
subscription looks back, nobody waits for anything.
"""

from braid.matching.index import MatchIndex
from braid.matching.previous import ChainChanges
from braid.messages import HandOverPrevious, PreviousHandedOver, Send
from braid.selector import Selector
from services.matcher.effects import Continue, Effects, StorePrevious
from services.matcher.handing_previous import HandingPrevious
from services.matcher.taking_previous import TakingPrevious

_MERGED_AT_ONCE = 200  # topics


class MovingPrevious:
    def __init__(self, name: str, index: MatchIndex) -> None:
        self._name = name
        self._index = index
        self._epoch = 0
        self._handing: HandingPrevious | None = None
        self._taking: TakingPrevious | None = None
        self._is_cut = False  # all that this matcher may have seen of the old epoch it has
        self._is_merging = False
        self._forgotten = 0  # topics that others handed over, in scalings before this one

    # What there is

    @property
    def is_copied(self) -> bool:
        """Everybody has nearly everything."""
        return self._handing is None or self._handing.is_copied

    @property
    def is_gone(self) -> bool:
        """Everybody has stored everything."""
        return self._handing is None or self._handing.is_done

    @property
    def is_awaited(self) -> bool:
        """Whether a request of the new epoch may find that the publication before it is missing here."""
        return self._taking is not None and self._taking.is_awaited and self._index.looks_back

    @property
    def is_in_a_hurry(self) -> bool:
        """Others wait for it, and publications for them."""
        return self._handing is not None and self._handing.is_finishing and not self._handing.is_done

    @property
    def forgotten(self) -> int:
        """Topics that others handed over and for which there was no room."""
        return self._forgotten + (0 if self._taking is None else self._taking.forgotten)

    # The way of a scaling

    def begin(self, old: Selector, new: Selector) -> None:
        """Whoever calls it goes on soon. Where only other layers change, every subscription stays, and finds what it
        looks back to.
        """
        self.stop(is_over=False)
        self._epoch = new.epoch
        if new.places_like(old):
            return
        if self._name in new.matchers:
            self._taking = TakingPrevious(name for name in old.matchers if name != self._name)
        if self._name in old.matchers:
            receivers = [name for name in new.matchers if name != self._name]
            previous = self._index.previous
            self._handing = HandingPrevious(new.epoch, receivers, previous.topics(), previous.chain_of)

    def begin_pass(self) -> Effects:
        """What has changed since the last one goes to the others."""
        if self._handing is None:
            return []
        self._handing.begin_pass()
        return [Continue()] if self._handing.wants_to_go_on else []

    def finish(self) -> Effects:
        """This matcher answers the old epoch no more."""
        if self._handing is None or self._handing.is_finishing:
            return []
        self._handing.finish()
        return self._send()

    def on_cut(self) -> Effects:
        """Nor does anything of it come."""
        self._is_cut = True
        return self._release()

    def give_up_waiting(self) -> Effects:
        """Requests have waited for too long. What comes later is merged nevertheless."""
        if self._taking is None:
            return []
        self._taking.give_up()
        return self._release()

    def stop(self, *, is_over: bool) -> Effects:
        """The scaling has ended, or was given up: then what was handed over is dropped."""
        taking, self._taking, self._handing, self._is_cut = self._taking, None, None, False
        if taking is None:
            return []
        self._forgotten += taking.forgotten
        return self._merge(taking.release(also_parts=True)) if is_over else []

    # What changes, comes and goes

    def take_changes(self) -> ChainChanges | None:
        """What is to be written."""
        changes = self._index.previous.take_changes()
        if changes is not None and self._handing is not None:
            if changes.is_cleared:
                self._handing.on_cleared()
            self._handing.on_changed(changes.chains)
        return changes

    def go_on(self) -> Effects:
        effects = [] if self._handing is None else self._send()
        if self._is_merging:
            self._is_merging = self._index.previous.merge_some(_MERGED_AT_ONCE)
            taken = {} if self._is_merging or self._taking is None else self._taking.take_acknowledgements()
            changes = self.take_changes()
            if changes is not None or taken:
                effects.append(StorePrevious(0, changes or ChainChanges({}), taken, self._epoch))
            if self._is_merging:
                effects.append(Continue())
        return effects

    def on_hand_over(self, matcher: str, message: HandOverPrevious) -> Effects:
        if self._taking is None:
            return [Send(matcher, [PreviousHandedOver(message.epoch, message.number)])]  # nobody will look at it
        self._taking.take(matcher, message)
        if message.is_last:
            return self._release()
        return [Send(matcher, [PreviousHandedOver(message.epoch, message.number)])]

    def on_handed_over(self, matcher: str, message: PreviousHandedOver) -> Effects:
        if self._handing is None or message.epoch != self._epoch:
            return []
        self._handing.on_handed_over(matcher, message.number)
        return self._send()

    def on_receiver_up(self, matcher: str) -> Effects:
        if self._handing is None:
            return []
        self._handing.on_receiver_up(matcher)
        return self._send()

    def _send(self) -> Effects:
        assert self._handing is not None
        effects: Effects = [*self._handing.go_on()]
        if self._handing.wants_to_go_on:
            effects.append(Continue())
        return effects

    def _release(self) -> Effects:
        taking = self._taking
        if taking is None or not self._is_cut or taking.is_awaited:
            return []
        return self._merge(taking.release())

    def _merge(self, handed: list[dict[str, bytes]]) -> Effects:
        if not handed:
            return []
        if self._index.looks_back:
            for chains in handed:
                self._index.previous.hand_over(chains)
        self._is_merging = True
        return [Continue()]
