"""A file of spare bytes beside the database. When the disk is full it is given up, so that running turns
can still reach their records; accepts stay closed until it can be kept again."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

SIZE = 32 * 1024 * 1024
_TRY_EVERY = 1.0


class Reserve:
    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._size = 0
        self._given_up = False
        self._last_try = 0.0

    def keep(self) -> bool:
        """True if the reserve is there (or there is no disk to reserve on)."""
        if self._path is None or (not self._given_up and self._last_try):
            return True
        if self._given_up and time.monotonic() - self._last_try < _TRY_EVERY:
            return False
        self._last_try = time.monotonic()
        try:
            self._fill(self._path)
        except OSError:
            return not self._given_up
        self._given_up = False
        return True

    def give_up(self) -> None:
        self._given_up = True
        self._last_try = time.monotonic()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _fill(self, path: Path) -> None:
        # On a small disk the reserve is a tenth of what is free, so that it never is the reason for "full";
        # once given up, the whole of it must fit again before accepts open.
        self._size = self._size or max(4096, min(SIZE, shutil.disk_usage(path.parent).free // 10))
        if path.exists() and path.stat().st_size >= self._size:
            return
        with path.open("wb") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, self._size)
            except OSError:
                path.unlink(missing_ok=True)
                raise
