"""The session of one process of the cluster with ZooKeeper: what it tells, what it asks for, what it writes.

`ZooKeeperSession` owns the connection, `Reconciling` keeps what is known up to date, and each thing that stands in
ZooKeeper has a file of its own: registration, election, slices and configuration, scalings, maps. This file puts them
together, and writes what belongs to several of them in one transaction.

Invariant: `on_event` is called on the loop, in order, never from within a call of `Coordination`.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from braid import znodes
from braid.anchor_map import AnchorMap
from braid.coordination_events import (
    ConfigurationChanged,
    CoordinationUnavailable,
    CorruptConfiguration,
    Deposed,
    Elected,
    Event,
    NameTaken,
    NotLeading,
    Registered,
    RegistrationRefused,
    ReportsChanged,
    ScalingChanged,
    ScalingUnderWay,
    SessionExpired,
    SessionRestored,
    SessionSuspended,
    SlicesChanged,
    StaleVersion,
)
from braid.election import Election
from braid.map_store import MapStore
from braid.reconciling import Area, Reconciling
from braid.registering import Registering
from braid.scaling import Progress, Report, ScalingRecord
from braid.scaling_store import ScalingStore
from braid.topology import Configuration, Registration
from braid.topology_store import TopologyStore
from braid.znodes import NO_VERSION
from braid.zookeeper_session import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    SessionState,
    ZooKeeperSession,
)

__all__ = [
    "NO_VERSION",
    "ConfigurationChanged",
    "Coordination",
    "CoordinationUnavailable",
    "CorruptConfiguration",
    "Deposed",
    "Elected",
    "Event",
    "NameTaken",
    "NotLeading",
    "Registered",
    "RegistrationRefused",
    "ReportsChanged",
    "ScalingChanged",
    "ScalingUnderWay",
    "SessionExpired",
    "SessionRestored",
    "SessionSuspended",
    "SlicesChanged",
    "StaleVersion",
]


class Coordination:
    def __init__(
        self,
        hosts: str,
        cluster: str,
        session_timeout_s: float,
        on_event: Callable[[Event], None],
        *,
        start_timeout_s: float = 15.0,
        follow_scalings: bool = False,
    ) -> None:
        self.hosts = hosts
        self._start_timeout_s = start_timeout_s
        self._follow_scalings = follow_scalings
        self._paths = znodes.Paths(cluster)
        self._session = ZooKeeperSession(hosts, session_timeout_s, self._on_state)
        self._reconciling = Reconciling(self._session, on_event)
        self._registering = Registering(self._session, self._paths, self._reconciling, session_timeout_s)
        self._election = Election(self._session, self._paths, self._reconciling)
        self._maps = MapStore(self._session, self._paths)
        self._scalings = ScalingStore(self._session, self._paths, self._reconciling, self._maps)
        self._topology = TopologyStore(
            self._session,
            self._paths,
            self._reconciling,
            self._maps,
            on_slices=self._registering.on_slices,
            on_configuration=self._scalings.on_configuration,
        )
        self._prepared = False  # the directories are there

    async def start(self) -> None:
        """Connects. The first `SlicesChanged` and `ConfigurationChanged` follow, even when there is nothing.

        So does `ScalingChanged` for those who follow scalings. Raises `CoordinationUnavailable` when no ZooKeeper
        answers in time.
        """
        await self._session.start(self._start_timeout_s)
        # Elected comes after everything on which a leader decides.
        following: dict[Area, Callable[[], Awaitable[None]]] = {
            "scaling": self._scalings.watch_scaling,
            "reports": self._scalings.watch_reports,
        }
        self._reconciling.start(
            {
                "directories": self._make_directories,
                "registration": self._registering.settle,
                "slices": self._topology.watch_slices,
                "configuration": self._topology.watch_configuration,
                **(following if self._follow_scalings else {}),
                "coordinators": self._election.settle,
            }
        )

    async def stop(self) -> None:
        """Closes the session, and with it our znodes. Takes a few seconds at most, also without ZooKeeper."""
        await self._reconciling.stop()
        self._registering.stop()
        await self._session.stop()

    async def register(self, registration: Registration, predecessor: int | None = None) -> None:
        """Announces this process, now and again after every expiry.

        Waits while ZooKeeper is away, and while a predecessor that was killed may still be listed; not for the
        incarnation that is known to be gone. Raises `NameTaken` when another process keeps the name.
        """
        await self._registering.register(registration, predecessor)

    async def lead(self) -> None:
        """Stands for election, now and again after every expiry; `Elected` and `Deposed` tell the result."""
        self._election.stand()

    async def read_configuration(self) -> tuple[Configuration | None, int]:
        """The stored configuration with its version; `(None, NO_VERSION)` when there is none."""
        return await self._topology.read_configuration()

    async def write_configuration(
        self, configuration: Configuration, expected_version: int, record: ScalingRecord | None = None
    ) -> int:
        """Replaces exactly the version that was read (`NO_VERSION`: there is none yet); returns the new version.

        The record of the scaling is written in the same transaction, both or neither; one that has ended moves to
        `scalings`. A candidate's write also checks there that its own znode exists: a leader that was deposed without
        knowing it changes nothing. Raises `StaleVersion`, `NotLeading`.
        """
        transaction = self._transaction_of_leader()
        self._add_configuration(transaction, configuration, expected_version)
        if record is not None:
            self._scalings.add_record(transaction, record)
        written = await self._commit(transaction)
        return 0 if expected_version == NO_VERSION else int(written[0].version)

    async def restore_configuration(self, configuration: Configuration, expected_version: int) -> None:
        """Puts back one that ZooKeeper has lost, with its map, over exactly the version that was read. Nobody needs to
        lead for it: slices wait for it. Raises `StaleVersion`.
        """
        await self._prepare()
        transaction = self._session.transaction()
        self._add_configuration(transaction, configuration, expected_version)
        if configuration.map is not None:
            await self._maps.add_to(transaction, configuration.map)
        _check_written(await self._session.commit(transaction))

    async def write_record(self, record: ScalingRecord) -> None:
        """The record alone, under the same conditions."""
        transaction = self._transaction_of_leader()
        self._scalings.add_record(transaction, record)
        await self._commit(transaction)

    async def ask_scaling(self, record: ScalingRecord, map: AnchorMap | None = None) -> None:
        """Asks for a scaling; the leading coordinator takes it from there. May be repeated with the same record.

        A map that it names is written with it. Raises `ScalingUnderWay` with the name of the one that runs.
        """
        await self._prepare()
        await self._scalings.ask(record, map)

    async def report(self, report: Report) -> None:
        """Says that this slice has done its part of a phase. May be repeated; the first one stays."""
        await self._scalings.report(report)

    async def show_progress(self, progress: Progress) -> None:
        await self._scalings.show_progress(progress)

    async def read_scaling(self, id: str) -> ScalingRecord | None:
        """The one that runs, or one that has ended."""
        return await self._scalings.read(id)

    async def read_running_scaling(self) -> ScalingRecord | None:
        return await self._scalings.read_running()

    async def list_scalings(self) -> list[ScalingRecord]:
        """The newest first."""
        await self._prepare()
        return await self._scalings.list_all()

    async def read_reports(self, change: str) -> tuple[Report, ...]:
        return await self._scalings.read_reports(change)

    async def read_progress(self, change: str) -> tuple[Progress, ...]:
        return await self._scalings.read_progress(change)

    async def read_map(self, version: str) -> AnchorMap | None:
        """None when it is not there, or damaged."""
        return (await self._maps.load([version])).get(version)

    async def sweep_scalings(self, keep: str | None) -> None:
        """For the leader: removes the reports of every change but this one, the oldest records, and maps that nobody
        names. Raises `NotLeading`.
        """
        await self._prepare()
        proof = self._election.proof()
        await self._scalings.sweep(keep)
        await self._maps.sweep(proof)

    def _add_configuration(self, transaction: Any, configuration: Configuration, expected_version: int) -> None:
        payload = znodes.encode(configuration)
        if expected_version == NO_VERSION:
            transaction.create(self._paths.configuration, payload)
        else:
            transaction.set_data(self._paths.configuration, payload, expected_version)

    def _transaction_of_leader(self) -> Any:
        transaction = self._session.transaction()
        transaction.check(self._election.proof(), -1)
        return transaction

    async def _commit(self, transaction: Any) -> list[Any]:
        """The results behind that of the leader's check."""
        await self._prepare()
        checked, *written = await self._session.commit(transaction)
        if isinstance(checked, NoNodeError):
            raise NotLeading("the session under which this process was elected is over")
        _check_written(written)
        return written

    def _on_state(self, state: SessionState) -> None:
        if state in ("begun", "restored"):
            if state == "restored":
                self._reconciling.emit(SessionRestored())
            self._reconciling.mark_all()
            return
        self._election.depose()
        if state == "suspended":
            self._reconciling.emit(SessionSuspended())
        else:
            self._prepared = False
            self._election.on_expired()
            self._registering.on_expired()
            self._reconciling.emit(SessionExpired())

    async def _prepare(self) -> None:
        if not self._prepared:
            await self._make_directories()

    async def _make_directories(self) -> None:
        for path in self._paths.directories():
            await self._session.ensure(path)
        self._prepared = True


def _check_written(results: list[Any]) -> None:
    """Raises `StaleVersion`, `CoordinationUnavailable`."""
    for result in results:
        if isinstance(result, (BadVersionError, NodeExistsError, NoNodeError)):
            raise StaleVersion(f"what is to be replaced is no longer what was read: {result!r}")
    for result in results:
        if isinstance(result, KazooException):
            raise CoordinationUnavailable(f"ZooKeeper refused the write: {result!r}")
