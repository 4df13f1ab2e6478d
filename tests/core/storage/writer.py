"""A process that writes until it is killed: each record is told on its standard output once it is acknowledged."""

import sys
import time
from pathlib import Path

from services.matcher.storage.keys import list_id
from services.matcher.storage.settings import StorageSettings
from tests.core.storage.cases import LAYOUTS, NOW_S, publication, subscription

SETTINGS = StorageSettings(retention_s=3600, write_buffer_bytes=128 * 1024, rewrite_from=50, rewrite_check_s=0.5)


def main(layout: str, root: Path, first: int) -> None:
    begin = time.monotonic()
    number, now_s = first, NOW_S + first / 1000
    storage = LAYOUTS[layout](root, SETTINGS, now_s)
    if storage.damages:
        raise SystemExit(str(storage.damages))
    out = sys.stdout
    while True:
        number += 1
        now_s = NOW_S + first / 1000 + (time.monotonic() - begin)
        name = list_id(str(number % 50))
        storage.subscribe(subscription(f"s{number}", now_s, body=b"x" * 200), [name], now_s)
        storage.publish(publication(f"p{number}", now_s, body=b"y" * 200), [name], now_s)
        out.write(f"+{number}\n")
        if number % 3 == 0:
            out.write(f"?{number - 1}\n")
            out.flush()  # from now on it may be gone
            storage.unsubscribe([f"s{number - 1}"], now_s)
            out.write(f"-{number - 1}\n")
        if number % 5 == 0:
            storage.maintain(now_s, 50)
        out.flush()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
