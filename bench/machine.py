"""What the figures were measured on: enough to judge whether two tables may be compared."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from pathlib import Path

import apsw

_TIMES = 50


def machine(folder: Path | None) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "sync_ms": round(_sync_seconds(folder) * 1e3, 2),
    }


def _sync_seconds(folder: Path | None) -> float:
    """The median time of a write of 4 KB that is forced to the disk."""
    times: list[float] = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(_TIMES):
            began = time.perf_counter()
            os.pwrite(file.fileno(), b"x" * 4096, 0)
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    return sorted(times)[_TIMES // 2]
