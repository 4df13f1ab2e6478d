"""Where accepted publications are safe, and from where they are sent until exit points have confirmed them.

Two of them: `local_log.py` keeps them in a LevelDB of the connection point, `kafka_log.py` in a topic of Kafka.
"""

from collections.abc import Callable, Collection
from typing import Protocol

from braid.messages import Confirmed, Hop, Send
from braid.topology import Configuration
from services.connpoint.retrying import Batch

Done = Callable[[Exception | None], None]
Perform = Callable[[list[Send]], None]


class Log(Protocol):
    async def open(self) -> None:
        """Before anybody can reach the connection point."""

    async def prepare(self) -> None:
        """Before it is registered; may take as long as it must."""

    async def close(self) -> None: ...

    # Publications

    def refusal(self, publisher: int | None = None) -> str:
        """Why nothing can be written for the time being, of this publisher or of any; empty when it can."""

    def has_room(self, publisher: int, publications: int, size: int) -> bool: ...

    def append(
        self, publisher: int, contents: list[bytes], accepted_s: float, hops: list[Hop] | None, done: Done
    ) -> None:
        """The caller has asked `has_room`. `done` is told when it is safe, or why it is not.

        What one publisher appends stays in its order. Whatever is safe is sent, also when the caller is gone.
        """

    @property
    def unconfirmed(self) -> int:
        """Publications that wait for their confirmation here."""

    @property
    def is_drained(self) -> bool:
        """Whether this connection point may stop: what it has accepted does not wait for it."""

    def on_confirmed(self, message: Confirmed, exitpoint: str) -> list[Batch]:
        """Returns what this one had waited for."""

    def accepted_s(self, origin: str, sequence: int) -> float | None:
        """When a batch was accepted, by the clock of whoever did; None for one that is not sent from here."""

    # The cluster

    def on_configuration(self, configuration: Configuration) -> None: ...

    def on_connpoints(self, registered: Collection[str]) -> None:
        """The registered connection points; none while this one is not."""

    def on_slice_returned(self, now_s: float) -> None:
        """A slice of the path was started again."""

    def on_tick(self, now_s: float) -> None: ...
