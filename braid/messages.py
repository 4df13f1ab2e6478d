"""Every message between slices, in the order of a publication's way.

Each message is produced in one place and handled in one place:

| message             | way                               | handler                   |
|---------------------|-----------------------------------|---------------------------|
| Publications        | connpoint → accesspoint           | `on_publications`         |
| MatchRequest        | accesspoint → matcher             | `on_match_requests`       |
| Partial             | matcher → exitpoint               | `on_partials`             |
| Notifications       | exitpoint → connpoint             | `on_notifications`        |
| Received            | connpoint → exitpoint             | `on_received`             |
| Confirmed           | exitpoint → connpoint (origin)    | `on_confirmed`            |
| Subscribe           | connpoint → accesspoint → matcher | `on_subscribe`            |
| Unsubscribe         | connpoint → accesspoint → matcher | `on_unsubscribe`          |
| FindSubscriptions   | connpoint → accesspoint → matcher | `on_find_subscriptions`   |
| SubscriptionStored  | matcher → accesspoint → connpoint | `on_subscription_stored`  |
| SubscriptionRemoved | matcher → accesspoint → connpoint | `on_subscription_removed` |
| SubscriptionsFound  | matcher → accesspoint → connpoint | `on_subscriptions_found`  |
| SubscriptionGone    | matcher → accesspoint → connpoint | `on_subscription_gone`    |
| Explain             | connpoint → accesspoint → matcher | `on_explain`              |
| Explained           | matcher → accesspoint → connpoint | `on_explained`            |
| ConfirmedElsewhere  | connpoint → exitpoint             | `on_confirmed_elsewhere`  |
| FindPublications    | connpoint → accesspoint → matcher | `on_find_publications`    |
| PublicationsFound   | matcher → accesspoint → connpoint | `on_publications_found`   |

While publications are routed by anchors:

| message             | way                               | handler                   |
|---------------------|-----------------------------------|---------------------------|
| Anchors             | matcher → accesspoint             | `on_anchors`              |
| AnchorsKnown        | accesspoint → matcher             | `on_anchors_known`        |

A scaling has messages of its own, see `docs/repartitioning.md`:

| message                  | way                               | handler                           |
|--------------------------|-----------------------------------|-----------------------------------|
| StartScale               | accesspoint → matcher             | `on_start_scale`                  |
| AddMatcherState          | matcher → matcher                 | `on_add_matcher_state`            |
| MatcherStateStored       | matcher → matcher                 | `on_matcher_state_stored`         |
| HandOverPublications     | matcher → matcher                 | `on_hand_over_publications`       |
| PublicationsHandedOver   | matcher → matcher                 | `on_publications_handed_over`     |
| HandOverPrevious         | matcher → matcher                 | `on_hand_over_previous`           |
| PreviousHandedOver       | matcher → matcher                 | `on_previous_handed_over`         |
| ChangeMatcherOnExitPoint | accesspoint → matcher → exitpoint | `on_change_matcher_on_exit_point` |
| ExitPointScaling         | accesspoint → matcher             | `on_exit_point_scaling`           |
| ChangeMatcher            | accesspoint → matcher             | `on_change_matcher`               |
| GoesElsewhere            | connpoint → accesspoint           | `on_goes_elsewhere`               |
| ScaleEnd                 | accesspoint → matcher             | `on_scale_end`                    |

What travels is the batch: publications that one publisher sent together are accepted, logged, sent, merged, ordered
and confirmed together, so that nothing but matching and the client's frames costs anything per publication.

A batch is known by (origin, sequence): the connection point incarnation that accepted it and a number that grows by
one. `watermark` says that every sequence up to it is confirmed, so whoever sees it may forget them. `previous` is the
latest batch of the same publisher that was unconfirmed when this one was sent, or 0.
"""

import math
from typing import Any, Literal

import msgspec

from braid.subscription import SubscriptionRecord

Hop = tuple[str, int, int]  # slice, nanoseconds since 1970 on arrival and on departure
Match = tuple[int, list[str], bytes]  # place in the batch, ids of the subscriptions that matched, content


class Message(msgspec.Struct, array_like=True, gc=False):
    epoch: int


class Publications(Message, tag=1):
    origin: str
    sequence: int
    previous: int
    watermark: int
    publisher: int  # 64-bit hash of the publisher; one publisher's publications stay in order
    published_s: float  # when they were accepted; the same when they are sent again
    contents: list[bytes]
    hops: list[Hop] | None = None  # a list when the batch is traced
    attempt: int = 0  # grows when they are sent again


