"""A file of spare bytes beside the database. When the disk is full it is given up, so that running turns
can still reach their records; accepts stay closed until it can be kept again."""

from __future__ import annotations

import logging
import os
import shutil
import time
from pathlib import Path

log = logging.getLogger("hermes.store")

FILE = "reserve.bin"
SIZE = 32 * 1024 * 1024
_TRY_EVERY = 1.0
_CHUNK = bytes(64 * 1024)


def give_up_reserve(home: Path) -> bool:
    """Make room on a full disk for a process that is to start, and holds the home; whether there was any to
    make. The store keeps a new one once it can."""
    try:
        (home / FILE).unlink()
    except OSError:
        return False
    log.warning("reserve.given_up home=%s: the disk is full", home)
    return True


class DiskReserve:
    def __init__(self, path: Path | None, most: int = SIZE) -> None:
        self._path = path if most else None
        self._most = most
        self._size = 0
        self._tried_at: float | None = None
        self.given_up = False

    def keep(self) -> bool:
        """True if the reserve is there (or there is no disk to reserve on)."""
        now = time.monotonic()
        if self._path is None or (self._tried_at is not None and not self.given_up):
            return True
        if self._tried_at is not None and now - self._tried_at < _TRY_EVERY:
            return False
        self._tried_at = now
        try:
            self._fill(self._path)
        except OSError as problem:
            log.debug("reserve.not_kept problem=%s", problem)
            return not self.given_up
        self.given_up = False
        return True

    def give_up(self) -> None:
        self.given_up = True
        self._tried_at = time.monotonic()
        try:
            if self._path is not None:
                self._path.unlink(missing_ok=True)
        except OSError as problem:
            log.warning("reserve.stays problem=%s", problem)

    def _fill(self, path: Path) -> None:
        # On a small disk the reserve is a tenth of what is free, so that it never is the reason for "full";
        # once given up, the whole of it must fit again before accepts open.
        self._size = self._size or max(4096, min(self._most, SIZE, shutil.disk_usage(path.parent).free // 10))
        if path.exists() and path.stat().st_size >= self._size:
            return
        try:
            self._allocate(path, self._size)
        except OSError:
            path.unlink(missing_ok=True)
            raise

    def _allocate(self, path: Path, size: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
                return
            for start in range(0, size, len(_CHUNK)):
                file.write(_CHUNK[: size - start])
