"""PostgreSQL with the same operations, on a cluster of its own that is made in a directory and removed with it.

One table for each kind, indexed by cell and time; the statements are prepared, each operation is one transaction, and
commits do not wait for the disk, as LevelDB's writes do not. What has expired is deleted once a second of the
operations' clock.
"""

import glob
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.storage.workloads import PAST_S, Operation
from services.matcher.storage.records import StoredPublication, StoredSubscription

_BINARIES = "/usr/lib/postgresql/*/bin"  # where Debian puts them
_SCHEMA = """
create table subscriptions (cell bytea, t_s float8, t_min float8, t_max float8, sid text, uid text, body bytea);
create table publications (cell bytea, t_p float8, t_max float8, pid text, body bytea);
create index on subscriptions (cell, t_max);
create index on publications (cell, t_p);
create index on subscriptions (t_max);
create index on publications (t_max);
"""
_PUT_SUBSCRIPTION = "insert into subscriptions values (%s, %s, %s, %s, %s, %s, %s)"
_PUT_PUBLICATION = "insert into publications values (%s, %s, %s, %s, %s)"
_SUBSCRIBERS = "select sid, body from subscriptions where cell = %s and t_max > %s and t_min <= %s"
_DATA = "select pid, body from publications where cell = %s and t_p >= %s and t_max > %s order by t_p desc"
_DATA_NOT_GIVEN = """
    select pid, body from publications p where cell = %s and t_p >= %s and p.t_max > %s and not exists (
    select from subscriptions s where s.cell = p.cell and s.uid = %s and s.t_max > %s and s.t_min <= p.t_p
    and p.t_p < s.t_max) order by t_p desc"""


class MissingError(Exception):
    """It cannot be measured here."""


def missing() -> str:
    """Why it cannot be measured; empty where it can."""
    try:
        import psycopg  # noqa: F401  # only whether it is there
    except ImportError:
        return "the Python package psycopg is not installed; pip install 'braid-broker[bench]'"
    return "" if glob.glob(_BINARIES) else "PostgreSQL is not installed; on Debian: apt-get install postgresql"


class PostgresTarget:
    def __init__(self, directory: Path, *, self_join: bool) -> None:
        import psycopg

        self._directory = directory
        self._self_join = self_join
        self._deleted_s = 0.0
        directory.mkdir()
        if os.getuid() == 0:  # it refuses to run as root
            shutil.chown(directory, "postgres")
            for parent in directory.parents[:-2]:
                parent.chmod(parent.stat().st_mode | 0o011)
        self._do("initdb", "--pgdata", str(directory / "data"), "--auth", "trust", "--username", "braid", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories='{directory}' -c synchronous_commit=off"
        log = str(directory / "log")
        self._do("pg_ctl", "start", "--wait", "--pgdata", str(directory / "data"), "--log", log, "--options", options)
        self._connection: Any = psycopg.connect(f"host={directory} user=braid dbname=postgres", autocommit=True)
        self._connection.prepare_threshold = 0
        self._connection.execute(_SCHEMA, prepare=False)

    def _do(self, program: str, *arguments: str) -> None:
        binary = Path(sorted(glob.glob(_BINARIES))[-1]) / program
        as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        done = subprocess.run(
            [*as_user, str(binary), *arguments], capture_output=True, text=True, cwd=self._directory, check=False
        )
        if done.returncode:
            raise MissingError(f"{program} failed: {(done.stderr or done.stdout).strip()}")

    def subscribe(self, operation: Operation, lists: Sequence[bytes]) -> int:
        one, (cell,) = operation.record, lists
        assert isinstance(one, StoredSubscription)
        with self._connection.transaction(), self._connection.cursor() as cursor:
            if self._self_join:
                asked = (cell, one.from_s, operation.now_s, one.subscriber, operation.now_s)
                found = len(cursor.execute(_DATA_NOT_GIVEN, asked).fetchall())
            else:
                found = len(cursor.execute(_DATA, (cell, one.from_s, operation.now_s)).fetchall())
            row = (cell, one.made_s, one.from_s, one.until_s, one.id, one.subscriber, one.body)
            cursor.execute(_PUT_SUBSCRIPTION, row)
        return found

    def publish(self, operation: Operation, lists: Sequence[bytes]) -> int:
        one, (cell,) = operation.record, lists
        assert isinstance(one, StoredPublication)
        with self._connection.transaction(), self._connection.cursor() as cursor:
            found = len(cursor.execute(_SUBSCRIBERS, (cell, operation.now_s, one.made_s)).fetchall())
            if self._self_join:
                cursor.execute(_DATA, (cell, operation.now_s - PAST_S, operation.now_s)).fetchall()
            cursor.execute(_PUT_PUBLICATION, (cell, one.made_s, one.expires_s, one.id, one.body))
        return found

    def due(self, now_s: float) -> int:
        return 0

    def maintain(self, now_s: float) -> None:
        if now_s >= self._deleted_s + 1:
            self._deleted_s = now_s
            for table in ("subscriptions", "publications"):
                self._connection.execute(f"delete from {table} where t_max <= %s", (now_s,))

    def disk_bytes(self) -> int:
        """Its tables and indexes; what else a cluster needs is not counted."""
        (size,) = self._connection.execute(
            "select pg_total_relation_size('subscriptions') + pg_total_relation_size('publications')"
        ).fetchone()
        return int(size)

    def close(self) -> None:
        self._connection.close()
        self._do("pg_ctl", "stop", "--wait", "--mode", "immediate", "--pgdata", str(self._directory / "data"))
