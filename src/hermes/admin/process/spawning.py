"""A gateway as a process of its own: how it is started, what it says before it has a log, and how a terminal
finds the one of its home or starts it.

Two terminals that begin at the same moment may both start one: the lock on the home lets only the first be
it, and the other terminal attaches to that. A gateway that died is started again; one that somebody stopped
is not. A gateway that was started to stay is left to whoever looks after it for a while first."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hermes.admin.process.home_files import (
    GATEWAY,
    LOG_FILE,
    OUTPUT_FILE,
    LockHolder,
    home_holder,
    home_in_use,
    read_state,
)
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.entry.http.site.owner_socket import listening
from hermes.entry.terminal.usage import ASKED_TO_STOP
from hermes.state.home.homes import DEFAULT_PROFILE, PROFILES_FOLDER, prepare_home

WHILE_USED = "--while-used"
_MOST_STARTS = 5
_SILENT_SECONDS = 60.0
_LOOKED_AFTER_SECONDS = 5.0

Spawn = Callable[[], "subprocess.Popen[bytes]"]


def spawn_gateway(home: Path, environ: Mapping[str, str], *options: str) -> subprocess.Popen[bytes]:
    """A process of its own session, so that neither this terminal nor its Ctrl-C is its business."""
    profile = home.name if home.parent.name == PROFILES_FOLDER else DEFAULT_PROFILE
    words = ["-P", "-m", "hermes", "-p", profile, "gateway", "run", "--background", *options]
    given = {name: value for name, value in environ.items() if name != "HERMES_PROFILE"}
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW
    with os.fdopen(os.open(home / OUTPUT_FILE, flags, 0o600), "wb") as output:
        return subprocess.Popen(
            [sys.executable, *words],
            env=given | {"HERMES_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def read_output(home: Path) -> str:
    """What a gateway said before it had a log."""
    try:
        return (home / OUTPUT_FILE).read_text(encoding="utf-8", errors="replace")[-4000:]
    except OSError:
        return ""


def last_output(home: Path) -> str:
    """The last of it, on one line."""
    lines = [line.strip().removeprefix("hermes: ") for line in read_output(home).splitlines() if line.strip()]
    return one_line(" ".join(lines[-2:]), 500)


class GatewayNotStarted(UserError):
    """It ended before it answered, with this exit code."""

    def __init__(self, home: Path, code: int) -> None:
        why = last_output(home)
        super().__init__(
            f"The gateway did not start{f': {why}' if why else f' (exit code {code})'}",
            hint=f"Its log is {home / LOG_FILE}",
        )
        self.code = code if code > 0 else 1
        self.output = read_output(home)
        """What it said itself."""


class GatewayFinder:
    """The gateway of a home as a terminal finds it, again and again; `tell` hears what takes long."""

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str],
        tell: Callable[[str], None],
        spawn: Spawn | None = None,
    ) -> None:
        self._home = home
        self._environ = environ
        self._tell = tell
        self._spawn = spawn or (lambda: spawn_gateway(home, environ, WHILE_USED))
        self._child: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self._met = False
        self._away_since: float | None = None
        self._is_waiting = False

    def begin(self) -> None:
        """Start a gateway at once if none runs; it loads while this process does something else."""
        if home_holder(self._home) is None:
            self._start()

    def locate(self) -> Path | None:
        """Where the gateway answers; None if it does not yet. A `UserError` says why it will not."""
        holder = home_holder(self._home)
        now = time.monotonic()
        self._away_since = self._away_since or now
        if holder is None:
            self._look_after_home(now - self._away_since)
            return None
        place = listening(self._home, self._environ)
        if place is not None:
            self._met, self._starts, self._away_since = True, 0, None
            if self._child is not None and self._child.poll() is not None:
                self._child = None  # another's was quicker; how ours ended says nothing about later
            return place
        if now - self._away_since > _SILENT_SECONDS:
            raise silent_gateway(self._home, holder)
        return None

    def _look_after_home(self, seconds: float) -> None:
        """Nobody has the home: start a gateway, unless ours is about to take it or somebody wants none."""
        child = self._child
        if child is not None and child.poll() is None:
            self._tell_pause()
            return
        self._child = None
        if child is not None and child.returncode > 0:
            raise GatewayNotStarted(self._home, child.returncode)
        if self._starts >= _MOST_STARTS:
            raise GatewayNotStarted(self._home, 1)
        if not (self._met and self._is_left_alone(seconds)):
            self._start()

    def _is_left_alone(self, seconds: float) -> bool:
        state = read_state(self._home)
        if state.get("gateway_state") == "stopped" and state.get("exit_reason") == ASKED_TO_STOP:
            return True
        return not state.get("temporary") and seconds < _LOOKED_AFTER_SECONDS

    def _start(self) -> None:
        self._starts += 1
        prepare_home(self._home)
        self._child = self._spawn()

    def _tell_pause(self) -> None:
        if not self._is_waiting and " is waiting " in (said := last_output(self._home)):
            self._is_waiting = True
            self._tell(said)


def silent_gateway(home: Path, holder: LockHolder) -> UserError:
    if holder.what != GATEWAY:
        return home_in_use(home, holder)
    return UserError(
        f"The gateway of {home} ({holder}) does not answer yet.",
        hint=f"If it is starting, try again in a moment; its log is {home / LOG_FILE}",
    )
