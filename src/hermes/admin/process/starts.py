"""The guard against storms of starts: a gateway that dies again and again as soon as it is started is started
ever more slowly, whoever starts it.

`gateway-starts.log` in the home has a line for every start that neither came to an end in order nor lived
long enough to be called healthy; either removes the file."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger("hermes.app")
STARTS_FILE = "gateway-starts.log"
STORM = 5
HEALTHY_SECONDS = 120.0
_FIRST_PAUSE = 5.0
_LONGEST_PAUSE = 300.0
_REMEMBERED = 3600.0
_MOST_BYTES = 65_536


class StartGuard:
    def __init__(self, home: Path, now: Callable[[], float] = time.time) -> None:
        self._path = home / STARTS_FILE
        self._now = now

    def pause(self) -> float:
        """Seconds to wait before the next start."""
        died = len(self._died())
        if died < STORM:
            return 0.0
        return float(min(_FIRST_PAUSE * 2 ** (died - STORM), _LONGEST_PAUSE))

    def wait(self, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep) -> None:
        seconds = self.pause()
        if not seconds:
            return
        died = len(self._died())
        told = f"{died} starts in a row died within {HEALTHY_SECONDS:g} s"
        log.warning("gateway.storm %s; waiting %g s", told, seconds)
        say(
            f"waiting {seconds:g} s before it starts: {told}. The log says why; "
            f"to start at once, remove {self._path}"
        )
        sleep(seconds)

    def begin(self) -> None:
        self._write([*self._died(), self._now()])

    def withdraw(self) -> None:
        """The start that has begun did not die: the settings did not let it be one."""
        self._write(self._died()[:-1])

    def _write(self, times: list[float]) -> None:
        with contextlib.suppress(OSError):  # a disk that is full is no reason not to start
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            with os.fdopen(os.open(self._path, flags, 0o600), "w") as file:
                file.write("".join(f"{at:.3f}\n" for at in times))

    def forget(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _died(self) -> list[float]:
        """When the starts were that are held against the next one. A clock that was set back counts none."""
        try:
            with self._path.open("rb") as file:
                words = file.read(_MOST_BYTES).decode("ascii", "replace").split()
        except OSError:
            return []
        now, found = self._now(), []
        for word in words:
            with contextlib.suppress(ValueError):
                found.append(float(word))
        return [at for at in found if 0 <= now - at < _REMEMBERED]
