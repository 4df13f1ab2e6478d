"""From notifications to streams: which subscription belongs to which stream, and who had what already."""

from collections import deque
from collections.abc import Iterable, Set

from braid.client.delivered import Delivered
from braid.client.effects import Deliver, Effect
from braid.client.frames import Notification

EARLY_NOTIFICATIONS_MAX = 1_000


class Routing:
    def __init__(self, delivered_window: int) -> None:
        self._stream_of: dict[str, int] = {}  # subscription id -> stream
        self._listeners: list[int] = []  # streams that take everything of the subscriber
        self._delivered = Delivered(delivered_window)
        # A notification may overtake the answer that tells its subscription's id.
        self._early: deque[Notification] = deque(maxlen=EARLY_NOTIFICATIONS_MAX)

    @property
    def ids(self) -> Set[str]:
        return self._stream_of.keys()

    def add_listener(self, stream: int) -> None:
        self._listeners.append(stream)

    def remove_listener(self, stream: int) -> bool:
        """Whether it was one."""
        if stream not in self._listeners:
            return False
        self._listeners.remove(stream)
        return True

    def add(self, id: str, stream: int) -> list[Effect]:
        """Delivers what came for this subscription before its id was known."""
        self._stream_of[id] = stream
        return [
            effect
            for notification in self._early
            if id in notification.subscriptions
            for effect in self._deliver(notification, [stream])
        ]

    def remove(self, ids: Iterable[str]) -> None:
        for id in ids:
            self._stream_of.pop(id, None)

    def route(self, notifications: list[Notification], *, keep_unknown: bool) -> list[Effect]:
        """`keep_unknown` while the ids of some subscriptions are still to be told."""
        effects: list[Effect] = []
        for notification in notifications:
            streams = [self._stream_of[id] for id in notification.subscriptions if id in self._stream_of]
            if keep_unknown and len(streams) < len(notification.subscriptions):
                self._early.append(notification)
            effects += self._deliver(notification, [*dict.fromkeys(streams), *self._listeners])
        return effects

    def forget_early(self) -> None:
        self._early.clear()

    def _deliver(self, notification: Notification, streams: list[int]) -> list[Effect]:
        fresh = self._delivered.first_time(notification.publication.id, streams)
        return [Deliver(stream, notification) for stream in fresh]