class MatchRequest(Message, tag=2):
    origin: str
    sequence: int
    previous: int
    watermark: int
    publisher: int
    published_s: float
    partials: int  # how many matchers were asked, so how many partials make the whole
    contents: list[bytes]
    hops: list[Hop] | None = None
    places: list[int] | None = None  # of these contents in the batch, when some of it goes elsewhere
    asked: list[str] | None = None  # which matchers, where not all are; sent again, a batch may visit others
    attempt: int = 0
    whole: int | None = None  # how many publications the batch has, when some of it goes elsewhere


class Partial(Message, tag=3):
    origin: str
    sequence: int
    previous: int
    watermark: int
    publisher: int
    partials: int
    matcher: str
    matched: list[tuple[str, list[Match]]]  # by connection point
    hops: list[Hop] | None = None
    asked: list[str] | None = None
    attempt: int = 0


class Notifications(Message, tag=4):
    """All notifications of one batch for one connection point."""

    origin: str
    sequence: int
    watermark: int
    publisher: int  # a connection point takes the batches of a publisher only in ascending order
    matches: list[Match]
    hops: list[Hop] | None = None


class Received(Message, tag=5):
    """The connection point has these and will not need them again."""

    origin: str
    sequences: list[int]
    traces: list[tuple[int, list[Hop]]] = []


class Confirmed(Message, tag=6):
    """Every connection point concerned has these: the origin may forget them."""

    origin: str
    sequences: list[int]
    traces: list[tuple[int, list[Hop]]] = []


class Subscribe(Message, tag=10):
    """Also changes a subscription: the record replaces the one of the same id."""

    ref: int
    connpoint: str
    record: SubscriptionRecord
    given_from_s: float | None = None  # only this changes, in the record that is there; the infinite: nothing was given


class Unsubscribe(Message, tag=11):
    ref: int
    connpoint: str
    id: str


class FindSubscriptions(Message, tag=12):
    """Of one id, one subscriber or one home; the empty string is no condition. Answered in pages by id."""

    ref: int
    connpoint: str
    id: str = ""
    subscriber: str = ""
    home: str = ""
    after: str = ""
    limit: int = 1000
    asked: int = 1  # how many matchers were asked; the access point writes it
    ended: bool = False  # instead, those distinct ones of the subscriber that have ended and are remembered


class SubscriptionStored(Message, tag=13):
    ref: int
    connpoint: str
    id: str


class SubscriptionRemoved(Message, tag=14):
    ref: int
    connpoint: str
    id: str
    existed: bool


class SubscriptionsFound(Message, tag=15):
    ref: int
    connpoint: str
    matcher: str
    records: list[SubscriptionRecord]
    cursor: str  # ask again with `after` set to it; empty when there is no more
    asked: int = 1  # so many answers of this epoch make the whole


class SubscriptionGone(Message, tag=16):
    """Tells a connection point that it no longer delivers this subscription: it moved, ended, or its window is over."""

    connpoint: str
    id: str


class Explain(Message, tag=17):
    """Which subscriptions match this content now, and why that one does or does not; nothing is published."""

    ref: int
    connpoint: str
    content: bytes  # canonical, as in Publications
    id: str = ""  # of the subscription to explain; empty for none
    limit: int = 1000  # at most so many ids in each answer
    asked: int = 1


class Explained(Message, tag=18):
    ref: int
    connpoint: str
    matcher: str
    ids: list[str]  # of the subscriptions that match, the smallest first
    count: int  # how many match, also beyond the limit
    explanation: bytes = b""  # JSON of `braid.matching.explanation.Explanation`; empty when another matcher keeps it
    asked: int = 1


class ConfirmedElsewhere(Message, tag=19):
    """Another exit point has confirmed these: whatever waits for them need not."""

    origin: str
    sequences: list[int]


class FindPublications(Message, tag=29):
    """Which of the publications that matchers keep does this subscription match?

    It goes through every access point to every matcher, and a matcher looks when it has come through all of them: what
    any of them had sent before is kept then.
    """

    ref: int
    connpoint: str
    record: SubscriptionRecord
    from_s: float  # published from here on, included
    until_s: float  # to here, excluded
    limit: int  # the newest so many in each answer
    without: list[SubscriptionRecord] = []  # what one of these matched in its time is left out
    accesspoints: list[str] = []  # all that must have brought it; the access point writes it
    asked: list[str] = []  # which matchers were, too


