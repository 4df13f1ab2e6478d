"""`Idempotency-Key`: the same call made again gets the answer of the first, and is not made.

| state    | event                         | next     | outcome                                    |
|----------|-------------------------------|----------|--------------------------------------------|
| unknown  | begin                         | running  | `fresh`: the caller makes the call         |
| running  | begin, same fingerprint       | running  | `running`: wait until it is over, try again |
| answered | begin, same fingerprint       | answered | the answer                                 |
| running, answered | begin, other fingerprint | same | `conflict`                                 |
| running  | succeed                       | answered |                                            |
| running  | fail                          | unknown  | the next caller makes the call             |
| answered | time, or newer keys need room | unknown  |                                            |

Running keys are bounded by the open connections; answered ones by number and by bytes, and the one that was not
asked for longest is forgotten first: a retry that comes later than that is a new call.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from braid.problems import Problem

ANSWERS_BYTES_MAX = 64 * 1024 * 1024

Key = tuple[str, str]  # whose key it is, and the key
Outcome = Literal["fresh", "running", "conflict"] | bytes


class _Answered(NamedTuple):
    fingerprint: bytes
    answer: bytes
    until: float


class IdempotencyKeys:
    """The core: no clock and no waiting of its own."""

    def __init__(
        self, keys_max: int, keep_s: float, clock: Callable[[], float], bytes_max: int = ANSWERS_BYTES_MAX
    ) -> None:
        self._keys_max = keys_max
        self._keep_s = keep_s
        self._clock = clock
        self._bytes_max = bytes_max
        self._bytes = 0
        self._running: dict[Key, bytes] = {}
        self._answered: OrderedDict[Key, _Answered] = OrderedDict()

    def __len__(self) -> int:
        return len(self._running) + len(self._answered)

    def begin(self, key: Key, fingerprint: bytes) -> Outcome:
        if key in self._running:
            return "running" if self._running[key] == fingerprint else "conflict"
        answered = self._answered.get(key)
        if answered is not None and answered.until > self._clock():
            if answered.fingerprint != fingerprint:
                return "conflict"
            self._answered.move_to_end(key)
            return answered.answer
        if answered is not None:
            self._forget(key)
        self._running[key] = fingerprint
        return "fresh"

    def succeed(self, key: Key, answer: bytes) -> None:
        now = self._clock()
        self._answered[key] = _Answered(self._running.pop(key), answer, now + self._keep_s)
        self._bytes += len(answer)
        while self._answered:
            oldest = next(iter(self._answered))
            full = len(self._answered) > self._keys_max or self._bytes > self._bytes_max
            if not full and self._answered[oldest].until > now:
                break
            self._forget(oldest)

    def fail(self, key: Key) -> None:
        del self._running[key]

    def _forget(self, key: Key) -> None:
        self._bytes -= len(self._answered.pop(key).answer)


class IdempotentCalls:
    """The shell: lets the second caller wait for the first."""

    def __init__(self, keys: IdempotencyKeys) -> None:
        self._keys = keys
        self._over: dict[Key, asyncio.Event] = {}

    async def once(self, key: Key, fingerprint: bytes, call: Callable[[], Awaitable[bytes]]) -> tuple[bytes, bool]:
        """The answer, and whether it is a replay."""
        while True:
            outcome = self._keys.begin(key, fingerprint)
            if outcome == "conflict":
                raise Problem(
                    422,
                    "idempotency-key-reused",
                    "An Idempotency-Key stands for one request",
                    "this key was used with another body; use a new key for a new request",
                    field="Idempotency-Key",
                )
            if outcome == "running":
                await self._over[key].wait()
            elif outcome == "fresh":
                return await self._call(key, call), False
            else:
                assert isinstance(outcome, bytes)
                return outcome, True

    async def _call(self, key: Key, call: Callable[[], Awaitable[bytes]]) -> bytes:
        over = self._over[key] = asyncio.Event()
        try:
            answer = await call()
        except BaseException:
            self._keys.fail(key)
            raise
        else:
            self._keys.succeed(key, answer)
            return answer
        finally:
            del self._over[key]
            over.set()
