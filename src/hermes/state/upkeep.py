"""The care of an open database file: the full check that was put off at the start, and a backup a day.
Everything here runs beside the writer and may fail without harm: it is logged and tried again."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError
from hermes.state.backup import backup_if_due
from hermes.state.sqlite import SqliteStore

log = logging.getLogger("hermes.store")


class Upkeep:
    def __init__(self, *, store: SqliteStore, path: Path, clock: Clock) -> None:
        self._store = store
        self._path = path
        self._clock = clock

    async def back_up(self) -> str:
        """A backup if the last one is older than a day, and only of a file that is known to be sound."""
        if self._store.facts.trouble:
            return "left out: the database has trouble"
        made = await asyncio.to_thread(backup_if_due, self._path, self._clock.now())
        return "nothing was due" if made is None else f"made {made.name}"

    async def examine(self) -> None:
        try:
            await self._store.check_integrity()
        except HermesError as error:
            log.error("store.damaged problem=%s", error)
