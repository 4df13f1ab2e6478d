"""A process that writes to a matcher's store until it is killed: what is acknowledged it tells on its output."""

import asyncio
import sys
import time
from pathlib import Path

from braid.config import Settings
from braid.matching.previous import ChainChanges
from services.matcher.store import MatcherStore
from tests.core.kept_cases import batch, on_topic
from tests.core.matching_cases import record


async def main(path: Path, first: int) -> None:
    store = MatcherStore(path, Settings())
    await store.open(lambda _records, _entries: None)
    await store.read_previous()
    if store.damages:
        raise SystemExit(str(store.damages))

    def tell(line: str, failure: Exception | None) -> None:
        sys.stdout.write(f"{line}\n" if failure is None else f"failed: {failure}\n")

    number = first
    while True:
        for _ in range(5):
            number += 1
            given = record(f"s-{number}", topic=f"t{number % 7}", created_s=time.time())
            store.put(given, is_new=True, done=lambda failure, number=number: tell(f"+{number}", failure))  # type: ignore[misc]  # bound now
            kept = batch(number, on_topic(f"t{number % 7}"), b"{}", published_s=time.time())
            store.keep([kept], lambda failure, number=number: tell(f"k{number}", failure))  # type: ignore[misc]  # bound now
            remembered = ChainChanges({f"t{number % 7}": b"%d" % number})
            store.keep_previous(remembered, lambda failure, number=number: tell(f"p{number}", failure))  # type: ignore[misc]  # bound now
            if number % 3 == 0:
                gone = f"s-{number - 2}"
                store.erase([gone], lambda failure, number=number: tell(f"-{number - 2}", failure))  # type: ignore[misc]  # bound now
            if number % 4 == 0:
                changed = record(f"s-{number}", "n = 4", created_s=time.time())
                store.put(changed, is_new=False, done=lambda failure, number=number: tell(f"*{number}", failure))  # type: ignore[misc]  # bound now
        sys.stdout.flush()
        await asyncio.sleep(0.001)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
