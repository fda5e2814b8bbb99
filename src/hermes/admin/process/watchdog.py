"""Whether the gateway's event loop still turns, seen from a thread of its own; and what a service manager
hears.

The loop beats once a second. When the beats stay away the stacks of all threads are written to a file; when
they stay away for too long the process ends, so that whoever watches it can start it again: a gateway that
answers nobody is worse than one that is gone, and nothing it has accepted is lost. The same for a stop that
does not come to its end. A machine that was asleep is no stuck loop: the thread slept as well, and begins
anew. While native code keeps the interpreter to itself no thread runs: the kernel's timers do the same."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from hermes.domain.settings.settings import Settings

log = logging.getLogger("hermes.app")
STACKS_FILE = "logs/gateway-stuck.log"
EXIT_STUCK = 1
"""As for any failure: a service starts it again."""
NOTIFY_VARIABLE = "NOTIFY_SOCKET"
_BEAT = 1.0
_SUSPICIOUS = 5.0
_LEAVING = 60.0
_MOST_BYTES = 5_000_000


class SystemdNotifier:
    """Tells systemd how we are, if it listens (`Type=notify`, `WatchdogSec=`)."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get(NOTIFY_VARIABLE, "")
        meant = environ.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        usec = environ.get("WATCHDOG_USEC", "")
        self.watched = float(usec) / 1_000_000 if meant and usec.isascii() and usec.isdigit() else 0.0
        """Seconds without a ping after which systemd ends us; 0 if it does not."""

    def tell(self, text: str) -> None:
        if not self._address:
            return
        # "@" stands for the zero byte with which a name without a file begins.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.setblocking(False)
            line.sendto(text.encode(), address)


class Watchdog:
    def __init__(
        self,
        home: Path,
        settings: Settings,
        notify: SystemdNotifier,
        end: Callable[[int], object] = os._exit,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stacks = home / STACKS_FILE
        self._patience = settings.gateway.stuck_seconds
        self._grace = settings.agent.restart_drain_timeout
        self._notify = notify
        self._end = end
        self._now = now
        self._beaten: float | None = None
        self._limit: float | None = None
        self._looked = now()
        self._warned = False
        self._held = _HeldInterpreter(self._stacks, self._patience)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._held.open()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
        self._held.close()

    async def beat(self) -> None:
        """The loop's own side: as long as this runs, the loop turns."""
        every = min(_BEAT, self._notify.watched / 2 or _BEAT)
        try:
            while True:
                self._beaten = self._now()
                if self._notify.watched:
                    self._notify.tell("WATCHDOG=1")
                await asyncio.sleep(every)
        finally:
            self._beaten = None

    def told(self, state: str) -> None:
        """What the gateway says of itself."""
        if state == "running":
            self._notify.tell("READY=1\nSTATUS=running")
        elif state == "draining":
            self._notify.tell("STOPPING=1\nSTATUS=coming to rest")
            # Turns and lanes have the grace each.
            self._limit = self._now() + 2 * self._grace + _LEAVING

    def look(self) -> None:
        """One look of the thread's."""
        now, before = self._now(), self._looked
        self._looked = now
        if now - before > 2 * _SUSPICIOUS:
            self._beaten = None if self._beaten is None else now
            return
        if self._limit is not None and now > self._limit:
            self._give_up("the stop does not come to its end")
            return
        silent = 0.0 if self._beaten is None else now - self._beaten
        if silent < _SUSPICIOUS:
            self._warned = False
        elif not self._warned:
            self._warned = True
            log.error("watchdog.stuck seconds=%.0f stacks=%s", silent, self._stacks)
            self._dump(f"the loop has not turned for {silent:.0f} s")
        if self._patience and silent > self._patience:
            self._give_up(f"the loop has not turned for {silent:.0f} s")

    def _watch(self) -> None:
        while not self._over.wait(_BEAT):
            self.look()
            self._held.put_off()

    def _give_up(self, why: str) -> None:
        log.critical("watchdog.ends why=%s", why)
        self._dump(f"ended: {why}")
        self._end(EXIT_STUCK)

    def _dump(self, why: str) -> None:
        with contextlib.suppress(OSError):
            large = self._stacks.exists() and self._stacks.stat().st_size > _MOST_BYTES
            with self._stacks.open("w" if large else "a") as file:
                file.write(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} process {os.getpid()}: {why}\n")
                file.flush()
                faulthandler.dump_traceback(file, all_threads=True)


class _HeldInterpreter:
    """Acts without the interpreter: timers of the kernel, and handlers that need no Python. The timers count
    the CPU time of the process, so one that is stopped or frozen is not taken for a stuck one."""

    def __init__(self, stacks: Path, patience: float) -> None:
        self._stacks = stacks
        self._patience = patience
        self._file: BinaryIO | None = None

    def open(self) -> None:
        with contextlib.suppress(OSError):
            # Kept open: a handler can write to it, and not open it.
            self._file = self._stacks.open("ab", buffering=0)
            faulthandler.register(signal.SIGVTALRM, self._file)
            # What comes after the stacks is the signal's usual effect: the end of the process.
            faulthandler.register(signal.SIGPROF, self._file, chain=True)

    def put_off(self) -> None:
        """The thread runs, so the interpreter is free: count from zero."""
        if self._file is not None:
            signal.setitimer(signal.ITIMER_VIRTUAL, _SUSPICIOUS + _BEAT)
            signal.setitimer(signal.ITIMER_PROF, self._patience + 2 * _BEAT if self._patience else 0)

    def close(self) -> None:
        if self._file is None:
            return
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.unregister(signal.SIGVTALRM)
        faulthandler.unregister(signal.SIGPROF)
        self._file.close()
        with contextlib.suppress(OSError):
            if self._stacks.stat().st_size == 0:
                self._stacks.unlink()
