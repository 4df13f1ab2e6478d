"""`python -m coordinator.restoring`: puts the configuration back that ZooKeeper has lost, from what matchers keep.

It looks into all directories of matchers below `--data`, takes the newest configuration that one of them followed, and
writes it where ZooKeeper has none, or one that contradicts it. Otherwise it changes nothing.
"""

import argparse
import asyncio
import contextlib
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from braid import kept_configuration
from braid.config import ConfigError, Settings, load
from braid.coordination import Coordination
from braid.coordination_events import CoordinationUnavailable, CorruptConfiguration, StaleVersion
from braid.kept_configuration import UnreadableConfiguration, settled
from braid.topology import Configuration


@dataclass(frozen=True)
class Outcome:
    configuration: Configuration  # that stands now
    restored: bool


def newest_kept(data: Path) -> Configuration | None:
    """By all matchers of this machine. Raises `UnreadableConfiguration`."""
    files = sorted(data.glob(f"matcher-*/{kept_configuration.FILE}"))
    return kept_configuration.newest(each for file in files if (each := kept_configuration.read(file)) is not None)


def refusals(data: Path, found: Configuration) -> dict[str, str]:
    """The matchers of this machine that would refuse this configuration, and why. A file that cannot be read refuses
    nothing, here as in the matcher.
    """
    refused: dict[str, str] = {}
    for file in sorted(data.glob(f"matcher-*/{kept_configuration.FILE}")):
        with contextlib.suppress(UnreadableConfiguration):
            kept = kept_configuration.read(file)
            if kept is not None and (reason := kept_configuration.contradiction(kept, settled(found))):
                refused[file.parent.name] = reason
    return refused


def what_to_do(data: Path, zookeeper: str, config: Path | None) -> str:
    """When a configuration is refused."""
    command = ["python", "-m", "coordinator.restoring", "--data", str(data), "--zookeeper", zookeeper]
    command += [] if config is None else ["--config", str(config)]
    return (
        "If ZooKeeper has lost its data, put back the configuration that the matchers keep, then start again:\n"
        f"  {shlex.join(command)}\n"
        "If it belongs to another cluster, name the right one. 'Its data is lost' in docs/operating.md says more."
    )


async def restore(coordination: Coordination, kept: Configuration) -> Outcome:
    """Raises `CorruptConfiguration`, `StaleVersion`: somebody wrote one in this moment."""
    stands, version = await coordination.read_configuration()
    if stands is not None and not kept_configuration.contradiction(kept, settled(stands)):
        return Outcome(stands, restored=False)
    await coordination.restore_configuration(kept, version)
    return Outcome(kept, restored=True)


def describe(configuration: Configuration) -> str:
    map = "" if configuration.map is None else f", map {configuration.map.version}"
    return f"epoch {configuration.epoch}: {', '.join(configuration.matchers)}; routing {configuration.routing}{map}"


async def _run(settings: Settings) -> str:
    cluster = settings.cluster
    kept = newest_kept(cluster.data)
    if kept is None:
        raise UnreadableConfiguration(f"no matcher below {cluster.data.absolute()} keeps a configuration")
    coordination = Coordination(cluster.zookeeper, cluster.name, cluster.session_timeout_s, lambda _event: None)
    await coordination.start()
    try:
        outcome = await restore(coordination, kept)
    finally:
        await coordination.stop()
    done = "restored" if outcome.restored else "nothing to do, what stands in ZooKeeper is as new"
    return f"{done}: {describe(outcome.configuration)}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m coordinator.restoring", description=__doc__)
    parser.add_argument("--config", type=Path, help="TOML file with settings")
    parser.add_argument("--zookeeper", help="host:port,… of ZooKeeper")
    parser.add_argument("--data", type=Path, help="directory in which those of the matchers are")
    given = parser.parse_args(argv)
    cluster = {name: value for name in ("zookeeper", "data") if (value := getattr(given, name)) is not None}
    try:
        settings = load(given.config, {"cluster": cluster}).settings
        if not settings.cluster.zookeeper:
            raise ConfigError("which ZooKeeper? Give --zookeeper host:port; 'braid up' restores by itself")
        print(asyncio.run(_run(settings)))
    except (ConfigError, CoordinationUnavailable, CorruptConfiguration, StaleVersion, UnreadableConfiguration) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
