"""The retry loop over a log of its own: a connection point owns what it accepted until an exit point confirms it.

A batch's way here:

    accepted ──logged──▶ sent ──confirmed──▶ forgotten
                          │ ▲
                          └─┘ unconfirmed for too long: sent again, same (origin, sequence), current epoch

Invariants, besides those of `retrying.py`:
- A batch is sent only after it was logged, and acknowledged to its publisher only then.
- An origin is one incarnation of this connection point: the running one, or one whose log was found at start.
"""

from collections.abc import Iterable

from braid.config import Ingress
from braid.messages import Hop, Send
from services.connpoint.retrying import Batch, Origin, RetryLoop


class IngressCore(RetryLoop):
    def __init__(self, origin: str, settings: Ingress) -> None:
        super().__init__(settings)
        self._current = self._origins[origin] = Origin(origin, is_open=True)

    @property
    def origin(self) -> str:
        return self._current.name

    def accept(self, publisher: int, contents: list[bytes], now_s: float, hops: list[Hop] | None = None) -> Batch:
        """Takes a batch into the window. The caller has asked `has_room` and logs the batch next."""
        origin = self._current
        size = sum(map(len, contents))
        batch = Batch(origin.name, origin.next_sequence, publisher, contents, size, now_s, hops=hops)
        self._take(origin, batch)
        return batch

    def on_recovered(self, batches: Iterable[tuple[str, int, int, list[bytes], float]], now_s: float) -> None:
        """What the log held, in the order of its keys: origin, sequence, publisher, contents, when accepted."""
        for name, sequence, publisher, contents, accepted_s in batches:
            origin = self._origins.get(name)
            if origin is None:
                origin = self._origins[name] = Origin(name, sequence)
            origin.next_sequence = sequence
            size = sum(map(len, contents))
            batch = Batch(name, sequence, publisher, contents, size, accepted_s, due_s=now_s, first_attempt=int(now_s))
            self._take(origin, batch)

    def on_logged(self, batch: Batch, now_s: float, now_ns: int) -> list[Send]:
        """The batch is safe: it goes to its access point."""
        return self._send_logged(self._current, batch, now_s, now_ns)

    def on_log_failed(self, batch: Batch) -> None:
        """Nothing of it was acknowledged, and nothing of it will be sent."""
        origin = self._origins[batch.origin]
        self._drop(origin, batch.sequence)
        origin.advance()
