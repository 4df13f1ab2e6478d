"""A real cluster that writes files of samples, followed while publications flow: the windows say what was sent, also
when the follower is killed between what it has written and the note that it has.
"""

import asyncio
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from benchmarks.local_cluster import LocalCluster, local_cluster
from tests.cluster.scaled_cluster import until
from tests.spark.small import SMALL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

MATCHERS = 2  # without a map each is asked about every publication
SETTINGS = {
    "BRAID_TELEMETRY__SINK": "files",
    "BRAID_TELEMETRY__INTERVAL_S": "0.5",
    "BRAID_TELEMETRY__FILE_S": "1",
    "BRAID_INGRESS__RETRY_S": "60",  # layers count what passes: nothing is sent twice because this machine is busy
    "BRAID_INGRESS__RETRY_S_MAX": "60",
}
WINDOWS = ("--window", "1s", "--late", "4s")
BATCH = 20
PAUSE_S = 0.05
FOLLOWS_S_MAX = 90.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    slices = f"connpoint=1,accesspoint=1,matcher={MATCHERS},exitpoint=1"
    with local_cluster(tmp_path / "cluster", slices, SETTINGS) as running:
        yield running


class Follower:
    """The job, with a process group of its own: Python and the Java that it starts are killed at the same time."""

    def __init__(self, telemetry: Path, directory: Path) -> None:
        self._checkpoint, self._out = directory / "checkpoint", directory / "windows"
        self._errors = directory / "follower.log"
        where = ("--from", str(telemetry), "--checkpoint", str(self._checkpoint), "--out", str(self._out))
        command = (sys.executable, "-m", "braid.cli", "experiment", "follow", *where)
        self._command = (*command, *WINDOWS, "--master", "local[2]", "--json")
        self._process: subprocess.Popen[str] | None = None
        self.killed_in = ""

    def start(self) -> None:
        options = [text for name, value in SMALL.items() for text in ("--conf", f"{name}={value}")]
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                process_group=0,
                env={**os.environ, "PYSPARK_SUBMIT_ARGS": shlex.join([*options, "pyspark-shell"])},
            )

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()

    def stop(self) -> dict[str, Any]:
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        said, _ = self._process.communicate(timeout=60)
        assert self._process.returncode == 0, self._errors.read_text()
        found: dict[str, Any] = json.loads(said)
        return found

    def is_done(self, batch: str) -> bool:
        self._check()
        return (self._checkpoint / "commits" / batch).exists()

    def is_killed_in_a_batch(self) -> bool:
        """In one whose windows are there, while Spark has not noted yet that it is done."""
        for written in self._out.glob("layers/batch=*/_SUCCESS"):
            batch = written.parent.name.removeprefix("batch=")
            if not self.is_done(batch):
                self.kill()
                self.killed_in = batch
        return bool(self.killed_in)

    def layers(self) -> list[dict[str, Any]]:
        """The rows of all batches that are done. A batch that is done again is removed first."""
        found: list[dict[str, Any]] = []
        for path in self._out.glob("layers/batch=*"):
            if self.is_done(path.name.removeprefix("batch=")):
                found += pq.read_table(path).to_pylist()
        return found

    def last_window_s(self) -> float:
        return max((row["window_end"].timestamp() for row in self.layers()), default=0.0)

    def _check(self) -> None:
        """It has not ended, unless it was told to."""
        assert self._process is not None
        assert self._process.poll() in (None, 0, -signal.SIGKILL), self._errors.read_text()


@contextlib.contextmanager
def follower_of(cluster: LocalCluster, directory: Path) -> Iterator[Follower]:
    follower = Follower(cluster.directory / "telemetry", directory)
    try:
        yield follower
    finally:
        follower.kill()


class Sending:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.sent = 0

    async def subscribe(self) -> None:
        """Somebody who is not there asks for everything."""
        wanted = {"filter": "n >= 0", "subscriber": "archive"}
        assert (await self._http.post("/v1/subscriptions", json=wanted)).status_code == 201

    @contextlib.asynccontextmanager
    async def flowing(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        work = asyncio.create_task(self._send_until(stop))
        try:
            yield
        finally:
            stop.set()
            await work

    async def _send_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            batch = [{"attributes": {"n": number}} for number in range(BATCH)]
            assert (await self._http.post("/v1/publications", json=batch)).status_code == 202
            self.sent += BATCH
            await asyncio.sleep(PAUSE_S)


async def test_windows_say_what_was_sent_also_when_the_follower_is_killed(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    async with httpx.AsyncClient(base_url=cluster.api[0], trust_env=False, timeout=20) as http:
        sending = Sending(http)
        await sending.subscribe()
        with follower_of(cluster, tmp_path) as follower:
            async with sending.flowing():
                follower.start()
                await until(follower.is_killed_in_a_batch, FOLLOWS_S_MAX)
                assert not follower.is_done(follower.killed_in)
                sent_before = sending.sent
                follower.start()
                await until(lambda: follower.is_done(follower.killed_in), FOLLOWS_S_MAX)
            stopped_at = time.time() + 1  # what is on its way has a moment
            await until(lambda: follower.last_window_s() > stopped_at, FOLLOWS_S_MAX)
            found = follower.stop()
            rows = follower.layers()
    assert 0 < sent_before < sending.sent
    assert counted(rows, "publications") == {
        "connpoint": sending.sent,
        "accesspoint": sending.sent,
        "matcher": MATCHERS * sending.sent,
        "exitpoint": 0,
    }
    told = counted(rows, "notifications")
    assert (told["connpoint"], told["exitpoint"]) == (sending.sent, sending.sent)
    assert max(Counter((row["layer"], row["window_begin"]) for row in rows).values()) == 1
    assert sum(row["missing"] for row in rows) == 0
    assert (found["unreadable"], found["late"]) == (0, 0)


def counted(rows: list[dict[str, Any]], what: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row in rows:
        found[row["layer"]] += row[what] or 0
    return dict(found)
