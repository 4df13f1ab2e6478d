"""The states of a matcher in a scaling, and what leads from one to the next.

States
    serving   no scaling, or it is over here
    copying   a scaling is under way; what others keep from now on is sent to them, and changes behind it
    copied    nearly all of it is there, here and where it was sent; changes go on
    starting  some old access point may still send subscriptions of the old epoch
    sending   none comes any more: the last changes are on their way, here and there
    ready     all of it is there and on disk, here and where it was sent; both epochs can be answered
    changed   every access point has passed the cut
    ended     nobody speaks of the old epoch any more, and what others look back to is theirs
"""

import enum

import msgspec

from braid.messages import AddMatcherState, ChangeMatcherOnExitPoint, HandOverPrevious


class State(enum.Enum):
    SERVING = "serving"
    COPYING = "copying"
    COPIED = "copied"
    STARTING = "starting"
    SENDING = "sending"
    READY = "ready"
    CHANGED = "changed"
    ENDED = "ended"


class AllCopied(msgspec.Struct, frozen=True):
    """Everything but a few changes was stored, of what was sent and of what was to come."""


class AllStarted(msgspec.Struct, frozen=True):
    """`StartScale` of every old access point is there."""


class AllStateThere(msgspec.Struct, frozen=True):
    """Everything sent is stored, everything expected has arrived and is stored."""


class AllCut(msgspec.Struct, frozen=True):
    """`ExitPointScaling` and `ChangeMatcher` of every access point are there."""


class AllEnded(msgspec.Struct, frozen=True):
    """`ScaleEnd` of every access point is there."""


class Heard(msgspec.Struct):
    """Who has said what about one new epoch, perhaps before ZooKeeper told us of it.

    A sender repeats what is under way whenever a link is new. Two matchers may have a link each to the other, so that a
    new link says nothing of what came over the one before: everything is kept, but once.
    """

    started: set[str] = msgspec.field(default_factory=set)
    exit_cut: set[str] = msgspec.field(default_factory=set)
    cut: set[str] = msgspec.field(default_factory=set)
    ended: set[str] = msgspec.field(default_factory=set)
    cuts_for_exit_points: dict[str, ChangeMatcherOnExitPoint] = msgspec.field(default_factory=dict)
    # Until we know what they are, by sender and number:
    chunks: dict[tuple[str, int], AddMatcherState] = msgspec.field(default_factory=dict)
    previous: dict[tuple[str, int], HandOverPrevious] = msgspec.field(default_factory=dict)

    def keep_chunk(self, matcher: str, chunk: AddMatcherState) -> None:
        self.chunks[matcher, chunk.chunk] = chunk

    def keep_previous(self, matcher: str, part: HandOverPrevious) -> None:
        for sender, number in list(self.previous):
            if sender == matcher and number < part.first:
                del self.previous[sender, number]  # the sender has begun anew since
        self.previous[matcher, part.number] = part
