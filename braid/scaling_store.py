"""Scalings in ZooKeeper: who asks for one, who reports, who follows it, and where its record goes in the end."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
import structlog

from braid import znodes
from braid.anchor_map import AnchorMap
from braid.coordination_events import CoordinationUnavailable, ReportsChanged, ScalingChanged, ScalingUnderWay
from braid.map_store import MapStore
from braid.reconciling import Reconciling
from braid.scaling import Progress, Report, ScalingRecord
from braid.topology import Configuration
from braid.zookeeper_session import KazooException, NodeExistsError, NoNodeError, NotEmptyError, ZooKeeperSession

log = structlog.get_logger()

RECORDS_MAX = 100  # of scalings that have ended
TRIES_MAX = 5  # for what only fails when somebody else changes the same znode in that moment

T = TypeVar("T")


class ScalingStore:
    def __init__(
        self, session: ZooKeeperSession, paths: znodes.Paths, reconciling: Reconciling, maps: MapStore
    ) -> None:
        self._session = session
        self._paths = paths
        self._reconciling = reconciling
        self._maps = maps
        self._record: tuple[ScalingRecord | None] | None = None  # told last; None: nothing yet
        self._change: str | None = None  # that the configuration names
        self._told: ReportsChanged | None = None
        self._reports: dict[str, Report] = {}  # of the change that is followed, by name of their znodes

    async def ask(self, record: ScalingRecord, map: AnchorMap | None = None) -> None:
        """With the map that it names: both stand there, or neither does."""
        if not znodes.is_scaling_id(record.id):
            raise ValueError(f"'{record.id}' cannot be the name of a scaling")
        for _ in range(TRIES_MAX):
            transaction = self._session.transaction()
            # Created and deleted: ZooKeeper has no check that a znode is not there, and a record is never asked twice.
            transaction.create(self._paths.ended(record.id), b"")
            transaction.delete(self._paths.ended(record.id))
            transaction.create(self._paths.scaling, znodes.encode(record))
            if map is not None:
                await self._maps.add_to(transaction, map)
            ended, _, created, *mapped = await self._session.commit(transaction)
            if isinstance(ended, NodeExistsError):
                return  # an earlier attempt of ours has even ended
            if not isinstance(created, KazooException):
                return
            if any(isinstance(result, (NodeExistsError, NoNodeError)) for result in mapped):
                continue  # the map came or went in this moment
            if not isinstance(created, NodeExistsError):
                raise CoordinationUnavailable(f"ZooKeeper refused the scaling: {ended!r}, {created!r}")
            running = await self.read_running()
            if running is not None and running.id == record.id:
                return
            if running is not None:
                raise ScalingUnderWay(running.id)
        raise CoordinationUnavailable(f"{self._paths.scaling} cannot be read; if it stays so, remove it")

    async def report(self, report: Report) -> None:
        """Written once: one that is there already is left as it is."""
        path = self._paths.report(report.change, report.step, report.slice)
        for _ in range(TRIES_MAX):
            if await self._create(path, znodes.encode(report), report.change):
                return
        raise CoordinationUnavailable(f"{path} could not be created: its directory goes away again and again")

    async def show_progress(self, progress: Progress) -> None:
        path, payload = self._paths.progress(progress.change, progress.slice), znodes.encode(progress)
        for _ in range(TRIES_MAX):
            try:
                await self._session.set(path, payload)
                return
            except NoNodeError:
                if await self._create(path, payload, progress.change):
                    return
        raise CoordinationUnavailable(f"{path} could not be written: its directory goes away again and again")

    async def read(self, id: str) -> ScalingRecord | None:
        if not znodes.is_scaling_id(id):
            return None
        running = await self.read_running()  # first, because it may end in this moment
        if running is not None and running.id == id:
            return running
        (record,) = await self._read_all([self._paths.ended(id)], znodes.decode_record)
        return record

    async def read_running(self) -> ScalingRecord | None:
        (record,) = await self._read_all([self._paths.scaling], znodes.decode_record)
        return record

    async def list_all(self) -> list[ScalingRecord]:
        running = await self.read_running()
        ended = await self._read_ended()
        return [record for record in (running, *ended) if record is not None]

    async def read_reports(self, change: str) -> tuple[Report, ...]:
        names = [name for name in await self._children(change) if not _is_progress(name)]
        paths = [f"{self._paths.change(change)}/{name}" for name in names]
        return tuple(filter(None, await self._read_all(paths, znodes.decode_report)))

    async def read_progress(self, change: str) -> tuple[Progress, ...]:
        names = filter(_is_progress, await self._children(change))
        paths = [f"{self._paths.change(change)}/{name}" for name in names]
        return tuple(filter(None, await self._read_all(paths, znodes.decode_progress)))

    def add_record(self, transaction: Any, record: ScalingRecord) -> None:
        """Adds the writing of the record; one that has ended moves to the others that have."""
        if record.state == "running":
            transaction.set_data(self._paths.scaling, znodes.encode(record))
        else:
            transaction.create(self._paths.ended(record.id), znodes.encode(record))
            transaction.delete(self._paths.scaling)

    async def sweep(self, keep: str | None) -> None:
        """Removes the reports of every change but one, and the oldest records. What comes late goes the next time."""
        for change in await self._session.children(self._paths.changes):
            if change != keep:
                paths = [f"{self._paths.change(change)}/{name}" for name in await self._children(change)]
                for path in (*paths, self._paths.change(change)):
                    await self._remove(path)
        names = await self._session.children(self._paths.scalings)
        if len(names) > RECORDS_MAX:
            kept = {record.id for record in (await self._read_ended())[:RECORDS_MAX]}
            for name in names:
                if name not in kept:
                    await self._remove(self._paths.ended(name))

    # Following: called by the reconciliation.

    def on_configuration(self, configuration: Configuration | None) -> None:
        change = configuration.change.id if configuration is not None and configuration.change is not None else None
        if change != self._change:
            self._change = change
            self._reconciling.mark("reports")

    async def watch_scaling(self) -> None:
        # `exists` and not `get`: it also watches for a znode that is not there yet.
        await self._session.exists(self._paths.scaling, self._reconciling.watch("scaling"))
        record = await self.read_running()
        if self._record != (record,):
            self._record = (record,)
            self._reconciling.emit(ScalingChanged(record))
            self._reconciling.mark("reports")

    async def watch_reports(self) -> None:
        record = self._record[0] if self._record is not None else None
        change = self._change or (record.id if record is not None else None)
        if change is None:
            return
        watch, path = self._reconciling.watch("reports"), self._paths.change(change)
        try:
            names = sorted(await self._session.children(path, watch))
        except NoNodeError:
            names = []
            if await self._session.exists(path, watch):
                self._reconciling.mark("reports")  # it came in this moment
        if self._told is None or self._told.change != change:
            self._reports = {}
        # Reports are written once, so each is read once; those that are missing here may be there the next time.
        new = [name for name in names if not _is_progress(name) and name not in self._reports]
        found = await self._read_all([f"{path}/{name}" for name in new], znodes.decode_report)
        self._reports.update({name: report for name, report in zip(new, found, strict=True) if report is not None})
        told = ReportsChanged(change, tuple(self._reports.values()), await self.read_progress(change))
        if told != self._told:
            self._told = told
            self._reconciling.emit(told)

    async def _create(self, path: str, payload: bytes, change: str) -> bool:
        """One that is there already stays. False when the directory of the change was missing; then it is there now."""
        try:
            await self._session.create(path, payload)
        except NodeExistsError:
            pass
        except NoNodeError:
            await self._session.ensure(self._paths.change(change))
            return False
        return True

    async def _children(self, change: str) -> list[str]:
        try:
            return sorted(await self._session.children(self._paths.change(change)))
        except NoNodeError:
            return []

    async def _read_ended(self) -> list[ScalingRecord]:
        """The newest first."""
        names = await self._session.children(self._paths.scalings)
        found = await self._read_all([self._paths.ended(name) for name in names], znodes.decode_record)
        return sorted(filter(None, found), key=lambda record: (record.asked_s, record.id), reverse=True)

    async def _read_all(self, paths: Iterable[str], decode: Callable[[bytes], T]) -> list[T | None]:
        """None for what is not there, and for what cannot be read: that is left out, loudly."""
        paths = list(paths)
        found: list[T | None] = []
        for path, payload in zip(paths, await self._session.get_all(paths), strict=True):
            try:
                found.append(decode(payload) if payload is not None else None)
            except msgspec.MsgspecError as error:
                log.error("a znode cannot be read and is left out", path=path, error=str(error))
                found.append(None)
        return found

    async def _remove(self, path: str) -> None:
        try:
            await self._session.delete(path)
        except NoNodeError:
            pass  # somebody was faster
        except NotEmptyError:
            log.info("a report came late and stays for a while", path=path)


def _is_progress(name: str) -> bool:
    return name.startswith(f"{znodes.PROGRESS}:")
