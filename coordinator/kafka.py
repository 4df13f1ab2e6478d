"""A Kafka broker of one's own: a real one in KRaft mode, on loopback, broker and controller in one small process.

For tests and benchmarks. Stopped or killed and started again, it keeps its ports and its data.
"""

import base64
import contextlib
import os
import socket
import struct
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from coordinator import tether
from coordinator.kafka_jars import KafkaUnusable, find_jars
from coordinator.zookeeper import ZooKeeperUnusable, find_java, free_port

__all__ = ["KafkaServer", "KafkaUnusable"]

HOST = "127.0.0.1"
READY_S = 60.0
STOP_S = 20.0
_POLL_S = 0.05
_CONFIGURATION_FILE = "./server.properties"

# Paths are relative to the working directory, because Java reads this file as Latin-1.
# Few threads and few partitions of Kafka's own topics: one broker with few clients. Nobody waits for a group to
# gather, nor long until a broker that was killed may come back; sessions may be short, and a transaction whose producer
# died is ended soon after its timeout.
_CONFIGURATION = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.voters=1@{host}:{controller_port}
log.dirs=./data
auto.create.topics.enable=false
num.network.threads=1
num.io.threads=2
background.threads=2
num.recovery.threads.per.data.dir=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
broker.session.timeout.ms=1000
broker.heartbeat.interval.ms=250
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=500
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
log.cleaner.dedupe.buffer.size=4194304
"""

# The kernel ties a process to the thread that started it, and a test may call from one that ends sooner.
_STARTER = ThreadPoolExecutor(1, "kafka-starter")

# ApiVersions, version 0, correlation id 1, no client id: what every client asks first.
_QUESTION = struct.pack(">ihhih", 10, 18, 0, 1, -1)


class KafkaServer:
    def __init__(self, directory: Path, heap_mb: int = 256) -> None:
        """Raises `KafkaUnusable`. The first time it fetches the jars, which may take a minute."""
        self._directory = directory
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            java = find_java()
        except ZooKeeperUnusable as error:
            raise KafkaUnusable(str(error)) from None
        self._java = (
            str(java),
            f"-Xmx{heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-cp",
            str(find_jars() / "*"),
        )
        directory.mkdir(parents=True, exist_ok=True)
        properties = _CONFIGURATION.format(host=HOST, port=self._port, controller_port=free_port())
        (directory / _CONFIGURATION_FILE).write_text(properties)
        self._format()

    @property
    def bootstrap(self) -> str:
        """What clients call `bootstrap_servers`."""
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "stopped"
        return self._process.pid

    def start(self) -> None:
        """Returns when it answers; does nothing when it runs."""
        if self._process is not None:
            return
        self._process = _STARTER.submit(self._spawn).result()
        deadline = time.monotonic() + READY_S
        while not _answers(self._port):
            if self._process.poll() is not None:
                self._process = None
                raise KafkaUnusable(f"Kafka ended while it was starting; its log is {self._log}")
            if time.monotonic() > deadline:
                self.kill()
                raise KafkaUnusable(f"Kafka was not ready within {READY_S:g} s; its log is {self._log}")
            time.sleep(_POLL_S)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        """Tethered: it goes when this process goes, however that ends."""
        tethered = (sys.executable, "-I", "-S", tether.__file__, str(os.getpid()))
        with self._log.open("ab") as log:
            return subprocess.Popen(
                (*tethered, *self._java, "kafka.Kafka", _CONFIGURATION_FILE),
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def stop(self) -> None:
        """In order: it writes what it has and says goodbye."""
        if self._process is None:
            return
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self.kill()

    def kill(self) -> None:
        """As in a crash."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    @property
    def _log(self) -> Path:
        return self._directory / "log"

    def _format(self) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = (*self._java, "kafka.tools.StorageTool", "format", "--ignore-formatted")
        with self._log.open("ab") as log:
            done = subprocess.run(
                (*command, f"--cluster-id={cluster}", "-c", _CONFIGURATION_FILE),  # one that may begin with a dash
                cwd=self._directory,
                stdout=log,
                stderr=log,
                timeout=READY_S,
                check=False,
            )
        if done.returncode:
            raise KafkaUnusable(
                f"the directory of Kafka cannot be formatted: {self._log.read_text(errors='replace')[-500:]}"
            )


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as connection:
            connection.sendall(_QUESTION)
            return len(connection.recv(4)) == 4
    except OSError:
        return False
