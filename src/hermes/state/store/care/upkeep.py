"""The care of an open database file: the full check that was put off at the start, a backup a day, and one
at a clean stop. Everything here runs beside the writer and may fail without harm: it is logged and tried
again. A stop waits a moment for its backup and no longer: a large file has that of its last daily round."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import apsw

from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError
from hermes.state.store.care.backup import backup_at_stop, backup_if_due
from hermes.state.store.writer import SqliteStore

log = logging.getLogger("hermes.store")
STOP_SECONDS = 3.0


class Upkeep:
    def __init__(self, *, store: SqliteStore, path: Path, clock: Clock) -> None:
        self._store = store
        self._path = path
        self._clock = clock
        self._until: float | None = None

    async def back_up(self) -> str:
        """A backup if the last one is older than a day, and only of a file that is known to be sound."""
        if self._store.facts.trouble:
            return "left out: the database has trouble"
        made = await asyncio.to_thread(backup_if_due, self._path, self._clock.now(), give_up=self._is_time_up)
        return "nothing was due" if made is None else f"made {made.name}"

    async def examine(self) -> None:
        try:
            await self._store.check_integrity()
        except HermesError as error:
            log.error("store.damaged problem=%s", error)

    async def stop(self, *, hurry: bool) -> None:
        """Make a backup of what happened since the last one, if that takes no longer than a moment; one that
        is being made has this moment too."""
        self._until = time.monotonic() + (0.0 if hurry else STOP_SECONDS)
        if hurry or self._store.facts.trouble:
            return
        try:
            # An accept looks first whether the file is still the one that is open: no other is backed up.
            await self._store.write(lambda tx: None, first=True)
            await asyncio.to_thread(backup_at_stop, self._path, self._clock.now(), give_up=self._is_time_up)
        except (HermesError, OSError, apsw.Error) as error:
            log.warning("store.no_backup why=%s", error)

    def _is_time_up(self) -> bool:
        return self._until is not None and time.monotonic() > self._until
