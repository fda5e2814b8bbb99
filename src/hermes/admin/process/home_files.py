"""The files by which others know of the gateway of a home: the lock, which only a living process can hold and
which says who does; what the gateway says of itself; its log. Light, for every command looks at them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.state.home.homes import RESTORING

LOCK_FILE = "gateway.lock"
PID_FILE = "gateway.pid"
STATE_FILE = "gateway_state.json"
LOG_FILE = "logs/gateway.log"
OUTPUT_FILE = "logs/gateway.out"
"""What a gateway in the background says before it has a log."""
GATEWAY = "gateway"
RESTORE = "hermes backup restore"
HALF_RESTORED = f"{RESTORING}/ready"
_LOCK_PATIENCE = 3.0


def read_state(home: Path) -> dict[str, Any]:
    """What the last gateway said of itself; empty if there was none, or it cannot be read."""
    try:
        told = json.loads((home / STATE_FILE).read_bytes()[:1_000_000])
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


class LockHolder(Struct, frozen=True, kw_only=True):
    """The process that has a home locked; `what` is the gateway or a command that is done in a moment."""

    what: str
    pid: int = 0
    since: datetime | None = None

    def __str__(self) -> str:
        process = f"process {self.pid}, " if self.pid else ""
        since = f"since {self.since.astimezone():%Y-%m-%d %H:%M:%S}" if self.since else "just started"
        return f"{process}{since}"


def check_not_half_restored(home: Path) -> None:
    if os.path.exists(home / HALF_RESTORED):  # a home that cannot be read is told of by who reads it
        raise UserError(f"A restore of {home} was interrupted.", hint="Finish it: hermes backup restore")


@contextlib.contextmanager
def hold_home(home: Path, what: str) -> Iterator[None]:
    """Be the one process that works on a home, or say who does. The kernel ends this with the process. On
    a home that is half restored, only what finishes that may work."""
    if what != RESTORE:
        check_not_half_restored(home)
    with _lock_file(home, os.O_RDWR | os.O_CREAT) as descriptor:
        patience = time.monotonic() + _LOCK_PATIENCE
        while not _flock(descriptor, fcntl.LOCK_EX, home):
            holder = _read_holder(descriptor)
            # A command is done in a moment, and a gateway that has just begun tells its name in a moment.
            if (holder.what == GATEWAY and _alive(holder.pid)) or time.monotonic() > patience:
                raise home_in_use(home, holder)
            time.sleep(0.05)
        _sign(descriptor, home, what)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)


def _sign(descriptor: int, home: Path, what: str) -> None:
    """Say in the lock who has it. On a full disk the reserve is given up for that, or it stays unsaid: the
    lock holds all the same."""
    from hermes.state.store.care.reserve import give_up_reserve

    said = {"what": what, "pid": os.getpid(), "since": datetime.now(UTC).isoformat()}
    for _ in range(2):
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(said).encode(), 0)
            return
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            if not give_up_reserve(home):
                logging.getLogger("hermes.app").warning("gateway.unsigned why=%s", error.strerror)
                return


def home_holder(home: Path) -> LockHolder | None:
    """Who has the home locked at this moment."""
    if not (home / LOCK_FILE).exists():
        return None
    with _lock_file(home, os.O_RDONLY) as descriptor:
        return None if _flock(descriptor, fcntl.LOCK_SH, home) else _read_holder(descriptor)


@contextlib.contextmanager
def _lock_file(home: Path, flags: int) -> Iterator[int]:
    path = home / LOCK_FILE
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(
            f"{path} cannot be opened ({error.strerror}).",
            hint="Check the owner and the permissions of the home.",
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _flock(descriptor: int, kind: int, home: Path) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise UserError(
            f"{home} cannot be locked ({error.strerror}).", hint="Put the home on a local disk."
        ) from error
    return True


def _read_holder(descriptor: int) -> LockHolder:
    try:
        said = json.loads(os.pread(descriptor, 4096, 0))
        since = datetime.fromisoformat(said["since"])
        return LockHolder(what=str(said["what"]), pid=int(said["pid"]), since=since)
    except (ValueError, TypeError, LookupError):
        return LockHolder(what="another Hermes process")


class HomeInUse(UserError):
    """Another process works on the home."""


def home_in_use(home: Path, holder: LockHolder) -> HomeInUse:
    if holder.what == GATEWAY:
        return HomeInUse(
            f"A gateway already runs on {home} ({holder}).",
            hint="`hermes status` shows it; stop it first with: hermes gateway stop",
        )
    return HomeInUse(f"{holder.what} works on {home} ({holder}).", hint="Try again when it is done.")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid > 0


def is_temporary(home: Path) -> bool:
    """Whether the gateway that runs was started by a terminal and leaves with its last one."""
    state, holder = read_state(home), home_holder(home)
    return holder is not None and state.get("pid") == holder.pid and bool(state.get("temporary"))
