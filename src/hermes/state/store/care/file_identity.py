"""The name of an open database file. Somebody may remove the file or its log, or put another there, while the
store has it open: what is written then is lost when the process ends. This notices it and
gives the content its name back; what stands there instead is kept under another."""

from __future__ import annotations

import logging
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import apsw

from hermes.state.home.wholefile import sync_file, sync_folder
from hermes.state.store.care.walfile import log_of
from hermes.state.store.sqlite import copy_pages

log = logging.getLogger("hermes.store")
LOOK_SECONDS = 1.0


def rescued(path: Path) -> Path:
    """Where the content is written before it gets its name."""
    return path.with_name(path.name + ".rescued")


class DatabaseFileGuard:
    """`path` is None where there is no file to lose."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None
        self._log: tuple[int, int] | None = None
        self._rescued: tuple[int, int] | None = None
        self._looked_at = 0.0
        self.is_lost = False

    def note_opened(self) -> None:
        """The file that has the name now is the one that is open."""
        if self._path is not None:
            self._identity, self._log = _identity(self._path), _identity(log_of(self._path))

    def note_closed(self) -> None:
        """SQLite may have removed the log by itself."""
        self._log = None

    def look(self) -> bool:
        """Whether the path of the database, or that of its log, now leads to a different file."""
        self._looked_at = time.monotonic()
        if self._path is not None and self._identity is not None:
            moved = _identity(self._path) != self._identity
            if moved or (self._log is not None and _identity(log_of(self._path)) != self._log):
                self.is_lost = True
        return self.is_lost

    def look_now_and_then(self) -> bool:
        return self.look() if time.monotonic() - self._looked_at > LOOK_SECONDS else self.is_lost

    def is_writable(self) -> bool:
        """Whether the file system lets us write: it may have turned read-only while nobody wrote."""
        return self._path is None or os.access(self._path, os.W_OK) or not self._path.exists()

    def rescue(self, connection: apsw.Connection) -> None:
        """Put all that the open file holds under its name again. Blocking."""
        path = self._path
        assert path is not None
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = rescued(path)
        draft.unlink(missing_ok=True)
        copy_pages(connection, draft)
        sync_file(draft)
        if _identity(path) not in (None, self._rescued, self._identity):
            path.replace(path.with_name(f"{path.name}.replaced-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"))
        for beside in (log_of(path), path.with_name(path.name + "-shm")):
            # Of the file that is gone: beside another they would spoil it.
            beside.unlink(missing_ok=True)
        draft.replace(path)
        sync_folder(path.parent)
        self._rescued = _identity(path)
        log.error("store.file_lost file=%s: it was removed or replaced; its content was saved", path)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
