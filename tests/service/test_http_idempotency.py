"""The core of `Idempotency-Key`, with a clock of our own; and the waiting around it."""

import asyncio

import pytest

from braid.problems import Problem
from services.connpoint.http.idempotency import IdempotencyKeys, IdempotentCalls

KEY = ("publisher", "key")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def answered(keys: IdempotencyKeys, name: str, answer: bytes = b"answer") -> tuple[str, str]:
    key = ("publisher", name)
    assert keys.begin(key, b"body") == "fresh"
    keys.succeed(key, answer)
    return key


def test_the_same_call_again_gets_the_stored_answer() -> None:
    keys = IdempotencyKeys(10, 60, Clock())
    assert keys.begin(answered(keys, "a"), b"body") == b"answer"


def test_another_body_is_a_conflict_while_running_and_after() -> None:
    keys = IdempotencyKeys(10, 60, Clock())
    assert keys.begin(KEY, b"body") == "fresh"
    assert keys.begin(KEY, b"other") == "conflict"
    keys.succeed(KEY, b"answer")
    assert keys.begin(KEY, b"other") == "conflict"
    assert keys.begin(KEY, b"body") == b"answer"


def test_keys_of_two_publishers_are_two_keys() -> None:
    keys = IdempotencyKeys(10, 60, Clock())
    answered(keys, "a")
    assert keys.begin(("another", "a"), b"other") == "fresh"


def test_a_failed_call_does_not_poison_its_key() -> None:
    keys = IdempotencyKeys(10, 60, Clock())
    assert keys.begin(KEY, b"body") == "fresh"
    assert keys.begin(KEY, b"body") == "running"
    keys.fail(KEY)
    assert keys.begin(KEY, b"corrected body") == "fresh"


def test_an_answer_is_forgotten_when_its_time_is_over() -> None:
    clock = Clock()
    keys = IdempotencyKeys(10, 60, clock)
    key = answered(keys, "a")
    clock.now = 59.9
    assert keys.begin(key, b"body") == b"answer"
    clock.now = 60.0
    assert keys.begin(key, b"body") == "fresh"


def test_the_key_that_was_not_asked_for_longest_makes_room() -> None:
    keys = IdempotencyKeys(2, 60, Clock())
    first, second = answered(keys, "1"), answered(keys, "2")
    assert keys.begin(first, b"body") == b"answer"
    answered(keys, "3")
    assert len(keys) == 2
    assert keys.begin(first, b"body") == b"answer"
    assert keys.begin(second, b"body") == "fresh"


def test_answers_are_bounded_by_bytes_too() -> None:
    keys = IdempotencyKeys(1000, 60, Clock(), bytes_max=100)
    for number in range(50):
        answered(keys, str(number), b"x" * 30)
    assert len(keys) == 3
    answered(keys, "huge", b"x" * 1000)
    assert len(keys) == 0


def test_expired_keys_are_swept_by_newer_ones() -> None:
    clock = Clock()
    keys = IdempotencyKeys(1000, 60, clock)
    for number in range(10):
        answered(keys, str(number))
    clock.now = 100.0
    answered(keys, "new")
    assert len(keys) == 1


async def test_the_second_caller_waits_for_the_first() -> None:
    calls = IdempotentCalls(IdempotencyKeys(10, 60, Clock()))
    gate, made = asyncio.Event(), 0

    async def call() -> bytes:
        nonlocal made
        made += 1
        await gate.wait()
        return b"answer"

    both = [asyncio.create_task(calls.once(KEY, b"body", call)) for _ in range(3)]
    await asyncio.sleep(0.01)
    gate.set()
    assert await asyncio.gather(*both) == [(b"answer", False), (b"answer", True), (b"answer", True)]
    assert made == 1


async def test_a_waiting_caller_takes_over_when_the_first_fails() -> None:
    calls = IdempotentCalls(IdempotencyKeys(10, 60, Clock()))
    gate = asyncio.Event()

    async def failing() -> bytes:
        await gate.wait()
        raise Problem(429, "overloaded", "Too fast", "come back")

    async def working() -> bytes:
        return b"second"

    first = asyncio.create_task(calls.once(KEY, b"body", failing))
    await asyncio.sleep(0)
    second = asyncio.create_task(calls.once(KEY, b"body", working))
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(Problem, match="Too fast"):
        await first
    assert await second == (b"second", False)


async def test_a_cancelled_call_frees_its_key() -> None:
    calls = IdempotentCalls(IdempotencyKeys(10, 60, Clock()))

    async def endless() -> bytes:
        await asyncio.Event().wait()
        return b""

    async def working() -> bytes:
        return b"answer"

    first = asyncio.create_task(calls.once(KEY, b"body", endless))
    await asyncio.sleep(0)
    first.cancel()
    assert await calls.once(KEY, b"body", working) == (b"answer", False)
