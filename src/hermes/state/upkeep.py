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
_EVERY_SECONDS = 3600.0


class Upkeep:
    def __init__(self, *, store: SqliteStore, path: Path, clock: Clock, check: bool) -> None:
        self._store = store
        self._path = path
        self._clock = clock
        self._check = check

    async def live(self) -> None:
        if self._check:
            await self._examine()
        while True:
            await self.back_up()
            await self._clock.sleep(_EVERY_SECONDS)

    async def back_up(self) -> None:
        """A backup if the last one is older than a day, and only of a file that is known to be sound."""
        if self._store.facts.trouble:
            return
        try:
            await asyncio.to_thread(backup_if_due, self._path, self._clock.now())
        except HermesError as error:
            log.warning("store.backup problem=%s", error)

    async def _examine(self) -> None:
        try:
            await self._store.check_integrity()
        except HermesError as error:
            log.error("store.damaged problem=%s", error)
