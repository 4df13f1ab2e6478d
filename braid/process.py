"""One slice as a process: its command line and what the interpreter is set to."""

import argparse
import gc
import sys
from collections.abc import Callable
from pathlib import Path

import uvloop

from braid.claiming import claim_name
from braid.config import ConfigError, Settings, load
from braid.coordination_events import CoordinationUnavailable, NameTaken
from braid.logs import configure_logs
from braid.slice import Slice
from braid.topology import Layer


def main(layer: Layer, make: Callable[[str, Settings, int], Slice]) -> None:
    """`python -m services.<layer>`"""
    parser = argparse.ArgumentParser(
        prog=f"python -m services.{layer}",
        description=f"One slice of the {layer} layer.",
        epilog=f"example: python -m services.{layer} --name {layer}-1 --zookeeper 127.0.0.1:2181",
    )
    parser.add_argument(
        "--name", help="unique in the cluster; state is kept under this name (default: the first one that is free)"
    )
    parser.add_argument("--zookeeper", help="host:port,…")
    parser.add_argument("--data", help="directory of all state")
    parser.add_argument("--config", type=Path, help="TOML file")
    parser.add_argument(
        "--http-port", type=int, default=0, help="of the interface or the probes; 0 lets the system choose"
    )
    given = parser.parse_args()
    cluster = {key: value for key in ("zookeeper", "data") if (value := getattr(given, key)) is not None}
    try:
        settings = load(given.config, {"cluster": cluster} if cluster else {}).settings
    except ConfigError as error:
        sys.exit(f"{parser.prog}: {error}")
    if not settings.cluster.zookeeper:
        sys.exit(f"{parser.prog}: which ZooKeeper? Give --zookeeper host:port, or start everything with ./dev up")
    configure_logs(settings.logs, slice=given.name or layer)
    sys.setswitchinterval(0.0005)  # the thread that writes the log waits for the interpreter at most so long
    gc.set_threshold(50_000, 20, 50)  # messages live shortly and hold no cycles

    async def run() -> int:
        if given.name:
            return await make(given.name, settings, given.http_port).run()
        claimed = await claim_name(layer, settings)
        configure_logs(settings.logs, slice=claimed.name)
        slice = make(claimed.name, settings, given.http_port)
        slice.succeed(claimed)
        try:
            return await slice.run()
        finally:
            claimed.release()

    try:
        sys.exit(uvloop.run(run()))
    except (CoordinationUnavailable, NameTaken) as error:
        sys.exit(f"{parser.prog}: {error}")
