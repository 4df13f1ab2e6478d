"""A matcher that starts says how far it is, and its metrics say what its store uses and what of it was damaged."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from braid import metrics
from braid.config import load
from services.matcher import shell as shell_module
from services.matcher import store as store_module
from services.matcher.shell import Matcher
from tests.core.matching_cases import record
from tests.core.storage.test_damage import flip, largest
from tests.service.in_process import READY_S, InProcessCluster, client_of, in_process_cluster
from tests.service.matcher_stores import opened, put
from tests.service.waiting import until
from tests.service.zookeeper_fixture import ZooKeeperServer

SEVERAL = 40
AT_ONCE = 7
FILLER = "x" * 500  # so that a flipped bit in the middle of the file is one of a subscription


def said(logs: Any, event: str) -> list[Any]:
    return [entry for entry in logs if entry["event"] == event]


async def test_it_says_how_many_subscriptions_it_has_found_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_module, "_TELL_RECOVERY_S", 0.0)
    monkeypatch.setattr(store_module, "_RECOVERED_AT_ONCE", AT_ONCE)
    settings = load(overrides={"cluster": {"data": tmp_path, "zookeeper": "127.0.0.1:1"}}).settings
    matcher = Matcher("matcher-1", settings, 0)
    store = await opened(matcher.directory / "store")
    await put(store, *(record(f"s-{number:02}") for number in range(SEVERAL)))
    await store.close()
    with capture_logs() as logs:
        await matcher.open()
    await matcher.close()
    told = [(entry["subscriptions"], entry["entries"]) for entry in said(logs, "recovering")]
    assert [found for found, _ in told] == [*range(AT_ONCE, SEVERAL, AT_ONCE), SEVERAL]
    assert {entries for _, entries in told} == {SEVERAL}
    (recovered,) = said(logs, "recovered")
    assert recovered["subscriptions"] == SEVERAL
    assert recovered["seconds"] == round(metrics.RECOVERY_SECONDS._value.get(), 3) > 0


@pytest.mark.slow
async def test_its_metrics_say_what_its_store_uses_and_how_often_it_was_damaged(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster, client_of(cluster) as http:
        for number in range(SEVERAL):
            wanted = {"filter": f"n = {number} and text = '{FILLER}'", "subscriber": "archive"}
            assert (await http.post("/v1/subscriptions", json=wanted)).status_code == 201
        store = cluster.slices["matcher-1"].directory / "store"
        await until_shown(cluster, store, damages=0)
        assert used(store) > SEVERAL * len(FILLER)

        await cluster.stop("matcher-1")
        log = largest(store / "dual" / "base-0", ".log")
        flip(log, log.stat().st_size // 2)
        with capture_logs() as logs:
            cluster.start("matcher-1")
            shown = await until_shown(cluster, store, damages=1)
        (damage,), (recovered,) = said(logs, "damaged files were repaired"), said(logs, "recovered")
        assert Path(damage["kept_at"]).is_relative_to(store / "damaged")
        lost = SEVERAL - recovered["subscriptions"]
        assert 0 < lost <= damage["lost_at_most"]
        assert shown['braid_subscriptions{layer="matcher"}'] == SEVERAL - lost
        assert shown["braid_recovery_seconds"] > 0


def used(store: Path) -> int:
    """By the databases, and by what is kept of damaged ones."""
    files = [file for name in ("dual", "damaged") for file in (store / name).rglob("*")]
    return sum(file.stat().st_size for file in files if file.is_file())


async def until_shown(cluster: InProcessCluster, store: Path, damages: int) -> dict[str, float]:
    """What the matcher shows when that is what lies on the disk: it looks there once a second, and adds in between."""
    matcher = cluster.slices["matcher-1"]
    assert isinstance(matcher, Matcher)
    await until(lambda: not matcher.not_ready() and http_of(matcher), READY_S)
    async with httpx.AsyncClient(trust_env=False) as http, asyncio.timeout(READY_S):
        while True:
            shown = await metrics_at(http, f"http://{http_of(matcher)}/metrics")
            if (shown["braid_storage_bytes"], shown["braid_storage_damages"]) == (used(store), damages):
                return shown
            await asyncio.sleep(0.1)


def http_of(matcher: Matcher) -> str | None:
    """None until it has heard of its own registration."""
    return next((entry.http for entry in matcher.slices() if entry.name == matcher.name), None)


async def metrics_at(http: httpx.AsyncClient, url: str) -> dict[str, float]:
    lines = (await http.get(url)).text.splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}
