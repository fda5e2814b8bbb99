"""The database file under a running gateway. Its life: opened, on a full disk once there is room → checked in
the background if that was put off → followed: when somebody removes the file, the gateway begins anew on what
the store saved → backed up at the stop, and closed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hermes.control.chores import HOURLY, Chore
from hermes.control.workers import Supervisor
from hermes.domain.clock import Clock
from hermes.state.store.care.backup import Upkeep, backup
from hermes.state.store.care.repair import OpenedStore, open_checked
from hermes.state.store.sqlite import DiskFull, StoreOptions
from hermes.state.store.writer import SqliteStore

log = logging.getLogger("hermes.app")
_ROOM_SECONDS = 2.0


@dataclass(slots=True, kw_only=True)
class StoreLifecycle:
    """`tell` hears what it waits for, `stopping` and `hurrying` say that the gateway is to end, `restart`
    lets it begin anew."""

    path: Path
    clock: Clock
    options: StoreOptions
    tell: Callable[..., None]
    stopping: asyncio.Event
    hurrying: asyncio.Event
    restart: Callable[[], None]
    loops: Supervisor
    _upkeep: Upkeep = field(init=False)
    _store: SqliteStore = field(init=False)
    _tasks: list[asyncio.Task[None]] = field(init=False, default_factory=list)

    async def open(self) -> SqliteStore | None:
        """None if it is asked to stop while it waits for room."""
        opened = await self._when_there_is_room()
        if opened is None:
            return None
        for notice in opened.notices:
            log.warning("store.notice %s", notice)
        self.tell("starting", notices=list(opened.notices), waits="")
        self._store = opened.store
        self._upkeep = Upkeep(store=opened.store, path=self.path, clock=self.clock)
        self._tasks.append(self.loops.keep("database file", self._follow))
        if opened.check_later:
            self._tasks.append(self.loops.keep("database check", self._upkeep.examine))
        return opened.store

    @property
    def chore(self) -> Chore:
        return Chore(name="database backup", every=HOURLY, run=self._upkeep.back_up)

    async def copy(self) -> str:
        """The path of a copy of the database as it is now, among its backups."""
        return str(await asyncio.to_thread(backup, self.path, self.clock.now()))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        try:
            await self._upkeep.stop(hurry=self.hurrying.is_set())
        finally:
            # Who has lost the file's name saves its content by closing it.
            await self._store.close()

    async def _when_there_is_room(self) -> OpenedStore | None:
        while True:
            try:
                return await open_checked(self.path, self.clock, self.options)
            except DiskFull as error:
                log.warning("app.waits why=%s", error.message)
                self.tell("starting", waits=error.message)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), _ROOM_SECONDS)
                return None

    async def _follow(self) -> None:
        await self._store.lost.wait()
        log.error("app.database_lost file=%s: beginning anew on what was saved", self.path)
        self.restart()