class Kept(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A publication that a matcher keeps, known by its place in its batch."""

    published_s: float
    origin: str
    sequence: int
    place: int
    content: bytes
    previous: int = 0  # of its batch
    is_confirmed: bool = False  # its batch is known to be confirmed: it will not be sent again
    expires_s: float = math.inf  # from then on nobody is given it any more


class BatchUnderWay(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A batch that a matcher keeps something of, and does not know to be confirmed."""

    previous: int
    published_s: float
    whole: int  # how many publications it has
    places: list[int] | None = None  # of those that are kept here; nothing: all of them are


class UnderWay(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Those batches of one origin."""

    watermark: int  # up to here they are confirmed
    batches: dict[int, BatchUnderWay]  # by sequence


class PublicationsFound(Message, tag=30):
    ref: int
    connpoint: str
    matcher: str
    found: list[Kept]  # the newest first
    under_way: dict[str, UnderWay]  # by origin
    reached_s: float | None  # everything published later than that was looked at; nothing: everything at all
    asked: list[str] = []  # the answers of all of these make the whole, when they were asked with the same others


class StartScale(Message, tag=20):
    """Behind this, no subscription of the old epoch comes from this access point. `epoch` is the new one."""


class Calls(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The latest calls about one subscription."""

    latest: str  # the connection point whose call was done last
    refs: dict[str, int]  # by connection point, its last call that was done


class AddMatcherState(Message, tag=21):
    """What the receiver keeps from the new epoch on, as it is now: a later chunk may say otherwise of the same ids."""

    chunk: int  # counted from 1 for each receiver
    records: list[SubscriptionRecord]
    removed: list[str]  # ids
    calls: dict[str, Calls]  # by id, also of subscriptions that were removed
    ends: Literal["", "copy", "state"]  # with this chunk everything was sent once; with this one, nothing will follow


class MatcherStateStored(Message, tag=22):
    """The chunk is on disk: the sender may send another one."""

    chunk: int


class KeptBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one matcher keeps of a batch of publications."""

    origin: str
    sequence: int
    previous: int
    published_s: float
    places: list[int]  # in the batch
    contents: list[bytes]
    expires_s: float = math.inf  # of all of it, once it was stored; until then each or the retention says it


class HandOverPublications(Message, tag=31):
    """What the sender has kept and the receiver keeps from now on, in this epoch."""

    number: int  # counted from 1 for each receiver
    batches: list[KeptBatch]
    ended: list[SubscriptionRecord] = []  # distinct ones that have ended and are remembered


class PublicationsHandedOver(Message, tag=32):
    """They are on disk: the sender may send more."""

    number: int


class HandOverPrevious(Message, tag=33):
    """What the sender remembers for `prev`, for subscriptions that the receiver has from this epoch on."""

    number: int  # counted from 1 for each receiver
    first: int  # the part that everything begins with which the receiver must have; a new link begins anew
    chains: dict[str, bytes]  # by topic (`braid.matching.chains`), in the place of what the sender said of it before
    is_last: bool  # the sender answers the old epoch no more


class PreviousHandedOver(Message, tag=34):
    """The sender may send more; of the last one: everything is merged and on disk."""

    number: int


class ChangeMatcherOnExitPoint(Message, tag=23):
    """Behind this, that many matchers answer a request that came through this access point."""

    accesspoint: str
    matchers: int


class ExitPointScaling(Message, tag=24):
    """Behind this, requests of this access point go to the new exit points."""


class ChangeMatcher(Message, tag=25):
    """Behind this, everything from this access point is of the new epoch."""


class GoesElsewhere(Message, tag=35):
    """To an access point that leaves: behind this come no publications and no calls of this connection point."""


class ScaleEnd(Message, tag=26):
    """Nobody speaks of the old epoch any more."""


class Anchors(Message, tag=27):
    """The next part of what the access point must know of the sender's anchors (`braid.anchors`). `epoch` is 0."""

    part: int  # counted for each receiver
    begins: bool  # a new list; what was said before does not count
    is_whole: bool  # with this part, or one before it, the whole list is there
    added: list[str]
    removed: list[str]


class AnchorsKnown(Message, tag=28):
    """From now on publications are routed by this part too."""

    part: int


AnyMessage = (
    Publications
    | MatchRequest
    | Partial
    | Notifications
    | Received
    | Confirmed
    | Subscribe
    | Unsubscribe
    | FindSubscriptions
    | SubscriptionStored
    | SubscriptionRemoved
    | SubscriptionsFound
    | SubscriptionGone
    | Explain
    | Explained
    | ConfirmedElsewhere
    | FindPublications
    | PublicationsFound
    | StartScale
    | AddMatcherState
    | MatcherStateStored
    | HandOverPublications
    | PublicationsHandedOver
    | HandOverPrevious
    | PreviousHandedOver
    | ChangeMatcherOnExitPoint
    | ExitPointScaling
    | ChangeMatcher
    | GoesElsewhere
    | ScaleEnd
    | Anchors
    | AnchorsKnown
)


class Send(msgspec.Struct, frozen=True, gc=False):
    """The effect all cores share: these messages, in this order, to that slice.

    Ordering duty: sends of one handler call to the same slice are written in the order they were returned.
    """

    to: str
    messages: list[Any]
