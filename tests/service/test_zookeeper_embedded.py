"""The embedded ZooKeeper itself."""

import asyncio
import subprocess
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from coordinator import zookeeper as embedded
from tests.service.zookeeper_fixture import ZooKeeperServer


def test_the_jars_are_few_and_found_without_importing_pyspark() -> None:
    jars = embedded.find_jars()
    assert any(jar.name.startswith("zookeeper-3.9") for jar in jars)
    assert len(jars) < 60


def test_java_that_is_missing_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(embedded.ZooKeeperUnusable, match=r"none was found.*openjdk-17-jre-headless"):
        embedded.find_java()


def test_java_that_is_too_old_is_passed_over_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("""#!/bin/sh\necho 'openjdk version "1.8.0_392"' >&2\n""")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert embedded.find_java() != old
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(embedded.ZooKeeperUnusable, match="is version 8"):
        embedded.find_java()


@pytest.mark.parametrize("timeout_s", [1, 120])
def test_the_session_timeouts_that_can_be_set_are_granted(zookeeper: ZooKeeperServer, timeout_s: int) -> None:
    granted = []

    class Client(KazooClient):  # type: ignore[misc]  # kazoo has no types
        def _session_callback(self, state: str) -> None:
            super()._session_callback(state)
            granted.append(self._session_timeout)

    client = Client(zookeeper.hosts, timeout=timeout_s)
    client.start()
    client.stop()
    client.close()
    assert set(granted) == {timeout_s * 1000}


@pytest.mark.slow
async def test_data_survives_in_a_directory_of_any_name(tmp_path: Path) -> None:
    directory = tmp_path / "José's data = 1"
    for expected in (False, True):
        server = embedded.prepare(directory)
        process = await asyncio.create_subprocess_exec(
            *server.argv, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            await embedded.wait_ready(server, 30, lambda process=process: process.returncode is None)  # type: ignore[misc]
            existed = await asyncio.to_thread(touch, server.hosts)
        finally:
            process.terminate()
            await process.wait()
        assert existed is expected


def touch(hosts: str) -> bool:
    """Creates a znode; tells whether it was there."""
    client = KazooClient(hosts)
    client.start()
    existed = client.exists("/kept") is not None
    client.ensure_path("/kept")
    client.stop()
    client.close()
    return existed


async def test_a_server_that_ends_while_it_starts_is_told(tmp_path: Path) -> None:
    server = embedded.prepare(tmp_path)
    with pytest.raises(embedded.ZooKeeperUnusable, match="ended while it was starting"):
        await embedded.wait_ready(server, 5, lambda: False)
    with pytest.raises(embedded.ZooKeeperUnusable, match="not ready within"):
        await embedded.wait_ready(server, 0.1, lambda: True)
