"""`python -m coordinator.zookeeper_server`: becomes a ZooKeeper server, for a container or a machine of its own.

The process is replaced by Java, so that signals reach ZooKeeper itself.
"""

import argparse
import os
import sys
from pathlib import Path

from coordinator.zookeeper import HEAP_MIB, ZooKeeperUnusable, is_serving, prepare


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m coordinator.zookeeper_server", description="one ZooKeeper server, from the jars of PySpark"
    )
    parser.add_argument("--data", type=Path, default=Path("data/zookeeper"), help="directory of its state")
    parser.add_argument("--host", default="0.0.0.0", help="address to listen on")
    parser.add_argument("--port", type=int, default=2181)
    parser.add_argument("--heap-mib", type=int, default=HEAP_MIB, help="memory of the Java heap")
    parser.add_argument("--check", action="store_true", help="only say, by the exit code, whether one serves here")
    given = parser.parse_args(argv)
    if given.check:
        return 0 if is_serving(given.port) else 1
    try:
        server = prepare(given.data, given.port, given.host, given.heap_mib)
    except ZooKeeperUnusable as error:
        print(f"zookeeper: {error}", file=sys.stderr)
        return 1
    os.chdir(server.directory)
    return os.execv(server.argv[0], server.argv)


if __name__ == "__main__":
    sys.exit(main())
