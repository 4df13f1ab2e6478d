"""What waits for one subscriber, and what it may ask for again.

    attached ──connection gone──▶ away ──linger time over──▶ dormant
        ▲                          │                            │
        └───────── attaches again ─┴────────────────────────────┘

Bounds: while attached, too much waiting is the subscriber's fault: it is disconnected, or loses the oldest, as the
policy says. While away it loses the oldest, while dormant everything. What was lost is told when it attaches again.
"""

from collections import deque
from typing import Literal

from braid.config import Delivery
from services.connpoint.door import Item

_REPLAY_BYTES_MAX = 1024 * 1024
_DIGITS_MAX = 18  # of a number in an event id


class Outbox:
    def __init__(self, subscriber: str, incarnation: str, settings: Delivery, temporary: bool) -> None:
        self.subscriber = subscriber
        self.temporary = temporary
        self.attached = False
        self.dormant = False
        self.away_since_s = 0.0
        self.lost = 0  # dropped from the waiting ones since it was last told
        self._incarnation = incarnation
        self._settings = settings
        self._waiting: deque[Item] = deque()
        self._waiting_bytes = 0
        self._sent: deque[Item] = deque()
        self._sent_bytes = 0
        self._next_number = 1
        self._taken = 0  # the number of the item that was taken last

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, payloads: list[bytes]) -> Literal["kept", "dropped", "slow"]:
        """Adds notifications; "slow" means that the policy ends the connection, and the oldest were dropped."""
        if self.dormant:
            self.lost += len(payloads)
            self._next_number += len(payloads)
            return "dropped"
        number = self._next_number
        waiting = self._waiting
        for payload in payloads:
            waiting.append(Item(number, payload))
            number += 1
            self._waiting_bytes += len(payload)
        self._next_number = number
        if (
            len(waiting) <= self._settings.outbox_notifications_max
            and self._waiting_bytes <= self._settings.outbox_bytes_max
        ):
            return "kept"
        self.drop_oldest()
        return "slow" if self.attached and self._settings.slow_subscriber == "disconnect" else "dropped"

    def drop_oldest(self) -> None:
        """Back below the bounds."""
        waiting = self._waiting
        while waiting and (
            len(waiting) > self._settings.outbox_notifications_max
            or self._waiting_bytes > self._settings.outbox_bytes_max
        ):
            self._waiting_bytes -= len(waiting.popleft().payload)
            self.lost += 1

    def take(self, most: int) -> list[Item]:
        """Removes what is sent next; it is kept a while for a subscriber that comes back."""
        waiting = self._waiting
        taken = [waiting.popleft() for _ in range(min(most, len(waiting)))]
        size = sum([len(item.payload) for item in taken])
        self._waiting_bytes -= size
        self._sent_bytes += size
        if taken:
            self._taken = taken[-1].number
        sent = self._sent
        sent.extend(taken)
        while sent and (len(sent) > self._settings.replay_notifications_max or self._sent_bytes > _REPLAY_BYTES_MAX):
            self._sent_bytes -= len(sent.popleft().payload)
        return taken

    @property
    def held_bytes(self) -> int:
        return self._waiting_bytes + self._sent_bytes

    def fall_dormant(self) -> None:
        self.lost += len(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        self.drop_replay()
        self.dormant = True

    def drop_replay(self) -> None:
        self._sent.clear()
        self._sent_bytes = 0

    def event_id(self, number: int) -> str:
        return f"{self._incarnation}-{number}"

    @property
    def position(self) -> str:
        """The event to resume after, as long as nothing more was taken."""
        return self.event_id(self._taken)

    def resume(self, last_event_id: str | None) -> str:
        """What came after that event waits, nothing else; returns why something is missing, or the empty string."""
        lost, self.lost = self.lost, 0
        self.dormant = False
        if last_event_id is None:
            return f"{lost} notifications were dropped while nobody took them" if lost else ""
        last = self._number_of(last_event_id)
        if last is None:
            return "notifications after that event are gone: the event is not known here"
        while self._sent and self._sent[-1].number > last:
            item = self._sent.pop()
            self._sent_bytes -= len(item.payload)
            self._waiting_bytes += len(item.payload)
            self._waiting.appendleft(item)
        while self._waiting and self._waiting[0].number <= last:
            item = self._waiting.popleft()
            self._waiting_bytes -= len(item.payload)
            self._sent_bytes += len(item.payload)
            self._sent.append(item)
        missing = self._next_number - 1 - last - len(self._waiting)
        return f"{missing} notifications after that event are gone" if missing else ""

    def _number_of(self, event_id: str) -> int | None:
        """The number in an event id of this outbox; None for any other text."""
        incarnation, _, digits = event_id.rpartition("-")
        if incarnation != self._incarnation or not digits.isdecimal() or len(digits) > _DIGITS_MAX:
            return None
        number = int(digits)
        return number if number < self._next_number else None
