"""Time and memory of this process: wall and CPU side by side, resident bytes, percentiles."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import resource
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
_STATUS = "/proc/{}/status"


class Stopwatch:
    """`with Stopwatch() as watch:` … then `watch.wall` and `watch.cpu` (all threads) in seconds. Used
    again, it adds up: two programs measured in turns have met the same weather."""

    wall: float = 0.0
    cpu: float = 0.0

    def __enter__(self) -> Stopwatch:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall += time.perf_counter() - self._wall
        self.cpu += time.process_time() - self._cpu


@contextlib.contextmanager
def without_gc() -> Iterator[None]:
    """For short loops: no collection falls into them. Whole gateways are measured with it on, as they run."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def settle_memory() -> None:
    """Give back what can be given back, so that what stays is what is held."""
    for _ in range(3):
        gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)


def resident(process: int | None = None) -> int:
    """Bytes of this process, or of another one, in memory now."""
    return _status("VmRSS:", "self" if process is None else str(process))


def most_resident() -> int:
    """The most there ever were."""
    return _status("VmHWM:")


def _status(name: str, process: str = "self") -> int:
    path = Path(_STATUS.format(process))
    if not path.exists():
        # Elsewhere only the peak is known without further packages.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def spent(process: int) -> float:
    """Seconds of CPU of another process so far, with all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """On the loop that the gateway itself runs on."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work())
