"""A process of its own for a part of the load, so that what it measures is not delayed by the others."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NamedTuple

_FAILED = "a process that makes the load has failed"


class _Failure(NamedTuple):
    why: str


class Worker:
    """Runs `work(*arguments, orders, count)`; `count` is what it has done so far, `orders` its end of a pipe.

    The process ends with the one that made it, however that ends.
    """

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._count = context.Value("q", 0, lock=False)
        self.orders: Connection
        self.orders, there = context.Pipe()
        self._process = context.Process(target=_tethered, args=(work, *arguments, there, self._count), daemon=True)

    @property
    def count(self) -> int:
        count: int = self._count.value
        return count

    @property
    def pid(self) -> int:
        assert self._process.pid is not None, "not started"
        return self._process.pid

    def receive(self) -> Any:
        """What it sends next. Raises `RuntimeError` when it has failed instead."""
        while not self.orders.poll(0.5):
            if not self._process.is_alive() and not self.orders.poll(0):  # it may have said why since
                raise RuntimeError(_FAILED)
        try:
            said = self.orders.recv()
        except (EOFError, ConnectionResetError):
            raise RuntimeError(_FAILED) from None
        if isinstance(said, _Failure):
            raise RuntimeError(said.why)
        return said

    def order(self, what: Any) -> None:
        """One that has failed takes no orders any more: what it said is still to be received."""
        with suppress(BrokenPipeError):
            self.orders.send(what)

    def check(self) -> None:
        """Raises `RuntimeError` when it has failed; what it had sent before that is lost."""
        while not self._process.is_alive():
            self.receive()

    def __enter__(self) -> "Any":
        self._process.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.join()


def _tethered(work: Callable[..., None], *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the other one too, which ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        work(*arguments)
    except RuntimeError as failure:  # ours, for whoever asked for the load; all others are shown where they happen
        orders: Connection = arguments[-2]
        orders.send(_Failure(str(failure)))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "somebody has started this process"
    parent.join()
    os._exit(1)


def when_ordered(orders: Connection, act: Callable[[], None]) -> None:
    """Calls it on a thread of its own, which does not keep a process alive that fails meanwhile."""

    def wait() -> None:
        orders.recv()
        act()

    threading.Thread(target=wait, daemon=True).start()
