"""Lines that were written before, kept in a file of the home. A file that cannot be used stops nothing."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

_KEPT = 1_000
_LONGEST = 10_000
_MOST_BYTES = 4_000_000


class LineHistory:
    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self) -> list[str]:
        if self._path is None:
            return []
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, self._path.stat().st_size - _MOST_BYTES))
                rows = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return []
        return [line for line in map(_line, rows[-_KEPT:]) if line]

    def add(self, line: str) -> None:
        """One row of JSON a line, so that a line with line breaks stays one."""
        if self._path is None or not line.strip() or len(line) > _LONGEST:
            return
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps(line).encode() + b"\n")


def _line(row: str) -> str:
    try:
        line = json.loads(row)
    except ValueError:
        return ""
    return line if isinstance(line, str) else ""
