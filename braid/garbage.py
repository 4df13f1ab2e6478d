"""How long the collector of garbage keeps the interpreter: no thread of the process runs meanwhile."""

import gc
import time
from collections.abc import Callable
from typing import Any


def watch(note: Callable[[str, float], None]) -> Callable[[], None]:
    """Tells how much processor time each collection takes; returns how to stop that."""
    began_s = 0.0

    def on_collection(phase: str, info: dict[str, Any]) -> None:
        nonlocal began_s
        if phase == "start":
            began_s = time.thread_time()
        else:
            note(f"garbage {info['generation']}", time.thread_time() - began_s)

    gc.callbacks.append(on_collection)
    return lambda: gc.callbacks.remove(on_collection)
