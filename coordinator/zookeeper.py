"""The embedded ZooKeeper: a real server from the jars that PySpark ships, on loopback, with a small heap.

Nothing is started here: `prepare` gives the command, the launcher runs it like every other process of the cluster.
In a container of its own, `python -m coordinator.zookeeper_server` becomes it.
"""

import asyncio
import importlib.util
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

JAVA_VERSION_MIN = 17
HOST = "127.0.0.1"
HEAP_MIB = 128
CONFIGURATION_FILE = "./zoo.cfg"
POLL_S = 0.05

# What the server needs of the several hundred jars; a short class path starts faster.
JAR_PREFIXES = (
    "zookeeper-",
    "slf4j-api-",
    "log4j-api-",
    "log4j-core-",
    "log4j-slf4j2-impl-",
    "metrics-core-",
    "netty-",
    "snappy-java-",
    "audience-annotations-",
    "commons-io-",
    "commons-lang3-",
    "commons-cli-",
    "jackson-annotations-",
    "jackson-core-",
    "jackson-databind-",
)

# Paths are relative to the working directory, because Java reads this file as Latin-1.
# Standalone: the tick only sets how exactly session timeouts are kept. Every slice connects from the same address,
# so connections per address are not limited. The log is not preallocated in pieces of 64 MB.
CONFIGURATION = """\
clientPortAddress={host}
clientPort={port}
dataDir=./data
tickTime=500
minSessionTimeout=1000
maxSessionTimeout=120000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
preAllocSize=1024
"""


class ZooKeeperUnusable(Exception):
    """The embedded ZooKeeper cannot run here; the message says what to do."""


@dataclass(frozen=True)
class EmbeddedZooKeeper:
    """Ready to be started: run `argv` in `directory`, then await `wait_ready`."""

    directory: Path
    port: int
    argv: tuple[str, ...]

    @property
    def hosts(self) -> str:
        return f"{HOST}:{self.port}"


def prepare(directory: Path, port: int = 0, host: str = HOST, heap_mib: int = HEAP_MIB) -> EmbeddedZooKeeper:
    """Writes the configuration into `directory`, where the data stays too. Port 0 takes a free one."""
    java = find_java()
    class_path = os.pathsep.join(str(jar) for jar in find_jars())
    port = port or free_port()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / CONFIGURATION_FILE).write_text(CONFIGURATION.format(host=host, port=port))
    argv = (
        str(java),
        f"-Xmx{heap_mib}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dlog4j2.level=WARN",
        # The default factory may accept a client while it starts and never answer it; this one does not.
        "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        "-cp",
        class_path,
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        CONFIGURATION_FILE,
    )
    return EmbeddedZooKeeper(directory, port, argv)


async def wait_ready(server: EmbeddedZooKeeper, timeout_s: float, is_running: Callable[[], bool]) -> None:
    """Returns when the server serves. Its port is open earlier, but a client that comes then loses seconds."""
    try:
        async with asyncio.timeout(timeout_s):
            while not await asyncio.to_thread(is_serving, server.port):
                if not is_running():
                    raise ZooKeeperUnusable("the embedded ZooKeeper ended while it was starting")
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise ZooKeeperUnusable(f"the embedded ZooKeeper was not ready within {timeout_s:g} s") from None


def is_serving(port: int) -> bool:
    """Asks `srvr`, which is answered with the mode only when clients are served."""
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while chunk := connection.recv(4096):
                answer += chunk
    except OSError:
        return False
    return b"Mode: " in answer


def find_java() -> Path:
    """JAVA_HOME first, then PATH; the first one that is recent enough."""
    home = os.environ.get("JAVA_HOME")
    candidates = [Path(home) / "bin" / "java"] if home else []
    on_path = shutil.which("java")
    if on_path is not None:
        candidates.append(Path(on_path))
    found = {java: _java_version(java) for java in candidates if java.is_file()}
    for java, version in found.items():
        if version >= JAVA_VERSION_MIN:
            return java
    seen = ", ".join(f"{java} is version {version}" for java, version in found.items()) or "none was found"
    raise ZooKeeperUnusable(
        f"the embedded ZooKeeper needs a Java runtime of version {JAVA_VERSION_MIN} or later in JAVA_HOME or PATH "
        f"({seen}). On Debian and Ubuntu: apt-get install openjdk-17-jre-headless. "
        "Or use a ZooKeeper that runs elsewhere: --zookeeper host:port"
    )


def find_jars() -> list[Path]:
    spec = importlib.util.find_spec("pyspark")  # finds the package without importing it
    if spec is None or spec.origin is None:
        raise ZooKeeperUnusable("the embedded ZooKeeper comes with the package pyspark, which is not installed")
    directory = Path(spec.origin).parent / "jars"
    jars = sorted(jar for jar in directory.glob("*.jar") if jar.name.startswith(JAR_PREFIXES))
    if not any(jar.name.startswith("zookeeper-") for jar in jars):
        raise ZooKeeperUnusable(f"there is no zookeeper-*.jar in {directory}; install pyspark 4 again")
    return jars


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _java_version(java: Path) -> int:
    """The feature version (17 of "17.0.15", 8 of "1.8.0_392"); 0 when it does not say one."""
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', run.stderr)
    return int(match.group(1)) if match else 0
